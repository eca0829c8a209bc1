"""Records what Flink 2.3's operators of tables emit: ``python -m tests.contract.table_state.record``, with a JDK and Maven; takes some minutes.
A case that is there already is not recorded again.

Flink comes from the package index (``tests/servers/flink_environment.py``), its harness for operators from Maven: there the clock is set by hand, so that what
expires does so at its millisecond.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.table_state.cases import cases
from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

HERE = Path(__file__).parent
RECORDING = HERE / "operators.json.xz"


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


def same(one: dict[str, Any]) -> str:
    """Returns what tells a case from others."""
    return json.dumps([one[name] for name in ("name", "query", "tables", "options", "runs")])


def main() -> None:
    home = flink_environment().home
    harness = fetched(HERE.parent / "triggers" / "pom.xml", "flink-harness")
    path = os.pathsep.join(f"{place}/*" for place in (harness, home / "lib"))
    done = {same(one): one for one in recorded()} if RECORDING.exists() else {}
    every = cases()
    made = [one for one in every if same(one) not in done]
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.json"), Path(directory, "changes.json")
        given.write_text(json.dumps(made))
        compiler = str(Path(java()).with_name("javac")) if os.sep in java() else "javac"
        compile_ = [compiler, "-nowarn", "-cp", path, "-d", directory, str(HERE / "RecordOperators.java")]
        run = [java(), "-cp", f"{directory}{os.pathsep}{path}", "RecordOperators", str(given), str(written)]
        for command in (compile_, run):  # compiled first: Flink loads the functions by their classes' names
            subprocess.run(command, check=True, timeout=1500)
        found = json.loads(written.read_text())
    done |= {same(case): case | one for case, one in zip(made, found, strict=True) if "failed" not in one}
    kept = [done[same(one)] for one in every if same(one) in done]
    RECORDING.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))
    print(len(kept), "cases,", len(every) - len(kept), "failed")


if __name__ == "__main__":
    main()
