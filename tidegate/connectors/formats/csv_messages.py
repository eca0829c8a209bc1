"""CSV lines as messages (Flink: PyFlink's ``CsvRowDeserializationSchema``, ``CsvRowSerializationSchema``).

Plain ones, with flat fields and quotes as usual, are read by Arrow, many at once; others cell by cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tidegate.common.row import Row
from tidegate.common.typeinfo import ArrowTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from tidegate.connectors.files.batches import one_batch
from tidegate.connectors.files.csv_quotes import RecordEnds
from tidegate.connectors.files.decimal_text import has_decimals, has_tiny
from tidegate.connectors.formats.csv_cells import CsvColumn, Reader, kind_of, reader_of, writer_of
from tidegate.connectors.formats.csv_dialect import CsvDialect
from tidegate.connectors.formats.messages import (
    DeserializationSchema,
    PoisonRecord,
    SerializationSchema,
    Values,
    no_rows,
    objects,
    one_a_line,
    rows_one_by_one,
    without_marks,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue, Record
from tidegate.records.record_codec import decode as decode_records
from tidegate.records.record_codec import encode as encode_records

_USUAL_QUOTE = '"'
_BY_CELL = (pa.types.is_nested, pa.types.is_binary, pa.types.is_time, pa.types.is_decimal256)
"""Tests for types that Arrow reads differently than Flink, so that they are read cell by cell."""


@dataclass(frozen=True)
class CsvRowDeserializationSchema(DeserializationSchema):
    """Decodes messages that are CSV lines to rows, with the fields of ``type_info`` in order. A list, or a nested row, is one cell, with
    ``array_element_delimiter`` between its elements. ``null_literal``: the text of null; without one there are no nulls, and an empty cell is an
    empty text. ``ignore_parse_errors``: an invalid or missing cell is null."""

    type_info: TypeInformation
    field_delimiter: str = ","
    null_literal: str | None = None
    array_element_delimiter: str = ";"
    quote_character: str = _USUAL_QUOTE
    escape_character: str | None = None
    allow_comments: bool = False
    ignore_parse_errors: bool = False

    def get_produced_type(self) -> TypeInformation:
        return self.type_info

    def decode(self, values: Values) -> pa.RecordBatch:
        schema = self.type_info.arrow_schema()
        if not len(values):
            return no_rows(schema)
        values = without_marks(values)
        if not self._is_plain or (any(map(has_decimals, schema.types)) and has_tiny(one_a_line(values))):
            return self._by_cell(values)
        lines = _without_line_ends(values)
        for index, line in enumerate(objects(lines)) if _has_empty(lines) else ():
            if not line:
                raise PoisonRecord(index, "the message is empty, and not one line of CSV")
        ends = RecordEnds(self.field_delimiter)
        for index in _no_lines(lines):
            if (opened := ends.open_quote(objects(lines[index : index + 1])[0] or b"")) is not None:
                raise PoisonRecord(index, f"the quote at byte {opened} is never closed")
        data = rows_one_by_one(lines, schema, lambda content: self._plain_rows(content, schema), "CSV line", _no_lines)
        has_infinity = any(pa.types.is_floating(c.type) and pc.any(pc.is_inf(c)).as_py() for c in data.columns)
        return self._by_cell(values) if has_infinity else data  # Arrow makes one of a number that is too large

    def _by_cell(self, values: Values) -> pa.RecordBatch:
        rows = [self._row(index, value) for index, value in enumerate(objects(values))]
        return encode_records(self.type_info, rows)

    @cached_property
    def _is_plain(self) -> bool:
        if self.escape_character or self.allow_comments or self.ignore_parse_errors:
            return False
        kinds = self.type_info.arrow_schema().types
        return self.quote_character == _USUAL_QUOTE and not any(is_of(kind) for is_of in _BY_CELL for kind in kinds)

    def _plain_rows(self, content: bytes, schema: pa.Schema) -> pa.RecordBatch | str:
        try:
            table = pacsv.read_csv(
                io.BytesIO(content),
                read_options=pacsv.ReadOptions(
                    column_names=schema.names, use_threads=False, block_size=len(content) + 1
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self.field_delimiter, newlines_in_values=True, ignore_empty_lines=False
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=pa.schema([_as_text(field) for field in schema]),
                    null_values=[] if self.null_literal is None else [self.null_literal],
                    strings_can_be_null=self.null_literal is not None,
                ),
            )
        except pa.ArrowException as error:
            return str(error)
        columns = [
            _booleans(column) if pa.types.is_boolean(field.type) else column
            for field, column in zip(schema, table.columns, strict=True)
        ]
        return one_batch(pa.table(columns, schema=schema), schema)

    @cached_property
    def _readers(self) -> list[tuple[CsvColumn, Reader]]:
        columns = columns_of(self.type_info, self.array_element_delimiter)
        return [(column, reader_of(column, self.null_literal)) for column in columns]

    def _row(self, index: int, value: bytes | None) -> Row:
        dialect = CsvDialect(self.field_delimiter, self.quote_character, self.escape_character)
        try:
            lines = (value or b"").decode().splitlines(keepends=True)
            kept = [line for line in lines if not (self.allow_comments and line.startswith("#"))]
            found = list(dialect.records(kept))
        except (UnicodeDecodeError, csv.Error) as error:
            raise PoisonRecord(index, f"the message is not a line of CSV: {error}") from None
        if len(found) != 1:
            raise PoisonRecord(index, f"the message has {len(found)} lines of CSV, not one")
        return self._values(index, found[0])

    def _values(self, index: int, cells: Sequence[str]) -> Row:
        readers = self._readers
        if len(cells) != len(readers) and not self.ignore_parse_errors:
            raise PoisonRecord(index, f"the line of CSV has {len(cells)} cells, and the schema {len(readers)} columns")
        values: list[Record] = [None] * len(readers)
        for position, ((column, read), cell) in enumerate(zip(readers, cells, strict=False)):
            try:
                values[position] = read(cell)
            except ValueError as error:
                if not self.ignore_parse_errors:
                    raise PoisonRecord(
                        index, f"field {column.name!r}: {cell!r} is not a {column.kind!r}: {error}"
                    ) from None
        return Row(*values)


@dataclass(frozen=True)
class CsvRowSerializationSchema(SerializationSchema):
    """Encodes rows as CSV lines with ``line_delimiter`` at their ends, quoted as by Jackson."""

    field_delimiter: str = ","
    line_delimiter: str = "\n"
    array_element_delimiter: str = ";"
    quote_character: str | None = _USUAL_QUOTE
    escape_character: str | None = None
    null_literal: str = ""

    def encode(self, data: pa.RecordBatch, type_info: TypeInformation) -> list[bytes]:
        columns = columns_of(type_info, self.array_element_delimiter)
        writers = [writer_of(column, self.null_literal) for column in columns]
        bare = [column.is_bare for column in columns]
        dialect = CsvDialect(self.field_delimiter, self.quote_character, self.escape_character)
        return [
            f"{dialect.line([write(v) for write, v in zip(writers, row, strict=True)], bare)}{self.line_delimiter}".encode()
            for row in _rows(data, type_info)
        ]


def _as_text(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_boolean(field.type) else field


def _booleans(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parses booleans: everything but ``true`` is false, as in cells that are read one by one."""
    return pc.equal(pc.ascii_lower(pc.utf8_trim_whitespace(texts)), "true")


