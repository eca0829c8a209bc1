"""Parts of files, and how a file is cut into them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.model.errors import CorruptData

CODECS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".xz": "xz"}
"""By the end of the name, in whatever case: Flink's, but for `.deflate`, and LZ4's frames."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """What a split reads. ``start`` and ``end`` are bytes for line formats and row groups for Parquet (end exclusive).
    ``size_bytes`` is the size of the whole file when the job was submitted."""

    path: str
    start: int
    end: int
    size_bytes: int


def codec_of(path: str) -> str | None:
    """Returns the name of the compression, if the path's end says one."""
    name = path.lower()
    return next((codec for end, codec in CODECS.items() if name.endswith(end)), None)


def byte_ranges(info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
    """The splits of a file that can be entered anywhere; an empty one is one, too, and so is a compressed one."""
    size = int(info.size)
    if codec_of(uri) is not None:
        return [FileRange(uri, 0, size, size)]
    starts = range(0, size, range_bytes) if size else range(1)
    return [FileRange(uri, start, min(start + range_bytes, size), size) for start in starts]


def check_whole(file: pa.NativeFile, part: FileRange) -> None:
    """Raises ``CorruptData`` for a file that has become shorter."""
    if file.size() < part.size_bytes:
        raise CorruptData(f"{part.path} has {file.size()} bytes, {part.size_bytes} when the job was submitted")
