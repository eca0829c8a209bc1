"""Table formats for files of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.connectors.files.bad_lines import Lines, checked, rows_of
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.compression import open_range
from tidegate.connectors.files.csv_blocks import CsvBlocks
from tidegate.connectors.files.csv_quotes import RecordEnds
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.files.file_range import FileRange, byte_ranges, codec_of
from tidegate.connectors.files.formats import BLOCK_BYTES, FileFormat, LineFormat
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import SchemaMismatch
from tidegate.table._formats.avro import AvroReading, AvroTableFormat
from tidegate.table._formats.csv_reading import CsvReading
from tidegate.table._formats.formats import Reading, Writing
from tidegate.table._formats.messages import produced_schema

_EMPTY_LINE = b"\n"
"""A message without bytes, which is not a line of CSV."""


def file_format(reading: Reading) -> FileFormat:
    """Returns the file format of a table's rows: one row a line, except Avro."""
    if isinstance(reading, AvroReading):
        return AvroTableFormat(reading)
    if isinstance(reading, CsvReading):
        return CsvTableFormat(reading)
    return LineTableFormat(schema=produced_schema(reading), reading=reading)


@dataclass(frozen=True, kw_only=True)
class LineTableFormat(LineFormat):
    """Reads lines that end in ``\\n`` or ``\\r\\n``, each decoded as a message."""

    reading: Reading

    def _parse(self, raw: bytes, path: str, offset: int) -> pa.RecordBatch:
        lines = raw.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return _rows(self.reading, [line.removesuffix(b"\r") for line in lines])


@dataclass(frozen=True)
class CsvTableFormat(FileFormat):
    """Reads files of CSV lines, whose quoted cells may hold line ends. An empty line has one empty cell."""

    reading: CsvReading

    ends_anywhere = True

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.reading.row_type)

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        if not self._ends.has_quotes or codec_of(uri) is not None:
            return byte_ranges(info, uri, range_bytes)
        size = int(info.size)
        whole = FileRange(uri, 0, size, size)
        with open_range(whole) as (file, _):
            starts = [0, *self._blocks.cuts(file, whole, 0, range_bytes)]
        return [FileRange(uri, start, end, size) for start, end in zip(starts, [*starts[1:], size], strict=True)]

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        with open_range(part) as (file, inside):
            head = self._blocks.head(file, inside, has_header=False)
            offset = self._blocks.first(file, inside, head) if start is None else start
            while offset < inside.end and (raw := self._blocks.read(file, offset, inside)):
                lines = Lines(raw, inside.path, offset)
                parse = checked(lambda raw, offset: _rows(self.reading, list(self._records(raw))), inside.path)
                data = rows_of(lines, parse, self._cut, file)
                yield Block(data.slice(skip), offset, skip, offset + len(raw))
                offset += len(raw)
                skip = 0

    def _cut(self, records: bytes, place: int) -> int:
        return self._ends.first(records, place) or len(records)

    def _records(self, raw: bytes) -> Iterator[bytes]:
        if not self._ends.has_quotes or b'"' not in raw:
            yield from (line or _EMPTY_LINE for line in raw.splitlines())
            return
        begin = 0
        while begin < len(raw):
            end = begin + self._cut(raw[begin:], 0)
            yield _without_end(raw[begin:end]) or _EMPTY_LINE
            begin = end

    @cached_property
    def _ends(self) -> RecordEnds:
        return RecordEnds(self.reading.delimiter) if self.reading.quote == '"' else RecordEnds(has_quotes=False)

    @cached_property
    def _blocks(self) -> CsvBlocks:
        return CsvBlocks(self._ends, block_bytes=BLOCK_BYTES)


def _rows(reading: Reading, lines: list[bytes]) -> pa.RecordBatch:
    try:
        return reading.read(pa.array(lines, pa.binary()))[0]
    except PoisonRecord as poison:
        raise SchemaMismatch(poison.reason) from poison


def _without_end(record: bytes) -> bytes:
    for end in (b"\r\n", b"\n", b"\r"):
        if record.endswith(end):
            return record.removesuffix(end)
    return record


@dataclass(frozen=True)
class TableLinesEncoderFactory(EncoderFactory):
    """Makes the encoders of files with one row a line."""

    writing: Writing
    suffix: str

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _TableLinesEncoder(file, self.writing)


class _TableLinesEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile, writing: Writing) -> None:
        self._file = file
        self._writing = writing

    def write(self, data: pa.RecordBatch) -> None:
        self._file.write(b"".join(line + b"\n" for line in self._writing.messages(data) if line is not None))

    def finish(self) -> None:
        """Does nothing: a file of lines has no footer."""