def _no_lines(values: Values) -> list[int]:
    """Returns the indices of messages with several lines, or with a quote that may not be closed."""
    if not isinstance(values, pa.Array):
        return [
            index
            for index, line in enumerate(values)
            if line and (b"\n" in line or b"\r" in line or line.count(b'"') % 2)
        ]
    has_ends = pc.or_(pc.match_substring(values, b"\n"), pc.match_substring(values, b"\r"))
    has_open = pc.not_equal(pc.bit_wise_and(pc.count_substring(values, b'"'), 1), 0)
    found: list[int] = pc.indices_nonzero(pc.or_(has_ends, has_open)).to_pylist()
    return found


def _has_empty(values: Values) -> bool:
    if not isinstance(values, pa.Array):
        return not all(values)
    return values.null_count > 0 or pc.any(pc.equal(pc.binary_length(values), 0)).as_py() is True


def _without_line_ends(values: Values) -> Values:
    """Removes line ends at the ends of messages, as ``CsvRowSerializationSchema`` writes them."""
    if not isinstance(values, pa.Array):
        return [
            value[: -2 if value.endswith(b"\r\n") else -1] if value and value.endswith(b"\n") else value
            for value in values
        ]
    if not pc.any(pc.ends_with(values, b"\n")).as_py():
        return values
    return pc.replace_substring_regex(values, rb"\r?\n\z", b"")


def columns_of(type_info: TypeInformation, separator: str) -> list[CsvColumn]:
    """Returns the CSV columns of a type. Raises ``InvalidJob`` for a type that has no fields."""
    if isinstance(type_info, ArrowTypeInfo):
        return [CsvColumn(field.name, kind_of(field.type), separator) for field in type_info.schema]
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        raise InvalidJob(
            f"a line of CSV is a row, and the type {type_info!r} has no fields: give one such as Types.ROW_NAMED([...], [...])"
        )
    fields = zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
    return [CsvColumn(name, kind, separator) for name, kind in fields]


def _rows(data: pa.RecordBatch, type_info: TypeInformation) -> Iterable[Iterable[FieldValue]]:
    if isinstance(type_info, ArrowTypeInfo):
        return zip(*(column.to_pylist() for column in data.columns), strict=True)
    return decode_records(type_info, data)
