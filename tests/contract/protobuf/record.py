"""Records what Flink's Protobuf format reads and writes: ``python -m tests.contract.protobuf.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its Protobuf format and protoc, whose
classes of the messages it needs, from Maven.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.contract.protobuf.cases import HERE, PACKAGES, cases
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

RECORD = HERE / "flink_2.3_protobuf.json"
_LIMIT_S = 300


def main() -> None:
    home = flink_environment().home
    jars = fetched(HERE / "pom.xml", "flink-protobuf")
    places = (home / "lib", home / "opt", jars)
    (protoc,) = jars.glob("protoc-*.exe")
    protoc.chmod(0o755)
    with tempfile.TemporaryDirectory() as directory:
        sources, classes = Path(directory, "sources"), Path(directory, "classes")
        sources.mkdir()
        files = [str(HERE / f"{file}.proto") for file in PACKAGES]
        subprocess.run([str(protoc), f"-I{HERE}", f"--java_out={sources}", *files], check=True, timeout=_LIMIT_S)
        path = os.pathsep.join([*(f"{place}/*" for place in places), str(classes)])
        compiled = [str(HERE / "RecordProtobuf.java"), *map(str, sources.rglob("*.java"))]
        subprocess.run([f"{java()}c", "-cp", path, "-d", str(classes), *compiled], check=True, timeout=_LIMIT_S)
        given, found = Path(directory, "cases.json"), Path(directory, "found.json")
        given.write_text(json.dumps(cases()))
        command = [java(), "-cp", path, "RecordProtobuf", str(given), str(found)]
        subprocess.run(command, check=True, timeout=_LIMIT_S)
        told = json.loads(found.read_text())
    RECORD.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=True) for one in told) + "\n]\n")


if __name__ == "__main__":
    main()
