"""Records what Flink's serializers write: ``python -m tests.contract.formats.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its Avro from Maven. The time zone is UTC.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.contract.formats.cases import cases
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

HERE = Path(__file__).parent
VECTORS = HERE / "flink_2.3_bytes.json"


def main() -> None:
    home = flink_environment().home
    places = (home / "lib", home / "opt", fetched(HERE / "pom.xml", "flink-avro"))
    path = os.pathsep.join(f"{place}/*" for place in places)
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.json"), Path(directory, "bytes.json")
        given.write_text(json.dumps(cases()))
        command = [java(), "-Duser.timezone=UTC", "-cp", path, str(HERE / "RecordBytes.java"), str(given), str(written)]
        subprocess.run(command, check=True, timeout=300)
        found = json.loads(written.read_text())
    VECTORS.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=True) for one in found) + "\n]\n")


if __name__ == "__main__":
    main()
