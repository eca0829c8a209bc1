"""Uploaded programs: job files and zips with job files, each under an id, ``<uuid>_<name>``, in one directory.

An upload is checked before it is accepted: its name, its size, that it is text or a zip, and of a zip what it would
unpack to. Nothing of it is executed here.
"""

from __future__ import annotations

import io
import re
import shutil
import struct
import tempfile
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tidegate.model.errors import Misuse, StorageError

MAX_MEMBERS = 10_000
MAX_DIRECTORY_BYTES = 4 << 20
"""The largest list of members of a zip, in bytes: 400 for each. Reading a list of 1.5 M members took 17 s and 0.65 GB."""
UPLOADED_TIMES = 20
"""The total size of uploaded programs, as a multiple of the largest upload. Chosen, not measured."""
UNPACKED_TIMES = 4
"""The unpacked size of a zip, as a multiple of the largest upload."""
RATIO, RATIO_FROM_BYTES = 100, 16 << 20
"""Chosen, not measured: a zip may unpack to so many times its own size, and to 16 MiB whatever its size is. Deflate makes at most a thousand times as much
of anything, and of programs seldom ten times as much."""
_CHUNK_BYTES = 1 << 20
"""How much is read at once, which bounds the memory of an upload."""
_NAME = re.compile(r"[\w][\w.+ ()-]{0,127}")
_SCRIPTS, _ZIPS = (".py",), (".zip", ".pyz", ".jar")
_DRIVE = re.compile(r"[A-Za-z]:")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods from which Python imports modules; others would be unpacked in pieces of any length."""
_BROKEN = (
    *(zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError),
    *(zlib.error, struct.error, OverflowError, IndexError),
)
"""The errors of ``zipfile`` for a damaged zip."""


@dataclass(frozen=True, slots=True)
class Program:
    """An uploaded file. ``entries``: job files at its top level; ``default``: the one that runs when none is named."""

    program_id: str
    name: str
    path: Path
    uploaded_ms: int
    entries: tuple[str, ...]
    default: str | None


class ProgramFiles:
    """The uploaded programs in one directory. A directory that was not given is temporary and removed by ``close``. All calls block."""

    def __init__(self, directory: str | None, temporary: str, max_bytes: int) -> None:
        """Opens the directory. Raises ``StorageError`` when it cannot be created."""
        self._is_own = directory is None
        self.max_bytes = max_bytes
        try:
            if directory is None:
                self.directory = Path(tempfile.mkdtemp(prefix="tidegate-web-", dir=temporary))
            else:
                self.directory = Path(directory)
                self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the directory for uploads {directory or temporary}: {error.strerror}; set web.upload.dir"
            ) from None

    def begin(self) -> Path:
        """Returns a new path for an upload; call ``adopt`` or ``drop`` for it."""
        return self.directory / f".upload-{uuid.uuid4().hex}"

    def adopt(self, incoming: Path, name: str) -> Program:
        """Checks an upload and makes it a program. Raises ``Misuse`` when it is not valid."""
        _check_name(name)
        if PurePosixPath(name).suffix.lower() in _ZIPS:
            check_zip(incoming, self.max_bytes * UNPACKED_TIMES)
        else:
            _check_text(incoming, name)
        self._check_place_for(incoming)
        path = self.directory / f"{uuid.uuid4()}_{name}"
        incoming.replace(path)
        found = _program(path)
        if not found.entries:
            path.unlink()
            raise Misuse(f"{name} contains no Python job file at its top level, such as `__main__.py`")
        return found

    def _check_place_for(self, incoming: Path) -> None:
        """Raises ``Misuse`` when uploaded programs would take too much space: they stay until a client deletes them."""
        taken = sum(path.stat().st_size for path in self.directory.iterdir() if _is_program(path))
        if taken + incoming.stat().st_size > UPLOADED_TIMES * self.max_bytes:
            raise Misuse(
                f"with this one, uploaded programs take {taken} bytes; allowed are {UPLOADED_TIMES * self.max_bytes}: {UPLOADED_TIMES} times "
                "rest.server.max-content-length; delete some (DELETE /jars/<id>)"
            )

    def drop(self, incoming: Path) -> None:
        incoming.unlink(missing_ok=True)

    def list(self) -> list[Program]:
        """Returns all programs, newest first."""
        found = [_program(path) for path in self.directory.iterdir() if _is_program(path)]
        return sorted(found, key=lambda program: (-program.uploaded_ms, program.program_id))

    def find(self, program_id: str) -> Program:
        """Finds a program by its whole id, so that no path leads elsewhere. Raises ``Misuse`` when there is none."""
        for path in self.directory.iterdir():
            if path.name == program_id and _is_program(path):
                return _program(path)
        raise Misuse(f"File {program_id!r} does not exist among the uploaded ones.")

    def remove(self, program_id: str) -> None:
        self.find(program_id).path.unlink(missing_ok=True)

    def unpack(self, program: Program, entry: str | None, into: Path) -> Path:
        """Puts the program's files into a directory; returns the job file there. Raises ``Misuse`` for an unknown entry."""
        if program.path.suffix.lower() == ".py":
            if entry not in (None, "", program.entries[0], PurePosixPath(program.name).stem):
                raise Misuse(
                    f"{program.name} is a single job file, which has no entry point {entry!r}; leave entryClass out"
                )
            return Path(shutil.copyfile(program.path, into / program.name))
        chosen = _chosen(program, entry)
        _extract(program.path, into, self.max_bytes * UNPACKED_TIMES)
        return into / chosen

    def close(self) -> None:
        if self._is_own:
            shutil.rmtree(self.directory, ignore_errors=True)


