"""Finds Java and the jars of Flink that planning needs.

The jars come with the package ``apache-flink-libraries`` (extra ``table``), or lie in ``$FLINK_HOME/lib`` of a Flink of the same minor version.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.table._planner.errors import PlannerUnavailable

FLINK_MINOR = "2.3"
PACKAGE = "apache-flink-libraries"
JAVA_AT_LEAST = 17
_INSTALL = 'pip install "tidegate[table]" (358 MB of jars)'
_NEEDED = ("flink-dist", "flink-table-api-java-uber", "flink-table-runtime", "flink-cep")
"""Jars that planning needs besides the planner; flink-cep is for MATCH_RECOGNIZE, and for writing any plan."""
_LOGGING = ("log4j-api", "log4j-core", "log4j-slf4j-impl")
PLANNER_LOADER = "flink-table-planner-loader"


@dataclass(frozen=True)
class Jars:
    """Paths of Flink's jars. ``planner_loader`` contains the planner's own jar; ``others`` is the rest of the class path."""

    version: str
    planner_loader: Path
    others: tuple[Path, ...]


def find_jars(environment: Mapping[str, str] = os.environ) -> Jars:
    """Finds Flink's jars. Raises ``PlannerUnavailable``, which says what to install, if jars are missing or of another version."""
    folder = _package_folder()
    if folder is None and "FLINK_HOME" in environment:
        folder = Path(environment["FLINK_HOME"]) / "lib"
    if folder is None or not folder.is_dir():
        where = f"there is no folder {folder}" if folder is not None else f"the package {PACKAGE} is not installed"
        raise PlannerUnavailable(f"SQL and the Table API need Flink's planner, and {where}: {_INSTALL}")
    return jars_of(folder)


def jars_of(folder: Path) -> Jars:
    """Returns the jars in a ``lib`` folder of Flink. Raises ``PlannerUnavailable``."""
    found: dict[str, tuple[str, Path]] = {}
    for path in folder.glob("*.jar"):
        named = re.fullmatch(r"(.+?)-(\d[\w.]*)\.jar", path.name)
        if named is not None:
            found[named[1]] = (named[2], path)
    found |= {"py4j": ("", _py4j_jar())}
    missing = [name for name in (PLANNER_LOADER, *_NEEDED, *_LOGGING) if name not in found]
    if missing:
        raise PlannerUnavailable(
            f"Flink's jar {missing[0]} is missing in {folder}: {_INSTALL}, or mend that installation"
        )
    version, loader = found[PLANNER_LOADER]
    if version.rsplit(".", 1)[0] != FLINK_MINOR:
        raise PlannerUnavailable(
            f"the jars in {folder} are of Flink {version}; plans of {FLINK_MINOR} can be run: {_INSTALL} brings those"
        )
    return Jars(version, loader, tuple(found[name][1] for name in ("py4j", *_NEEDED, *_LOGGING)))


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the path of ``java``, from ``JAVA_HOME`` or the ``PATH``. Raises ``PlannerUnavailable`` if there is none, or one older than 17."""
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else environment.get("PATH", ""))
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise PlannerUnavailable(
            f"SQL and the Table API are planned in a Java process, and there is no java {where}: install Java {JAVA_AT_LEAST} or newer"
        )
    try:
        said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise PlannerUnavailable(f"{found} -version failed: {error}") from error
    version = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if version is not None and int(version[1]) < JAVA_AT_LEAST:
        raise PlannerUnavailable(f"{found} is Java {version[1]}; Flink's planner needs {JAVA_AT_LEAST} or newer")
    return found


def _package_folder() -> Path | None:
    try:
        files = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(files.locate_file("pyflink/lib")))


def _py4j_jar() -> Path:
    for folder in (Path(sys.prefix) / "share" / "py4j", *_pyspark_jars()):
        for path in sorted(folder.glob("py4j*.jar")):
            return path
    raise PlannerUnavailable(f"the jar of py4j is missing in this Python environment ({sys.prefix}): pip install py4j")


def _pyspark_jars() -> list[Path]:
    try:
        return [Path(str(importlib.metadata.distribution("pyspark").locate_file("pyspark/jars")))]
    except importlib.metadata.PackageNotFoundError:
        return []
