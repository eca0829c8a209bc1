"""Reading of CSV files by whole records, from any offset at which one begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.connectors.files.compression import RandomAccess
from tidegate.connectors.files.csv_quotes import RecordEnds
from tidegate.connectors.files.file_range import FileRange
from tidegate.model.errors import CorruptData, SchemaMismatch

BOM = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_AHEAD_BYTES = 1 << 14
"""How many bytes are read ahead for the end of a record; four times as many each time it is not found."""
_LONGEST_RECORD = 1 << 28
"""The limit for a record, 256 MiB: a quote that is never closed must not read a whole file into memory."""
_LINE_ENDS = b"\r\n"
csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_RECORD))  # of the whole process; Python's own is 128 KiB


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a CSV file. ``names``: its cells (``None``: the file has none); ``end``: where the records begin."""

    names: tuple[str, ...] | None
    end: int


@dataclass(frozen=True)
class CsvBlocks:
    """Reads whole records, about ``block_bytes`` at a time. A quote that is never closed raises ``SchemaMismatch``."""

    ends: RecordEnds
    encoding: str = "utf-8"
    block_bytes: int = 1

    def read(self, file: RandomAccess, offset: int, part: FileRange) -> bytes:
        """Returns the records from ``offset`` that begin in the range, about a block of them."""
        limit = min(offset + self.block_bytes, part.end)
        ahead = _AHEAD_BYTES
        while True:
            until = min(limit + ahead, part.size_bytes)
            raw = bytes(file.read_at(until - offset, offset))
            if end := self.ends.first(raw, limit - 1 - offset):
                return raw[:end]
            is_whole = until == part.size_bytes or len(raw) < until - offset  # of a compressed file only that tells
            if is_whole or len(raw) > _LONGEST_RECORD:
                self._check_closed(raw, offset, part.path, is_whole)
                return raw
            ahead *= 4

    def head(self, file: RandomAccess, part: FileRange, has_header: bool) -> Head:
        """Reads the header. Raises ``CorruptData`` if it is not text."""
        begin = bytes(file.read_at(min(len(BOM), part.size_bytes), 0))
        if begin[:2] in UTF_16_MARKS:
            raise CorruptData(f"{part.path} is UTF-16 text; convert it to UTF-8")
        offset = len(BOM) if begin == BOM else 0
        if not has_header:
            return Head(None, offset)
        while offset < part.size_bytes:
            raw = self.read(file, offset, FileRange(part.path, offset, offset + 1, part.size_bytes))
            offset += len(raw)
            if raw.strip(_LINE_ENDS):
                return Head(self._cells(raw, part.path), offset)
            if not raw:  # the end of what was compressed
                break
        return Head(None, offset)

    def first(self, file: RandomAccess, part: FileRange, head: Head) -> int:
        """Returns the offset of the first record that begins in the range."""
        if part.start <= head.end:
            return head.end
        around = bytes(file.read_at(2, part.start - 1))
        if around[:1] in (b"\n", b"\r") and around != _LINE_ENDS:
            return part.start
        lines = CsvBlocks(RecordEnds(has_quotes=False))
        begin = part.start - 1
        return begin + len(lines.read(file, begin, FileRange(part.path, begin, begin + 1, part.size_bytes)))

    def cuts(self, file: RandomAccess, part: FileRange, begin: int, every_bytes: int) -> Iterator[int]:
        """Yields offsets after ``begin`` at which a record begins, about ``every_bytes`` apart. The file is read once,
        to its last cut."""
        offset, target = begin, every_bytes
        while target < part.size_bytes:
            before_target = FileRange(part.path, 0, target, part.size_bytes)
            while offset < target:
                offset += len(self.read(file, offset, before_target))
            if offset < part.size_bytes:
                yield offset
            target = max(target, offset - offset % every_bytes) + every_bytes

    def _cells(self, raw: bytes, path: str) -> tuple[str, ...]:
        try:
            text = raw.decode(self.encoding)
            return tuple(next(csv.reader(io.StringIO(text, newline=""), delimiter=self.ends.delimiter)))
        except UnicodeDecodeError as error:
            raise CorruptData(
                f"{path}, line 1: the header is not {self.encoding} text; give the encoding= that it has, such as 'cp1252', or convert "
                "the file to UTF-8"
            ) from error
        except csv.Error as error:
            raise CorruptData(f"{path}, line 1: the header cannot be read: {error}") from error

    def _check_closed(self, raw: bytes, offset: int, path: str, is_whole: bool) -> None:
        opened = self.ends.open_quote(raw)
        if opened is not None:
            raise SchemaMismatch(f"{path}: the quote at byte {offset + opened} is never closed")
        if not is_whole:
            raise SchemaMismatch(f"{path}: the record at byte {offset} has more than {_LONGEST_RECORD} bytes")