def check_zip(path: Path, max_bytes: int) -> None:
    """Raises ``Misuse`` for a file that is no zip, leads out of its directory, or unpacks to too much."""
    try:
        with _open_zip(path) as archive:
            members = archive.infolist()
    except _BROKEN as error:
        raise Misuse(f"the uploaded file is not a zip file: {error}") from None
    if len(members) > MAX_MEMBERS:
        raise Misuse(f"the zip file has {len(members)} members; at most {MAX_MEMBERS} are allowed")
    _check_size(sum(member.file_size for member in members), path.stat().st_size, max_bytes)
    for member in members:
        _check_member(member.filename)
        if member.flag_bits & 0x1:
            raise Misuse("the zip file is encrypted; upload one without a password")
        if member.compress_type not in _METHODS:
            raise Misuse(
                f"the zip file has a member that is compressed by method {member.compress_type}; only stored and deflated members can be read"
            )


def _check_size(unpacked: int, packed: int, max_bytes: int) -> None:
    if unpacked > max_bytes:
        raise Misuse(f"the zip file unpacks to more than {max_bytes} bytes")
    if unpacked > max(RATIO_FROM_BYTES, RATIO * packed):
        raise Misuse(
            f"the zip file unpacks to {unpacked} bytes, {unpacked // max(1, packed)} times its own size; at most {RATIO} times are allowed"
        )


class _SmallReads(io.FileIO):
    """A file that refuses to read a large piece at once: a zip's list of members is one piece, whatever number of members it claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise ValueError(
                f"the list of members of the zip file has {size} bytes; at most {MAX_DIRECTORY_BYTES} are allowed, for {MAX_MEMBERS} members"
            )
        return super().read(size)


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip. Raises ``ValueError``, besides what ``ZipFile`` raises, for one with too long a list of members."""
    with _SmallReads(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _check_member(name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or _DRIVE.match(name):
        raise Misuse(f"the zip file has a member whose path leads out of it: {name[:200]!r}")


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or PurePosixPath(name).suffix.lower() not in (*_SCRIPTS, *_ZIPS):
        raise Misuse("Only Python job files (.py) and zip files of them (.zip, .pyz, .jar) are taken, by a plain name.")


def _check_text(path: Path, name: str) -> None:
    try:
        with path.open(encoding="utf-8") as file:
            while chunk := file.read(_CHUNK_BYTES):
                if "\0" in chunk:
                    raise Misuse(f"{name} is not a Python file: it holds a NUL")
    except UnicodeDecodeError:
        raise Misuse(f"{name} is not a Python file: it is not UTF-8 text") from None


def _is_program(path: Path) -> bool:
    return "_" in path.name and not path.name.startswith(".") and path.is_file() and not path.is_symlink()


def _program(path: Path) -> Program:
    name = path.name.partition("_")[2]
    uploaded_ms = int(path.stat().st_mtime * 1000)
    entries = _entries(path, name)
    main = "__main__.py" if "__main__.py" in entries else None
    return Program(path.name, name, path, uploaded_ms, entries, entries[0] if len(entries) == 1 else main)


def _entries(path: Path, name: str) -> tuple[str, ...]:
    if path.suffix.lower() == ".py":
        return (name,)
    try:
        with _open_zip(path) as archive:
            members = archive.namelist()
    except _BROKEN:
        return ()
    return tuple(sorted(member for member in members if member.endswith(".py") and "/" not in member))


def _chosen(program: Program, entry: str | None) -> str:
    """Returns the job file for an entry such as ``jobs/count.py`` or ``jobs.count``; the default for none. Raises ``Misuse``."""
    if not entry:
        if program.default is None:
            raise Misuse(f"{program.name} has several job files: name one of {', '.join(program.entries)}")
        return program.default
    with _open_zip(program.path) as archive:
        members = set(archive.namelist())
    module = entry.replace(".", "/")
    for candidate in (entry, f"{module}.py", f"{module}/__main__.py"):
        if candidate in members and candidate.endswith(".py"):
            return candidate
    raise Misuse(f"{program.name} has no entry point {entry!r}; it has {', '.join(program.entries)}")


def _extract(path: Path, into: Path, max_bytes: int) -> None:
    """Unpacks a zip, counting the bytes that come out, since stated sizes may be wrong. Links become plain files. Raises ``Misuse``."""
    check_zip(path, max_bytes)
    left = max_bytes
    try:
        with _open_zip(path) as archive:
            for member in archive.infolist():
                target = into / member.filename
                if member.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as sink:
                    left = _copy(source, sink, left)
    except _BROKEN as error:
        raise Misuse(f"the zip file cannot be unpacked: {error}") from None


def _copy(source: IO[bytes], sink: IO[bytes], left: int) -> int:
    while chunk := source.read(_CHUNK_BYTES):
        left -= len(chunk)
        if left < 0:
            raise Misuse(
                "a zip file of the program's files unpacks to more bytes than its list of members says, so it is damaged or made to fill disks; make it again"
            )
        sink.write(chunk)
    return left
