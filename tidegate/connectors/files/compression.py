"""Compressed files, known by the ends of their names, read as if they were not: by offsets of what is in them.

    orders.jsonl.gz ─▶ one split (a compressed file cannot be entered in the middle) ─▶ decompressed as it is read, forward
    restored at byte n ─▶ decompressed from the beginning, and what is before n is dropped (as Flink does)

Laws: what is read is held for some MiB behind the last place that was asked for, so that a reader that looks ahead can come back.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Protocol

import pyarrow as pa

from tidegate.connectors.files.file_range import FileRange, check_whole, codec_of
from tidegate.connectors.files.file_system import resolve
from tidegate.model.errors import CorruptData

ENDLESS = 1 << 62
"""Stands for the size of the content of a compressed file, which is unknown until it is read."""
KEPT_BYTES = 4 << 20
"""How many bytes behind the last requested place are kept: some blocks of a reader, which goes back by one at most."""
_PIECE_BYTES = 1 << 18
"""How many bytes are decompressed at once. Chosen, not measured."""


class RandomAccess(Protocol):
    """A file as readers of lines and CSV need it."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Reads ``nbytes`` from ``offset``; fewer at the end only."""

    def size(self) -> int:
        """Returns the size in bytes."""


@contextmanager
def open_range(part: FileRange) -> Iterator[tuple[RandomAccess, FileRange]]:
    """Opens the file of a range; yields it with the range in its content, which is all of it for a compressed file. Raises ``CorruptData``."""
    filesystem, path = resolve(part.path)
    with filesystem.open_input_file(path) as file:
        check_whole(file, part)
        codec = codec_of(part.path)
        if codec is None:
            yield file, part
        else:
            with Decompressed(file, codec, part.path) as content:
                yield content, replace(part, start=0, end=ENDLESS, size_bytes=ENDLESS)


class Decompressed:
    """Reads the content of a compressed file at offsets of what it unpacks to; reading backwards begins again at the file's start."""

    def __init__(self, file: pa.NativeFile, codec: str, path: str) -> None:
        self._file = file
        self._codec = codec
        self._path = path
        self._held = bytearray()
        self._held_from = 0
        self._stream: IO[bytes] | pa.NativeFile | None = None

    def __enter__(self) -> Decompressed:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._stream is not None and self._codec == "xz":
            self._stream.close()

    def size(self) -> int:
        """Returns ``ENDLESS``: the size is unknown until everything was read."""
        return ENDLESS

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Reads content at an offset. Raises ``CorruptData``."""
        if self._stream is None or offset < self._held_from:
            self._begin()
        while self._held_from + len(self._held) < offset + nbytes:
            piece = self._next()
            if not piece:
                break
            self._held += piece
            self._drop_before(offset - KEPT_BYTES)
        first = max(0, offset - self._held_from)
        return bytes(self._held[first : first + nbytes])

    def _begin(self) -> None:
        self._file.seek(0)
        self._held, self._held_from = bytearray(), 0
        if self._codec == "xz":
            self._stream = lzma.LZMAFile(self._file)  # noqa: SIM115  (closed in __exit__)
        else:
            self._stream = pa.CompressedInputStream(_Unclosed(self._file), self._codec)

    def _next(self) -> bytes:
        assert self._stream is not None
        try:
            return bytes(self._stream.read(_PIECE_BYTES))
        except (OSError, EOFError, pa.ArrowInvalid, lzma.LZMAError) as error:
            raise CorruptData(f"{self._path} cannot be decompressed ({self._codec}): {error}") from error

    def _drop_before(self, offset: int) -> None:
        surplus = min(offset - self._held_from, len(self._held))
        if surplus >= KEPT_BYTES:  # in large steps: each moves what is kept
            del self._held[:surplus]
            self._held_from += surplus


class _Unclosed:
    """A file that the stream above it cannot close, since it is read again from the start."""

    closed = False

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def read(self, nbytes: int = -1) -> bytes:
        return bytes(self._file.read(nbytes if nbytes >= 0 else None))

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        return None
