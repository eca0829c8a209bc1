"""Conversion of single CSV cells to values and back, as Flink does with Jackson (Flink: ``CsvToRowDataConverters``, ``RowDataToCsvConverters``, and
PyFlink's ``CsvRowDeserializationSchema``, ``CsvRowSerializationSchema``).

Numbers and booleans may have blanks around them; what is not ``true`` is false. A list, or a row within a row, is one cell, its
elements between separators. Bytes are base64, times are written as ``java.sql`` writes them.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TypeInformation,
    Types,
)
from tidegate.connectors.files.decimal_text import exact
from tidegate.model.errors import InvalidJob
from tidegate.model.values import FieldValue, Record
from tidegate.records.java_text import double_text, float_text
from tidegate.records.record_text import record_text

Reader = Callable[[str], FieldValue]
Writer = Callable[[Record], str]

_WHOLE = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)
_BARE = (*_WHOLE, BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC, BasicType.BOOLEAN)
_KINDS: list[tuple[Callable[[pa.DataType], bool], TypeInformation]] = [
    (pa.types.is_integer, Types.LONG()),
    (pa.types.is_float32, Types.FLOAT()),
    (pa.types.is_floating, Types.DOUBLE()),
    (pa.types.is_decimal, Types.BIG_DEC()),
    (pa.types.is_boolean, Types.BOOLEAN()),
    (pa.types.is_binary, Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (pa.types.is_date, Types.SQL_DATE()),
    (pa.types.is_time, Types.SQL_TIME()),
    (pa.types.is_timestamp, Types.SQL_TIMESTAMP()),
]
_TIMES: dict[str, Reader] = {
    "Date": datetime.date.fromisoformat,
    "Time": datetime.time.fromisoformat,
    "Timestamp": datetime.datetime.fromisoformat,
}
_EPOCH = datetime.datetime(1970, 1, 1)
_DIGITS = Context(prec=76, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class CsvColumn:
    """A column of a CSV file. ``separator``: between the elements of a list; ``decimals``: precision and scale of a DECIMAL, to which values are
    rounded half up; ``None``: unchanged."""

    name: str
    kind: TypeInformation
    separator: str = ";"
    decimals: tuple[int, int] | None = None

    @property
    def is_bare(self) -> bool:
        """Returns whether cells are never quoted, as numbers and booleans are not."""
        return isinstance(self.kind, BasicTypeInfo) and self.kind.basic_type in _BARE


def kind_of(arrow: pa.DataType) -> TypeInformation:
    """Returns the type as which a column of a columnar stream is written; types without a CSV form are written as Python's text."""
    for is_of, kind in _KINDS:
        if is_of(arrow):
            return kind
    return Types.LIST(kind_of(arrow.value_type)) if pa.types.is_list(arrow) else Types.STRING()


def reader_of(column: CsvColumn, null_value: str | None) -> Reader:
    """Returns the parser of a column's cells, which raises ``ValueError`` for an invalid text. Raises ``InvalidJob`` for a type that CSV cannot hold."""
    inner = _reader(column.kind, column, null_value)
    if null_value is None:
        return inner
    return lambda text: None if text == null_value else inner(text)


def writer_of(column: CsvColumn, null_text: str) -> Writer:
    """Returns the formatter of a column's cells, without quotes. Raises ``InvalidJob`` for a type that CSV cannot hold."""
    inner = _writer(column.kind, column, null_text)
    return lambda value: null_text if value is None else inner(value)


def _reader(kind: TypeInformation, column: CsvColumn, null_value: str | None) -> Reader:
    match kind:
        case BasicTypeInfo():
            return _decimal_reader(column) if kind.basic_type is BasicType.BIG_DEC else _basic_reader(kind.basic_type)
        case SqlTimeTypeInfo():
            return _TIMES[kind.kind]
        case PrimitiveArrayTypeInfo() if kind.element_type == BasicTypeInfo.BYTE_TYPE_INFO():
            return lambda text: base64.b64decode(text, validate=True)
        case RowTypeInfo():
            return _row_reader(
                [_nullable(_reader(f, column, null_value), null_value) for f in kind.get_field_types()], column
            )
    if (element := getattr(kind, "element_type", None)) is None:
        raise InvalidJob(f"column {column.name!r}: CSV cannot hold {kind!r}")
    read = _nullable(_reader(element, column, null_value), null_value)
    return lambda text: [read(part) for part in text.split(column.separator)] if text.strip() else []


