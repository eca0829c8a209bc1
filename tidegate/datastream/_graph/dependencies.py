"""The dependencies of a job besides its modules: requirements and archives (Flink: ``PythonDependencyManager``).

Each file travels as a blob, whose name (``tidegate.model.shipped_files``) says what the subtask's process does with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidegate.datastream._graph.local_modules import python_file, zipped
from tidegate.model.errors import InvalidJob
from tidegate.model.options import PythonOptions
from tidegate.model.shipped_files import ARCHIVES, PACKAGES, REQUIREMENTS

_SUFFIXES = (".zip", ".jar", ".whl", ".egg", ".tar", ".tar.gz", ".tgz")


def configured_files(configuration: Mapping[str, str]) -> list[Path]:
    """Returns the paths in ``python.files``. Raises ``InvalidJob``."""
    return [
        python_file(part.strip()) for part in configuration.get(PythonOptions.FILES.key, "").split(",") if part.strip()
    ]


def shipped_dependencies(configuration: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the contents of dependencies by blob name. Raises ``InvalidJob`` for a missing file, or one that is not an archive."""
    found: dict[str, bytes] = {}
    try:
        requirements = configuration.get(PythonOptions.REQUIREMENTS.key, "")
        if requirements:
            path, _, packages = requirements.partition("#")
            found[REQUIREMENTS] = local_path(path).read_bytes()
            if packages:
                found[PACKAGES] = zipped(sorted(p for p in local_path(packages).iterdir() if p.is_file()))
        for archive in filter(None, configuration.get(PythonOptions.ARCHIVES.key, "").split(",")):
            path, _, target = archive.strip().partition("#")
            file = local_path(path)
            if not file.name.endswith(_SUFFIXES):
                raise InvalidJob(f"python archive {path!r}: not an archive ({', '.join(_SUFFIXES)})")
            found[f"{ARCHIVES}/{target or file.name}/{file.name}"] = file.read_bytes()
    except OSError as error:
        raise InvalidJob(f"a python dependency of the job cannot be read: {error}") from error
    return found


def local_path(text: str) -> Path:
    """Returns the local path of a path or ``file:`` URI."""
    plain = text.removeprefix("file://") if text.startswith("file://") else text.removeprefix("file:")
    return Path(plain).expanduser().resolve()
