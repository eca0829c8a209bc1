"""Decoding of CSV to rows of a table (Flink: ``CsvRowDataDeserializationSchema``, ``CsvToRowDataConverters``).

Lines without quotes, comments and escapes whose cells are in the common form of their type are read by Arrow, a batch at once; others one by one.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tidegate.connectors.files.json_text import BOM
from tidegate.connectors.formats.messages import Counts, PoisonRecord, Values, objects, one_a_line
from tidegate.functions.sql.scalar import arrow_schema, arrow_type
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._formats.columns import TEXTS, UNIT_NS, as_arrays, cast_texts, first_poison
from tidegate.table._formats.errors import Unreadable
from tidegate.table._formats.java_numbers import BLANK, decimal_number, floating_number, whole_number
from tidegate.table._formats.times import TimestampStandard, date_of, instant_of, time_of, timestamp_of

Convert: TypeAlias = Callable[[str], Any]
"""Converts a cell to what Arrow's column accepts. Raises ``Unreadable``."""

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_NUMBERS = (*_BITS, TypeRoot.FLOAT, TypeRoot.DOUBLE)
_TIMES = (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_SHORT_TIME = re.compile(r"[0-9]{2}:[0-9]{2}")
_OTHERWISE = re.compile(rb"nan|inf|\"|\\|\r", re.IGNORECASE)
"""Bytes that Arrow reads otherwise than Flink: special numbers and quotes."""


@dataclass(frozen=True)
class CsvReading:
    """Decodes the format ``csv`` with Flink's options. ``ignores_errors``: an invalid cell becomes null, and an invalid line is skipped."""

    row_type: LogicalType
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    array_delimiter: str = ";"
    allows_comments: bool = False
    ignores_errors: bool = False
    trims: bool = False
    ignores_trailing: bool = False
    allows_trailing_delimiter: bool = True
    empty_is_null: bool = False
    _columns: list[tuple[str, Convert]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = [(one.name, self._nullable(self._convert(one.type))) for one in self.row_type.fields]
        object.__setattr__(self, "_columns", columns)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_columns"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes messages to rows, and the number of rows for each message, or ``None`` where each has one. Raises ``PoisonRecord``."""
        schema = arrow_schema(self.row_type)
        found = self._at_once(messages, schema)
        if found is not None:
            return found, None
        rows = []
        counts = np.zeros(len(messages), np.int64)
        for index, message in enumerate(objects(messages)):
            try:
                row = None if message is None else self._row(message)
            except Unreadable as error:
                raise PoisonRecord(index, str(error)) from None
            if row is not None:
                rows.append(row)
                counts[index] = 1
        arrays = as_arrays(rows, schema)
        if arrays is None:
            raise first_poison(self.read, messages)
        return pa.RecordBatch.from_arrays(arrays, schema=schema), counts

    # ---- by Arrow

    def _at_once(self, messages: Values, schema: pa.Schema) -> pa.RecordBatch | None:
        """Decodes messages by Arrow's CSV reader; returns ``None`` where it would read them otherwise than Flink."""
        is_usual = not (self.escape or self.allows_comments or self.trims or self.ignores_errors or self.empty_is_null)
        read = [_read_type(one.type) for one in self.row_type.fields]
        if not is_usual or any(kind is None for kind in read) or not len(messages):
            return None
        values = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
        if values.null_count or not pc.all(pc.match_substring_regex(values, rb"^[^\n]+$")).as_py():
            return None
        content = one_a_line(values)
        if _OTHERWISE.search(content) or (self.quote and self.quote.encode() in content) or BOM in content:
            return None
        names = [str(index) for index in range(len(schema))]
        try:
            table = pacsv.read_csv(
                io.BytesIO(content),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=len(content) + 1),
                pacsv.ParseOptions(delimiter=self.delimiter, quote_char=False, ignore_empty_lines=False),
                pacsv.ConvertOptions(
                    column_types=dict(zip(names, read, strict=True)),
                    null_values=[] if self.null_literal is None else [self.null_literal],
                    strings_can_be_null=self.null_literal is not None,
                ),
            )
            if table.num_rows != len(values):
                return None
            columns = [self._cast(one.type, table.column(at)) for at, one in enumerate(self.row_type.fields)]
            return pa.RecordBatch.from_arrays(columns, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _cast(self, type: LogicalType, column: pa.ChunkedArray) -> pa.Array:
        if type.root is TypeRoot.BOOLEAN:
            texts = pc.ascii_lower(pc.ascii_trim_whitespace(column))
            return pa.concat_arrays(pc.equal(texts, "true").chunks)
        return cast_texts(type, column, TimestampStandard.SQL)

    # ---- one by one

    def _row(self, message: bytes) -> tuple[Any, ...] | None:
        """Decodes a line to the values of a row; ``None`` for a line that is skipped."""
        try:
            cells = self._cells(message.removeprefix(BOM))
        except Unreadable:
            if self.ignores_errors:
                return None
            raise
        if len(cells) < len(self._columns) and not self.ignores_errors:
            raise Unreadable(f"Row length mismatch. {len(self._columns)} fields expected but was {len(cells)}.")
        given = [*cells, *[None] * (len(self._columns) - len(cells))]
        return tuple(
            [self._value(name, convert, cell) for (name, convert), cell in zip(self._columns, given, strict=True)]
        )

    def _cells(self, message: bytes) -> list[str]:
        """Returns the cells of a message's first line. Raises ``Unreadable`` for a line with more cells than columns."""
        try:
            lines: list[str] = message.decode().splitlines(keepends=True)
        except UnicodeDecodeError as error:
            raise Unreadable(f"not UTF-8: {error.reason} at byte {error.start}") from None
        if self.allows_comments:
            begun = (line.lstrip(" ") for line in lines)
            lines = [line for line in begun if line.strip() and not line.startswith("#")]
        if not lines:
            raise Unreadable("the message has no line of CSV")
        options: dict[str, Any] = {"delimiter": self.delimiter, "escapechar": self.escape, "strict": True}
        options |= {"quoting": csv.QUOTE_NONE} if self.quote is None else {"quotechar": self.quote}
        try:
            cells = next(csv.reader(lines, **options), None) or [""]
        except csv.Error as error:
            raise Unreadable(f"the message is no line of CSV: {error}") from None
        if self.trims:
            cells = [cell.strip(" \t") for cell in cells]
        most = len(self._columns)
        if len(cells) == most + 1 and not cells[-1] and self.allows_trailing_delimiter:
            return cells[:-1]
        if len(cells) > most and not self.ignores_trailing:
            raise Unreadable(f"Too many entries: expected at most {most}, the line has {len(cells)}")
        return cells[:most]

    def _value(self, name: str, convert: Convert, cell: str | None) -> Any:
        try:
            return None if cell is None else convert(cell)
        except Unreadable as error:
            if self.ignores_errors:
                return None
            raise Unreadable(f"field {name}: {error}") from None

    def _nullable(self, convert: Convert) -> Convert:
        nulls = {text for text in (self.null_literal, "" if self.empty_is_null else None) if text is not None}
        return (lambda cell: None if cell in nulls else convert(cell)) if nulls else convert

    def _inner(self, type: LogicalType) -> Convert:
        """Returns the converter of the elements within a cell."""
        convert = self._nullable(self._convert(type))
        return (lambda cell: self._value("", convert, cell)) if self.ignores_errors else convert

    def _convert(self, type: LogicalType) -> Convert:
        """Returns the converter of cells to values of a type. Raises ``InvalidJob`` for a type that the format does not support."""
        if type.root in _BITS:
            bits = _BITS[type.root]
            return lambda cell: whole_number(cell, bits)
        match type.root:
            case TypeRoot.CHAR | TypeRoot.VARCHAR:
                return str
            case TypeRoot.BOOLEAN:
                return lambda cell: cell.strip(BLANK).lower() == "true"
            case TypeRoot.FLOAT | TypeRoot.DOUBLE:
                return floating_number
            case TypeRoot.DECIMAL:
                precision, scale = type.precision or 10, type.scale or 0
                return lambda cell: decimal_number(_untrimmed(cell), precision, scale)
            case TypeRoot.BINARY | TypeRoot.VARBINARY:
                return _bytes
            case TypeRoot.DATE:
                return _date
            case TypeRoot.TIME:
                unit = 10 ** (9 - min(type.precision or 0, 3))
                return lambda cell: _time(cell) // unit * unit // 1_000_000
            case TypeRoot.TIMESTAMP:
                divisor = UNIT_NS[arrow_type(type).unit]
                return lambda cell: timestamp_of(cell.strip(BLANK), TimestampStandard.SQL) // divisor
            case TypeRoot.TIMESTAMP_LTZ:
                divisor = UNIT_NS[arrow_type(type).unit]
                return lambda cell: instant_of(cell.strip(BLANK), TimestampStandard.SQL) // divisor
            case TypeRoot.ARRAY:
                element = self._inner(type.element)
                return lambda cell: [element(one) for one in cell.split(self.array_delimiter)] if cell else []
            case TypeRoot.ROW:
                fields = [(one.name, self._inner(one.type)) for one in type.fields]
                return lambda cell: self._struct(fields, cell)
            case _:
                raise InvalidJob(f"Unsupported type: {type}: the format csv does not read it")

    def _struct(self, fields: list[tuple[str, Convert]], cell: str) -> dict[str, Any] | None:
        if not cell:
            return None
        cells: list[str | None] = list(cell.split(self.array_delimiter))
        if len(cells) < len(fields):
            if not self.ignores_errors:
                raise Unreadable(f"Row length mismatch. {len(fields)} fields expected but was {len(cells)}.")
            cells += [None] * (len(fields) - len(cells))
        return {name: self._value(name, convert, one) for (name, convert), one in zip(fields, cells, strict=False)}


def _read_type(type: LogicalType) -> pa.DataType | None:
    """Returns the Arrow type to read a column as, or ``None`` where Arrow would read another value than Flink."""
    if type.root in _NUMBERS or type.root in TEXTS:
        return arrow_type(type)
    return pa.string() if type.root in _TIMES or type.root is TypeRoot.BOOLEAN else None


def _untrimmed(cell: str) -> str:
    if cell != cell.strip(BLANK):
        raise Unreadable(f"{cell!r} is no decimal number")
    return cell


def _bytes(cell: str) -> bytes:
    try:
        return base64.b64decode(cell, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable(f"no base64: {error}") from None


def _date(cell: str) -> int:
    """Parses a date as ``java.sql.Date.valueOf`` does: days and months may have one digit, and the 31st of February is the 3rd of March."""
    found = _DATE.fullmatch(cell)
    if found is None or not 1 <= int(found[3]) <= 31:
        raise Unreadable(f"{cell!r} is no date yyyy-MM-dd")
    return date_of(f"{found[1]}-{int(found[2]):02d}-01") + int(found[3]) - 1


def _time(cell: str) -> int:
    """Parses a time as ``LocalTime.parse`` does; seconds may be left out."""
    if cell.startswith("24"):
        raise Unreadable(f"{cell!r} is no time of the day")
    return time_of(f"{cell}:00" if _SHORT_TIME.fullmatch(cell) else cell)
