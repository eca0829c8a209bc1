"""Ranges of files, and how a file is split into them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.model.errors import CorruptData

CODECS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".xz": "xz"}
"""Compression by a file's suffix, in any case: as in Flink, without `.deflate`, plus LZ4's frames."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """A range of a file that a split reads. ``start`` and ``end`` (exclusive) are bytes for line formats and row groups for Parquet. ``size_bytes``:
    the size of the whole file at submission."""

    path: str
    start: int
    end: int
    size_bytes: int


def codec_of(path: str) -> str | None:
    """Returns the name of the compression that the path's suffix says; ``None``: none."""
    name = path.lower()
    return next((codec for end, codec in CODECS.items() if name.endswith(end)), None)


def byte_ranges(info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
    """Splits a file that can be read from any byte into ranges; an empty file and a compressed file have one."""
    size = int(info.size)
    if codec_of(uri) is not None:
        return [FileRange(uri, 0, size, size)]
    starts = range(0, size, range_bytes) if size else range(1)
    return [FileRange(uri, start, min(start + range_bytes, size), size) for start in starts]


def check_whole(file: pa.NativeFile, part: FileRange) -> None:
    """Raises ``CorruptData`` for a file that has become shorter since submission."""
    if file.size() < part.size_bytes:
        raise CorruptData(
            f"{part.path} has {file.size()} bytes now, but had {part.size_bytes} when the job was submitted; files may not change while they are read"
        )
