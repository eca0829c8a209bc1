"""Records what Flink's window operator emits: ``python -m tests.contract.triggers.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.contract.triggers.cases import cases
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

HERE = Path(__file__).parent
FIRINGS = HERE / "flink_2.3_firings.json"


def main() -> None:
    home = flink_environment().home
    path = os.pathsep.join(f"{place}/*" for place in (fetched(HERE / "pom.xml", "flink-harness"), home / "lib"))
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.json"), Path(directory, "firings.json")
        given.write_text(json.dumps(cases()))
        compiler = str(Path(java()).with_name("javac")) if os.sep in java() else "javac"
        compile_ = [compiler, "-nowarn", "-cp", path, "-d", directory, str(HERE / "RecordFirings.java")]
        run = [java(), "-cp", f"{directory}{os.pathsep}{path}", "RecordFirings", str(given), str(written)]
        for command in (compile_, run):  # compiled first: Flink loads the functions by their classes' names
            subprocess.run(command, check=True, timeout=300)
        found = json.loads(written.read_text())
    FIRINGS.write_text("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in found) + "\n]\n")


if __name__ == "__main__":
    main()
