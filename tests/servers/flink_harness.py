"""Runs a Java program over cases with Flink's harness for operators, with a JDK and Maven: there the clock and the watermark are set by hand.

Flink comes from the package index (``flink_environment.py``), its harness from Maven.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.flink_environment import flink_environment
from tests.servers.jars import fetched, java

POM = Path(__file__).parent.parent / "contract" / "triggers" / "pom.xml"


def found_by(program: Path, cases: Sequence[dict[str, Any]], limit_s: float) -> list[dict[str, Any]]:
    """Returns what a Java program, which is given two files, writes for each case. ``limit_s``: of compiling it, and of running it."""
    path = os.pathsep.join(f"{place}/*" for place in (fetched(POM, "flink-harness"), flink_environment().home / "lib"))
    with tempfile.TemporaryDirectory() as directory:
        given, written = Path(directory, "cases.json"), Path(directory, "found.json")
        given.write_text(json.dumps(cases))
        compiler = str(Path(java()).with_name("javac")) if os.sep in java() else "javac"
        compile_ = [compiler, "-nowarn", "-cp", path, "-d", directory, str(program)]
        run = [java(), "-cp", f"{directory}{os.pathsep}{path}", program.stem, str(given), str(written)]
        for command in (compile_, run):  # compiled first: Flink loads the functions by their classes' names
            subprocess.run(command, check=True, timeout=limit_s)
        found: list[dict[str, Any]] = json.loads(written.read_text())
    return found