def _nullable(read: Reader, null_value: str | None) -> Reader:
    return read if null_value is None else lambda text: None if text == null_value else read(text)


def _basic_reader(basic: BasicType) -> Reader:
    if basic in _WHOLE:
        return _whole
    match basic:
        case BasicType.FLOAT | BasicType.DOUBLE:
            return _floating
        case BasicType.BOOLEAN:
            return lambda text: text.strip().lower() == "true"
        case BasicType.INSTANT:
            return _instant
    return str


def _whole(text: str) -> int:
    if "_" in text:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _floating(text: str) -> float:
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    found = float(text)
    if math.isinf(found) and "inf" not in text.lower():
        raise ValueError(f"{text!r} is too large")
    return found


def _instant(text: str) -> Instant:
    """Parses an instant; always in UTC, as in Flink."""
    since = datetime.datetime.fromisoformat(text).replace(tzinfo=None) - _EPOCH
    return Instant(since.days * 86400 + since.seconds, since.microseconds * 1000)


def _decimal_reader(column: CsvColumn) -> Reader:
    def read(text: str) -> Decimal | None:
        try:
            return exact(text) if column.decimals is None else rounded(Decimal(text.strip()), column.decimals)
        except (ValueError, ArithmeticError):
            raise ValueError(f"{text!r} is not a decimal number") from None

    return read


def rounded(value: Decimal, decimals: tuple[int, int] | None) -> Decimal | None:
    """Rounds to the scale of a DECIMAL, half up; ``None`` if it has too many digits before the point (Flink: ``DecimalData.fromBigDecimal``)."""
    if decimals is None:
        return value
    precision, scale = decimals
    found = value.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    return found if len(found.as_tuple().digits) <= precision else None


def _row_reader(fields: Sequence[Reader], column: CsvColumn) -> Reader:
    def read(text: str) -> Row:
        parts = text.split(column.separator)
        if len(parts) != len(fields):
            raise ValueError(f"{text!r} has {len(parts)} parts, not {len(fields)}")
        return Row(*[field(part) for field, part in zip(fields, parts, strict=True)])

    return read


def _writer(kind: TypeInformation, column: CsvColumn, null_text: str) -> Writer:
    match kind:
        case BasicTypeInfo():
            return _basic_writer(kind.basic_type, column)
        case SqlTimeTypeInfo():
            return lambda value: record_text(value, kind)
        case PrimitiveArrayTypeInfo() if kind.element_type == BasicTypeInfo.BYTE_TYPE_INFO():
            return lambda value: base64.b64encode(value).decode()
        case RowTypeInfo():
            fields = [_or_null(_writer(field, column, null_text), null_text) for field in kind.get_field_types()]
            return lambda row: column.separator.join(write(part) for write, part in zip(fields, row, strict=True))
    if (element := getattr(kind, "element_type", None)) is None:
        raise InvalidJob(f"column {column.name!r}: CSV cannot hold {kind!r}")
    one = _or_null(_writer(element, column, null_text), null_text)
    return lambda values: column.separator.join(map(one, values))


def _or_null(write: Writer, null_text: str) -> Writer:
    return lambda value: null_text if value is None else write(value)


def _basic_writer(basic: BasicType, column: CsvColumn) -> Writer:
    match basic:
        case BasicType.FLOAT:
            return float_text
        case BasicType.DOUBLE:
            return double_text
        case BasicType.BOOLEAN:
            return lambda value: "true" if value else "false"
        case BasicType.BIG_DEC:
            return lambda value: _decimal_text(value, column.decimals)
        case BasicType.INSTANT:
            return _instant_text
    return str


def _instant_text(value: Instant) -> str:
    """Formats an instant with as many fractional digits as it has."""
    moment = _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment.isoformat(sep=' ', timespec='seconds')}{fraction}Z"


def _decimal_text(value: Decimal, decimals: tuple[int, int] | None) -> str:
    found = rounded(value, decimals)
    return "" if found is None else str(found.normalize(_DIGITS) if decimals else found)
