"""File systems of checkpoints behind one interface: local disk, object stores (``object_files``), and memory.

Laws: what ``write`` returned from is durable and whole; a reader sees nothing or all of a file. Local files take the
way temporary file -> fsync -> rename -> fsync of the directory (pyarrow's local file system never syncs). ``write_new`` is
for files that are not read before ``_metadata`` names them: written in place and synced; their directory is synced once
for all of them (``sync``), before ``_metadata``. All methods raise ``OSError``; ``OutcomeUnknown`` says that the file may or
may not be there.

``LocalCalls`` are the system calls that ``LocalFiles`` makes: tests give others, to fill a disk or to tear a write.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

Part = bytes | memoryview
EntryKind = Literal["file", "directory", "FIFO", "special file", "missing"]

_MAPPED_BYTES = 1 << 20
_PASS_BYTES = 1 << 18
"""The bytes of one read of a file that is read through; it fits into a processor's cache, so that little memory is needed."""
_PASSES = 16
"""How many buffers one system call fills: each call takes the interpreter's lock again, which a restore's other thread needs."""


class NotAFile(OSError):
    """The error of a path that is a directory, a FIFO or a device instead of a file. It is never read, since that might block without end."""


class OutcomeUnknown(OSError):
    """The error of a write that failed but whose file may exist nevertheless. Only a read can tell."""


class Files(Protocol):
    """A file system. Paths are those of the system, with ``/``."""

    def make_directory(self, path: str) -> None:
        """Creates a directory with its parents; it may exist. It survives a crash once ``sync`` of its parent returned; created parents are synced here."""

    def write(self, path: str, parts: Iterable[Part]) -> None:
        """Writes a whole file, durable when this method returns; replaces an existing one. Raises ``OutcomeUnknown`` too. ``parts`` are taken one by
        one, so that files larger than memory can be written to a local disk."""

    def write_new(self, path: str, parts: Iterable[Part]) -> None:
        """Writes a file with a name that is not used elsewhere. It survives a crash once the caller has also called ``sync`` of its directory. Leaves
        no file when it fails."""

    def sync(self, path: str) -> None:
        """Makes the entries of a directory durable. A missing directory is ignored."""

    def read(self, path: str) -> bytes: ...

    def view(self, path: str) -> memoryview:
        """Reads a file like ``read``, without a copy where possible, for large files."""

    def kind_of(self, path: str) -> EntryKind: ...

    def sizes(self, path: str) -> dict[str, int]:
        """Returns the names and sizes (bytes) of the files in a directory; empty when it is missing or not a directory."""

    def directories(self, path: str) -> list[str]:
        """Returns the sorted names of the subdirectories of a directory; empty when it is missing or not a directory."""

    def delete(self, path: str) -> None:
        """Removes a file; it may be missing."""

    def delete_tree(self, path: str) -> None:
        """Removes a directory with its content; it may be missing."""

    def delete_empty(self, path: str) -> None:
        """Removes a directory if it is empty; it may be missing."""


