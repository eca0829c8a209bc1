"""Finds Java and checks its version, before Spark would fail without it with a long trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tidegate.model.errors import ExternalError

OLDEST = 17
"""Lowest major version of Java that PySpark 4 supports."""
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ADVICE = f"Spark needs Java {OLDEST} or newer: install one (such as the package default-jre-headless) or set JAVA_HOME"


def find_java(java_home: str | None = None) -> Path:
    """Returns the ``java`` program that Spark will run, found as Spark finds it. Raises ``ExternalError`` when there is none."""
    home = java_home if java_home is not None else os.environ.get("JAVA_HOME", "")
    if home:
        program = Path(home, "bin", "java")
        if not os.access(program, os.X_OK):
            raise ExternalError(f"JAVA_HOME is {home}, but {program} cannot be run. {_ADVICE}")
        return program
    found = shutil.which("java")
    if found is None:
        raise ExternalError(f"there is no java on the PATH, and JAVA_HOME is not set. {_ADVICE}")
    return Path(found)


def check_java(program: Path) -> int:
    """Returns the major version of Java. Raises ``ExternalError`` when the program does not run or is too old."""
    try:
        completed = subprocess.run(
            [program, "-XX:-UsePerfData", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            start_new_session=True,  # Ctrl-C is for us: it would end without a word, and be called no Java
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExternalError(f"{program} does not run: {error}. {_ADVICE}") from error
    version = parse_version(completed.stderr + completed.stdout)
    if version is None:
        said = (completed.stderr or completed.stdout).strip().splitlines()[:1]
        raise ExternalError(
            f"{program} -version says {said[0] if said else 'nothing'!r}, which is no version. {_ADVICE}"
        )
    if version < OLDEST:
        raise ExternalError(f"{program} is Java {version}. {_ADVICE}")
    return version


def parse_version(text: str) -> int | None:
    """Returns the major version in the output of ``java -version``: 8 for ``1.8.0_392``, 17 for ``17.0.15``."""
    found = _VERSION.search(text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major
