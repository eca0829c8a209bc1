"""Checkpoint files on object stores and file systems that pyarrow reaches by URI: S3, GCS, HDFS.

An object is made by one put under a name that is not used elsewhere, so it is whole or absent; a put that failed may still
have arrived, which is ``OutcomeUnknown``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

import pyarrow as pa
from pyarrow import fs

from tidegate.store.files import EntryKind, OutcomeUnknown, Part


class ObjectRanges:
    """Reads ranges of an object, each with a request of its own (``RangedObject``). Thread-safe."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self.size_bytes = int(file.size())

    def read_at(self, first: int, size_bytes: int) -> bytes:
        found: bytes = self._file.read_at(size_bytes, first)
        return found


class ObjectFiles:
    """``Files`` on a ``pyarrow.fs.FileSystem``."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._fs = filesystem

    def make_directory(self, path: str) -> None:
        self._fs.create_dir(path, recursive=True)

    def write(self, path: str, parts: Iterable[Part]) -> None:
        # Joined first: a stream that is closed after half of its writes would publish that half.
        held = list(parts)
        whole = pa.py_buffer(held[0] if len(held) == 1 else b"".join(held))
        try:
            with self._fs.open_output_stream(path) as stream:
                stream.write(whole)
        except OSError as error:
            raise OutcomeUnknown(error.errno or errno.EIO, str(error), path) from error

    def write_new(self, path: str, parts: Iterable[Part]) -> None:
        self.write(path, parts)

    def sync(self, path: str) -> None:
        del path  # a put that was answered is durable

    def read(self, path: str) -> bytes:
        with self._fs.open_input_stream(path) as stream:
            return bytes(stream.read())

    def view(self, path: str) -> memoryview:
        with self._fs.open_input_stream(path) as stream:
            return memoryview(stream.read_buffer())

    def ranges(self, path: str) -> ObjectRanges:
        """Opens an object for reading ranges. Raises ``OSError``."""
        return ObjectRanges(self._fs.open_input_file(path))

    def kind_of(self, path: str) -> EntryKind:
        kind = self._fs.get_file_info(path).type
        if kind == fs.FileType.Directory:
            return "directory"
        return "missing" if kind == fs.FileType.NotFound else "file"

    def sizes(self, path: str) -> dict[str, int]:
        return {os.path.basename(i.path): int(i.size) for i in self._below(path) if i.type == fs.FileType.File}

    def directories(self, path: str) -> list[str]:
        return sorted(os.path.basename(i.path) for i in self._below(path) if i.type == fs.FileType.Directory)

    def delete(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:
            return

    def delete_tree(self, path: str) -> None:
        try:
            self._fs.delete_dir(path)
        except FileNotFoundError:
            return

    def delete_empty(self, path: str) -> None:
        if not self._below(path):
            self.delete_tree(path)

    def _below(self, path: str) -> list[fs.FileInfo]:
        return list(self._fs.get_file_info(fs.FileSelector(path, allow_not_found=True)))
