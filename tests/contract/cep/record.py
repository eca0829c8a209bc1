"""Records what Flink's CEP operator finds: ``python -m tests.contract.cep.record``, with a JDK and Maven; takes a minute.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven. Cases with very many matches, and
those in which Flink's operator fails, are left out.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path

from tests.contract.cep.cases import cases
from tests.contract.cep.patterns import MATCHES
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

HERE = Path(__file__).parent
LARGEST = 6_000
"""Characters of what is found in a case."""


def main() -> None:
    home = flink_environment().home
    harness = fetched(HERE.parent / "triggers" / "pom.xml", "flink-harness")
    path = os.pathsep.join(f"{place}/*" for place in (harness, home / "lib"))
    made = cases()
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.json"), Path(directory, "matches.json")
        given.write_text(json.dumps(made))
        compiler = str(Path(java()).with_name("javac")) if os.sep in java() else "javac"
        compile_ = [compiler, "-nowarn", "-cp", path, "-d", directory, str(HERE / "RecordMatches.java")]
        run = [java(), "-cp", f"{directory}{os.pathsep}{path}", "RecordMatches", str(given), str(written)]
        for command in (compile_, run):  # compiled first: Flink loads the functions by their classes' names
            subprocess.run(command, check=True, timeout=300)
        found = json.loads(written.read_text())
    kept = [
        case | one
        for case, one in zip(made, found, strict=True)
        if "failed" not in one and len(json.dumps(one)) <= LARGEST
    ]
    lines = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in kept) + "\n]\n"
    MATCHES.write_bytes(lzma.compress(lines.encode()))
    failed = sum("failed" in one for one in found)
    print(len(kept), "of", len(made), "cases,", sum("refused" in one for one in kept), "refused,", failed, "failed")


if __name__ == "__main__":
    main()
