"""CSV files with a schema, read and written as Flink does with Jackson (Flink: ``CsvReaderFormat``, ``CsvBulkWriter``).

A file is one split, since a cell between quotes may hold line ends; a block is some whole records, named by the offset of its
first byte, so that a replay gives the same batches.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.common.row import Row
from tidegate.common.typeinfo import RowTypeInfo, TypeInformation
from tidegate.connectors.files.block import Block
from tidegate.connectors.files.columns import column_order, in_order
from tidegate.connectors.files.csv_blocks import BOM
from tidegate.connectors.files.encoders import EncoderFactory, FileEncoder
from tidegate.connectors.files.file_range import FileRange, check_whole
from tidegate.connectors.files.file_system import resolve
from tidegate.connectors.files.formats import FileFormat
from tidegate.connectors.formats.csv_cells import CsvColumn, reader_of, writer_of
from tidegate.connectors.formats.csv_dialect import CsvDialect
from tidegate.model.errors import CorruptData, SchemaMismatch
from tidegate.model.values import FieldValue, Record
from tidegate.records.record_codec import decode, encode

_BLOCK_RECORDS = 4096
"""How many records a block has: it bounds the Python objects of a block, and is enough to spread its cost."""
_PIECE_BYTES = 1 << 20
"""How many bytes are read at once, as in blocks of CSV files (docs/adr/0107)."""


@dataclass(frozen=True)
class CsvLayout:
    """The layout of a CSV file. ``use_header``: the first line has names, which with ``strict_headers`` must be those of ``columns``.
    ``ignore_more_cells``: a line may have more cells than there are columns."""

    columns: tuple[CsvColumn, ...]
    dialect: CsvDialect = field(default_factory=CsvDialect)
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    ignore_more_cells: bool = False

    @property
    def names(self) -> list[str]:
        """Returns the names of the columns."""
        return [column.name for column in self.columns]

    def row_type(self) -> RowTypeInfo:
        """Returns the type of the rows."""
        return RowTypeInfo([column.kind for column in self.columns], self.names)


class CsvSchemaFormat(FileFormat):
    """Reads CSV files as rows with the names and types of the columns."""

    def __init__(self, layout: CsvLayout) -> None:
        self._layout = layout
        self._row_type = layout.row_type()
        self.schema = self._row_type.arrow_schema()

    def produced_type(self) -> TypeInformation:
        return self._row_type

    def ranges(self, info: pafs.FileInfo, uri: str, range_bytes: int) -> list[FileRange]:
        return [FileRange(uri, 0, int(info.size), int(info.size))]

    def blocks(self, part: FileRange, start: int | None, skip: int) -> Iterator[Block]:
        """Yields blocks. Raises ``CorruptData`` for a file that got shorter, ``SchemaMismatch`` for a line that is not a row of the schema."""
        filesystem, path = resolve(part.path)
        with filesystem.open_input_file(path) as file:
            check_whole(file, part)
            lines = _Lines(file, start or 0, part, self._layout.dialect.allow_comments)
            records = self._records(lines, part.path)
            if start is None:
                self._skip_head(records, part.path)
            begin = lines.next_start
            while rows := self._rows(records, lines, part.path):
                data = encode(self._row_type, rows, part.path)
                yield Block(data.slice(skip), begin, skip, lines.next_start)
                begin, skip = lines.next_start, 0

    def _records(self, lines: _Lines, path: str) -> Iterator[list[str]]:
        try:
            for cells in self._layout.dialect.records(lines):
                yield cells
                lines.begins_record = True
        except csv.Error as error:
            raise SchemaMismatch(f"{path}, before byte {lines.next_start}: {error}") from error

    def _skip_head(self, records: Iterator[list[str]], path: str) -> None:
        layout = self._layout
        if layout.use_header:
            found = next(records, None)
            if layout.strict_headers and found is not None and found != layout.names:
                raise SchemaMismatch(
                    f"{path} has the header {found}, the schema has the columns {layout.names}: give both the same names in the same order"
                )
        if layout.skip_first_data_row:
            next(records, None)

    def _rows(self, records: Iterator[list[str]], lines: _Lines, path: str) -> list[Row]:
        layout = self._layout
        readers = [reader_of(column, layout.dialect.null_value) for column in layout.columns]
        rows: list[Row] = []
        for cells in records:
            if len(cells) < len(readers) or (len(cells) > len(readers) and not layout.ignore_more_cells):
                raise SchemaMismatch(
                    f"{path}, before byte {lines.next_start}: a line has {len(cells)} cells, the schema {len(readers)} columns"
                )
            rows.append(Row(*self._values(cells, readers, lines, path)))
            if len(rows) == _BLOCK_RECORDS:
                break
        return rows

    def _values(self, cells: Sequence[str], readers: Sequence[FieldValue], lines: _Lines, path: str) -> list[Record]:
        values = []
        for column, read, cell in zip(self._layout.columns, readers, cells, strict=False):
            try:
                values.append(read(cell))
            except ValueError as error:
                raise SchemaMismatch(
                    f"{path}, before byte {lines.next_start}: column {column.name!r}: {cell!r} is not a {column.kind!r} ({error})"
                ) from error
        return values


class _Lines:
    """Iterates over the lines of a file as text, with their ends. ``next_start``: the offset after the last one."""

    def __init__(self, file: pa.NativeFile, start: int, part: FileRange, skips_comments: bool) -> None:
        self._file = file
        self._part = part
        self._skips_comments = skips_comments
        self._read = start
        self._piece = b""
        self._at = 0
        self.next_start = start
        self.begins_record = True

    def __iter__(self) -> Iterator[str]:
        while raw := self._line():
            text = raw if self.next_start else raw.removeprefix(BOM)
            self.next_start += len(raw)
            if self._skips_comments and self.begins_record and text.startswith(b"#"):
                continue
            self.begins_record = False
            try:
                yield text.decode()
            except UnicodeDecodeError as error:
                raise CorruptData(f"{self._part.path}: not UTF-8 text before byte {self.next_start}") from error

    def _line(self) -> bytes:
        while (end := self._piece.find(b"\n", self._at)) < 0 and self._read < self._part.end:
            more = self._file.read_at(min(_PIECE_BYTES, self._part.end - self._read), self._read)
            if not more:
                break
            self._read += len(more)
            self._piece, self._at = self._piece[self._at :] + bytes(more), 0
        begin, self._at = self._at, end + 1 if end >= 0 else len(self._piece)
        return self._piece[begin : self._at]


@dataclass(frozen=True)
class CsvSchemaEncoderFactory(EncoderFactory):
    """CSV files of a stream with these columns, matched by name if it has all of them, by position otherwise."""

    layout: CsvLayout
    suffix: str = ""

    def open(self, file: pa.NativeFile, schema: pa.Schema) -> FileEncoder:
        return _CsvEncoder(file, self.layout, column_order(schema, self.layout.names))


class _CsvEncoder(FileEncoder):
    def __init__(self, file: pa.NativeFile, layout: CsvLayout, order: Sequence[int]) -> None:
        self._file = file
        self._layout = layout
        self._order = order
        self._row_type = layout.row_type()
        null_text = layout.dialect.null_value or ""
        self._writers = [writer_of(column, null_text) for column in layout.columns]
        self._bare = [column.is_bare for column in layout.columns]
        if layout.use_header:
            self._put([layout.names], [False] * len(self._bare))

    def write(self, data: pa.RecordBatch) -> None:
        rows = decode(self._row_type, in_order(data, self._order, self._row_type.arrow_schema()))
        self._put(([write(v) for write, v in zip(self._writers, row, strict=True)] for row in rows), self._bare)

    def _put(self, lines: Iterable[Sequence[str]], bare: Sequence[bool]) -> None:
        dialect = self._layout.dialect
        self._file.write("".join(dialect.line(cells, bare) + dialect.line_separator for cells in lines).encode())

    def finish(self) -> None:
        """Does nothing: CSV has no footer."""
