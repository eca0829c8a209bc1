"""Files that are shipped with a job: modules beside the job's script, and files of ``add_python_file``.

Everything is shipped as a blob under a file name. The process of a subtask puts the folder of the blobs on its
``sys.path``, and every ``.zip``, ``.whl`` and ``.egg`` in it too.

    job.py  imports  helpers (helpers.py), model.features (model/)    ─▶  job-modules.zip
    env.add_python_file("/x/rules.py")                                ─▶  rules.py
    env.add_python_file("/x/package")                                 ─▶  package.zip
"""

from __future__ import annotations

import io
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

from tidegate.model.errors import InvalidJob

JOB_MODULES = "job-modules.zip"

_OUR_PACKAGE = "tidegate"
_ARCHIVES = (".zip", ".whl", ".egg")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal contents give equal archives


def python_file(file_path: str) -> Path:
    """Resolves a path for ``add_python_file``. Raises ``InvalidJob``."""
    path = Path(file_path.removeprefix("file://")).expanduser().resolve()
    if not path.exists():
        raise InvalidJob(f"python file {file_path!r} does not exist")
    if path.is_file() and path.suffix not in (".py", *_ARCHIVES):
        raise InvalidJob(
            f"python file {file_path!r}: neither a module (.py), a directory nor an archive (.zip, .whl, .egg)"
        )
    return path


def shipped_files(python_files: Mapping[str, Path]) -> dict[str, bytes]:
    """Returns the contents of shipped files by name. Raises ``InvalidJob`` when a file cannot be read."""
    found: dict[str, bytes] = {}
    siblings = _imported_next_to_the_job()
    try:
        if siblings:
            found[JOB_MODULES] = zipped(siblings)
        for path in python_files.values():
            if path.is_dir():
                found[f"{path.name}.zip"] = zipped(_importable(path))
            else:
                found[path.name] = path.read_bytes()
    except OSError as error:
        raise InvalidJob(f"a python file of the job cannot be read: {error}") from error
    return found


def _importable(directory: Path) -> list[Path]:
    """Returns what is importable from a directory: a package by its name; of other directories also their entries, as in PyFlink."""
    return [directory] if (directory / "__init__.py").exists() else [directory, *sorted(directory.iterdir())]


def modules_next_to_the_job() -> list[ModuleType]:
    """Returns the loaded modules in the folder of the job's script."""
    places = _imported_next_to_the_job()
    loaded = [module for name, module in list(sys.modules.items()) if name != "__main__"]
    return [module for module in loaded if _lies_in(module, places)]


def _lies_in(module: ModuleType, places: list[Path]) -> bool:
    source = getattr(module, "__file__", None)
    if source is None:
        return False
    path = Path(source).resolve()
    return any(path == place or place in path.parents for place in places)


def _imported_next_to_the_job() -> list[Path]:
    """Returns top-level modules and packages that were imported from the folder of the job's script."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None:
        return []
    folder = Path(script).resolve().parent
    if _is_installed(folder):
        return []
    found = set()
    for name in list(sys.modules):
        top = name.partition(".")[0]
        source = getattr(sys.modules.get(name), "__file__", None)
        if source is None or top == "__main__" or top == _OUR_PACKAGE or _is_installed(Path(source)):
            continue
        for candidate in (folder / f"{top}.py", folder / top):
            if Path(source).resolve() == candidate or candidate in Path(source).resolve().parents:
                found.add(candidate)
    return sorted(found)


def _is_installed(path: Path) -> bool:
    """Returns whether a file belongs to the interpreter or to an installed distribution, which every worker has."""
    return "site-packages" in path.parts or any(path.is_relative_to(place) for place in _installed_places())


@cache
def _installed_places() -> frozenset[str]:
    places = [sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
    return frozenset(place for place in places if place)


def zipped(paths: Iterable[Path]) -> bytes:
    """Zips modules and packages, without caches."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            members = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            for member in members:
                if "__pycache__" not in member.parts:
                    name = member.relative_to(path.parent).as_posix()
                    archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), member.read_bytes())
    return buffer.getvalue()
