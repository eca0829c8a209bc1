"""Installs the requirements and unpacks the archives that a job ships, in the process of a subtask.

Requirements are installed once for all subtasks of a TaskManager, into a directory named by the hash of their content; a second subtask waits for the first.
Archives are unpacked for each process into a directory that becomes its working directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tidegate.model.errors import ExternalError, InvalidJob
from tidegate.model.shipped_files import ARCHIVES, PACKAGES, REQUIREMENTS

_INSTALL_LIMIT_S = 600
"""Seconds after which the installation of requirements is given up: time for large wheels on a slow network. Chosen, not measured."""
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError),
    *(zlib.error, lzma.LZMAError, struct.error, OverflowError, IndexError),
)
"""Exceptions that ``tarfile`` and ``zipfile`` raise for a broken archive, or one that needs a password."""
_TAIL = 2000
"""Characters at the end of pip's output that are shown in an error; pip prints the cause last."""


def use_requirements(files: Mapping[str, bytes], place: Path) -> None:
    """Installs the job's requirements below ``place`` unless they are there, and puts them on ``sys.path``. Raises ``ExternalError`` when pip fails."""
    if REQUIREMENTS not in files:
        return
    name = hashlib.sha256(b"\0".join(files.get(key, b"") for key in (REQUIREMENTS, PACKAGES))).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    target = place / name
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "installed").exists():
            _install(files, target)
    sys.path.insert(0, str(target / "lib"))


def use_archives(files: Mapping[str, bytes], directory: Path) -> None:
    """Unpacks the job's archives below ``directory`` and makes that the working directory. Raises ``InvalidJob`` for a broken archive."""
    found = {PurePosixPath(name): content for name, content in files.items() if name.startswith(f"{ARCHIVES}/")}
    if not found:
        return
    for name, content in found.items():
        target = directory.joinpath(*name.parts[1:-1])
        target.mkdir(parents=True, exist_ok=True)
        archive = directory / f".{name.name}"
        archive.write_bytes(content)
        unpack(archive, target, f"archive {name.name!r}")
        archive.unlink()
    os.chdir(directory)


def check_interpreter(wanted: str | None) -> None:
    """Raises ``InvalidJob`` if the interpreter that runs here is not ``wanted``, the job's ``python.executable``; ``None`` or empty: any."""
    if not wanted:
        return
    found = shutil.which(wanted)
    if found is None or Path(found).absolute().parent != Path(sys.executable).absolute().parent:
        raise InvalidJob(
            f"the job needs the interpreter {wanted!r}, but this TaskManager runs {sys.executable}: "
            "start the TaskManagers with that interpreter"
        )
    os.environ["python"] = wanted  # noqa: SIM112  (where PyFlink leaves it)


def _install(files: Mapping[str, bytes], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    listed = target / "requirements.txt"
    listed.write_bytes(files[REQUIREMENTS])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed"]
    command += ["--target", str(target / "lib"), "-r", str(listed)]
    if PACKAGES in files:
        archive = target / "packages.zip"
        archive.write_bytes(files[PACKAGES])
        unpack(archive, target / "packages", "cached packages")
        command += ["--no-index", "--no-build-isolation", "--find-links", str(target / "packages")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False)
    if done.returncode != 0:
        raise ExternalError(
            "the job's requirements could not be installed: pip said: " + (done.stderr or done.stdout)[-_TAIL:].strip()
        )
    (target / "installed").touch()


def unpack(archive: Path, target: Path, what: str) -> None:
    """Unpacks a tar or zip file; the suffix of its name tells which. Raises ``InvalidJob`` that names ``what`` for a broken one."""
    try:
        _unpack(archive, target)
    except _BROKEN as error:
        raise InvalidJob(f"the job's {what} cannot be unpacked: {error}") from error


def _unpack(archive: Path, target: Path) -> None:
    if archive.name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
        return
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            path = zipped.extract(member, target)
            mode = member.external_attr >> 16 & 0o777
            if mode and not member.is_dir():
                os.chmod(path, mode)