class LocalCalls:
    """The system calls of a durable write, and of a large read."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags, 0o644)

    def write(self, descriptor: int, data: Part) -> int:
        return os.write(descriptor, data)

    def read(self, descriptor: int, size_bytes: int) -> bytes:
        return os.read(descriptor, size_bytes)

    def read_into(self, descriptor: int, buffers: Sequence[bytearray]) -> int:
        return os.readv(descriptor, buffers)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)


class LocalFiles:
    """The file system of this machine, with what is mounted there."""

    def __init__(self, calls: LocalCalls | None = None) -> None:
        self._calls = calls or LocalCalls()

    def make_directory(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            if os.path.exists(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            missing.append(path)
            path = os.path.dirname(path)
        for made in reversed(missing):
            try:
                os.mkdir(made)
            except FileExistsError:
                if not os.path.isdir(made):
                    raise
            if made != missing[0]:
                self._sync_directory(os.path.dirname(made))

    def write(self, path: str, parts: Iterable[Part]) -> None:
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.inprogress")
        try:
            self._write_synced(temporary, parts)
        except BaseException:  # also what the parts raise
            self._forget(temporary)
            raise
        try:
            self._calls.rename(temporary, path)
            self._sync_directory(directory)
        except OSError as error:
            raise OutcomeUnknown(error.errno, error.strerror, path) from error

    def read(self, path: str) -> bytes:
        descriptor, size_bytes = self.open_file(path)
        try:
            return self._all_of(descriptor, size_bytes)
        finally:
            os.close(descriptor)

    def write_new(self, path: str, parts: Iterable[Part]) -> None:
        descriptor = self._calls.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        try:
            self._fill(descriptor, parts)
        except BaseException:  # also what the parts raise
            self._forget(path)
            raise

    def sync(self, path: str) -> None:
        try:
            self._sync_directory(path)
        except FileNotFoundError:
            return

    def view(self, path: str) -> memoryview:
        """Maps a file into memory after reading it once, so that a failing disk raises here. The view stays readable after the file was removed."""
        descriptor, size_bytes = self.open_file(path)
        try:
            if size_bytes < _MAPPED_BYTES:
                return memoryview(self._all_of(descriptor, size_bytes))
            passes = [bytearray(_PASS_BYTES)] * _PASSES  # one buffer, again and again
            while self._calls.read_into(descriptor, passes):
                pass
            return memoryview(mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ))
        finally:
            os.close(descriptor)

    def kind_of(self, path: str) -> EntryKind:
        try:
            return _kind_in(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"

    def sizes(self, path: str) -> dict[str, int]:
        try:
            with os.scandir(path) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def directories(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, path: str) -> None:
        try:
            self._calls.unlink(path)
        except FileNotFoundError:
            return
        self._sync_directory(os.path.dirname(path))

    def delete_tree(self, path: str) -> None:
        for _ in range(3):  # a late writer may add a file while we list
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
            else:
                return

    def delete_empty(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def open_file(self, path: str) -> tuple[int, int]:
        """Opens a file for reading; returns its descriptor and size. Does not wait for the writer of a FIFO. Raises ``NotAFile``."""
        descriptor = self._calls.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise NotAFile(errno.EINVAL, f"it is a {_kind_in(found.st_mode)}, not a file", path)
        return descriptor, found.st_size

    def _all_of(self, descriptor: int, size_bytes: int) -> bytes:
        parts = []
        while part := self._calls.read(descriptor, size_bytes + 1):
            parts.append(part)
        return b"".join(parts)

    def _write_synced(self, path: str, parts: Iterable[Part]) -> None:
        self._fill(self._calls.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC), parts)

    def _fill(self, descriptor: int, parts: Iterable[Part]) -> None:
        try:
            for part in parts:
                rest = memoryview(part).cast("B")
                while rest:
                    rest = rest[self._calls.write(descriptor, rest) :]
            self._calls.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_directory(self, path: str) -> None:
        descriptor = self._calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._calls.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _forget(self, path: str) -> None:
        try:
            self._calls.unlink(path)
        except OSError:
            return  # the write's own error is the one to tell


class MemoryFiles:
    """Files in memory: for the metadata of checkpoints without a directory (Flink: ``JobManagerCheckpointStorage``)."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def make_directory(self, path: str) -> None:
        del path  # directories exist as prefixes

    def write(self, path: str, parts: Iterable[Part]) -> None:
        self._files[path] = b"".join(parts)

    def write_new(self, path: str, parts: Iterable[Part]) -> None:
        self.write(path, parts)

    def sync(self, path: str) -> None:
        del path  # nothing here outlives the process

    def view(self, path: str) -> memoryview:
        return memoryview(self.read(path))

    def read(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]

    def kind_of(self, path: str) -> EntryKind:
        if path in self._files:
            return "file"
        return "directory" if any(name.startswith(f"{path}/") for name in self._files) else "missing"

    def sizes(self, path: str) -> dict[str, int]:
        found = {name.removeprefix(f"{path}/"): len(data) for name, data in self._files.items()}
        return {name: size for name, size in found.items() if "/" not in name and f"{path}/{name}" in self._files}

    def directories(self, path: str) -> list[str]:
        below = {name.removeprefix(f"{path}/") for name in self._files if name.startswith(f"{path}/")}
        return sorted({name.split("/", 1)[0] for name in below if "/" in name})

    def delete(self, path: str) -> None:
        self._files.pop(path, None)

    def delete_empty(self, path: str) -> None:
        del path  # directories exist as prefixes

    def delete_tree(self, path: str) -> None:
        for name in [name for name in self._files if name.startswith(f"{path}/")]:
            del self._files[name]


def _kind_in(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "FIFO" if stat.S_ISFIFO(mode) else "special file"
