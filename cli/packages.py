"""Packs the installed packages into one archive from which any interpreter of the same version can import.

    site-packages ─┬─ distributions, file by file, as their installers noted them ─▶ archive ─▶ spark.archives ─▶ PYTHONPATH of executors
                   └─ left out: Spark's jars and programs, which executors have, and installers

It contains no interpreter and no path of this machine, unlike a virtual environment.
"""

from __future__ import annotations

import json
import re
import sysconfig
import tarfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

import tidegate
from tidegate.model.errors import Misuse
from tidegate.wire.versions import VERSION

OWN = "tidegate"
LEFT_OUT = frozenset({OWN, "pip", "setuptools", "wheel"})
"""Packages that are not packed: installers, and this package, which is packed as it is imported."""
_OF_SPARK = frozenset({"R", "bin", "data", "examples", "jars", "licenses", "python", "sbin"})
"""Folders of PySpark's distribution that executors have already. Its modules are packed: the daemon does not import from Spark's zip files,
which would slow the start of each subtask.
"""
_COMPRESSION = 1
"""The level of gzip: shared libraries become half as large, and a higher one takes ten times as long for a few percent."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The content of an archive."""

    names: tuple[str, ...]
    size_bytes: int
    platform: str


def pack(target: Path, only: Collection[str], without: Collection[str]) -> Packed:
    """Writes the archive. ``only``: these packages and what they require, else all; ``without``: not these. Raises ``Misuse``."""
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise Misuse(f"the archive must be a .tar.gz or a .tgz, as Spark unpacks it by its name, not {target.name}")
    chosen = _chosen(only, without)
    part = target.with_name(f".{target.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=_COMPRESSION) as archive:
            for file, name in sorted(_own_files()):
                archive.add(file, name, recursive=False)
            for distribution in chosen.values():
                for file, name in _files(distribution):
                    archive.add(file, name, recursive=False)
        part.rename(target)
    except OSError as error:
        raise Misuse(f"cannot write {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    names = (f"{OWN} {VERSION}", *(f"{name} {found.version}" for name, found in sorted(chosen.items())))
    return Packed(names, target.stat().st_size, sysconfig.get_platform())


def _chosen(only: Collection[str], without: Collection[str]) -> dict[str, Distribution]:
    """Returns the distributions to pack by name. Raises ``Misuse``."""
    installed = {folded(found.metadata["Name"]): found for found in distributions()}
    unknown = sorted(name for name in (*only, *without) if folded(name) not in installed)
    if unknown:
        raise Misuse(f"not installed here: {', '.join(unknown)}")
    wanted = _required(installed, (OWN, *only)) if only else set(installed)
    taken = wanted - LEFT_OUT - {folded(name) for name in without}
    for name in sorted(taken):
        if _is_editable(installed[name]):
            raise Misuse(
                f"{name} is installed as editable, so its files lie outside the environment: install it from a wheel, or leave it out (--without {name})"
            )
    return {name: installed[name] for name in sorted(taken)}


def _required(installed: dict[str, Distribution], names: Iterable[str]) -> set[str]:
    """Returns these packages and the installed ones that they require, without extras."""
    found: set[str] = set()
    waiting = [folded(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found and name in installed:
            found.add(name)
            needed = installed[name].requires or []
            waiting += [folded(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in needed if "extra ==" not in text]
    return found


def folded(name: str) -> str:
    """Normalizes a package name as indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_editable(found: Distribution) -> bool:
    about = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(about.get("dir_info", {}).get("editable"))


def _files(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Yields the files of a distribution with their names in the archive. Files outside of its directory, such as scripts, are left out."""
    for file in found.files or ():
        place = Path(str(file.locate()))
        is_sparks = file.parts[0] == "pyspark" and file.parts[1:2] and file.parts[1] in _OF_SPARK
        if not is_sparks and ".." not in file.parts and file.suffix != ".pyc" and place.is_file():
            yield place, file.as_posix()


def _own_files() -> Iterator[tuple[Path, str]]:
    """Yields the files of this package as they are imported, also from a checkout, where folders are links."""
    root = Path(tidegate.__file__).parent
    waiting = [root]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.is_dir():
                if path.name != "__pycache__":
                    waiting.append(path)
            elif path.suffix != ".pyc":
                yield path.resolve(), path.relative_to(root.parent).as_posix()
