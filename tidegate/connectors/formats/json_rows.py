"""Rows as JSON text by a type, byte for byte as Flink writes them (Flink: ``JsonRowSerializationSchema``, by way of Jackson).

The columns of the stream are taken by position, the names are the type's. Numbers are written as Java does (``1.0E10``), what JSON
lacks as the strings ``"NaN"``, ``"Infinity"``; bytes as base64, times in UTC: ``12:34:56Z``, ``2021-06-07T08:09:10.1Z``.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring

import pyarrow as pa

from tidegate.common.time import Instant
from tidegate.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import FieldValue, Record
from tidegate.records.java_text import double_text, float_text
from tidegate.records.record_codec import decode_column

_Text = Callable[[Record], str]
_ESCAPED_OTHERWISE = re.compile("([\x0b\x0e-\x1f\U00010000-\U0010ffff])")
"""A pattern of the characters that Jackson escapes and Python does not, or with other digits."""
_EPOCH = datetime.datetime(1970, 1, 1)


def row_texts(data: pa.RecordBatch, type_info: RowTypeInfo | TupleTypeInfo) -> list[str]:
    """Formats each row as a JSON object. Raises ``SchemaMismatch`` when the columns do not match the type."""
    names, kinds = type_info.get_field_names(), type_info.get_field_types()
    if len(kinds) != data.num_columns:
        raise SchemaMismatch(
            f"the JSON type has {len(kinds)} fields ({', '.join(names)}), and the stream {data.num_columns} columns "
            f"({', '.join(data.schema.names)}): declare a field for each column"
        )
    columns = [decode_column(k, _fitting(n, k, c)) for n, k, c in zip(names, kinds, data.columns, strict=True)]
    write = _fields_text(type_info)
    return [write(values) for values in zip(*columns, strict=True)]


def _fitting(name: str, kind: TypeInformation, column: pa.Array) -> pa.Array:
    wanted = kind.arrow_type()
    if _is_alike(wanted, column.type):
        return column
    for is_one in (pa.types.is_integer, pa.types.is_floating):
        if is_one(wanted) and is_one(column.type):
            return column.cast(wanted)
    raise SchemaMismatch(
        f"field {name!r} is {kind!r} in the JSON type, and {column.type} in the stream: declare the type of the stream, or cast the column"
    )


def _is_alike(wanted: pa.DataType, given: pa.DataType) -> bool:
    """Returns whether the types are equal except for the names of fields."""
    if wanted.num_fields != given.num_fields or wanted.id != given.id:
        return False
    if wanted.num_fields == 0:
        return bool(wanted == given)
    return all(_is_alike(wanted.field(i).type, given.field(i).type) for i in range(wanted.num_fields))


@lru_cache(maxsize=512)
def _text_of(kind: TypeInformation) -> _Text:
    text = _text_of_present(kind)
    return lambda value: "null" if value is None else text(value)


def _text_of_present(kind: TypeInformation) -> _Text:
    match kind:
        case BasicTypeInfo():
            return _BASIC.get(kind.basic_type, str)
        case SqlTimeTypeInfo():
            return _TIMES[kind.kind]
        case PrimitiveArrayTypeInfo() if kind.element_type == BasicTypeInfo.BYTE_TYPE_INFO():
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case RowTypeInfo() | TupleTypeInfo():
            return _fields_text(kind)
        case MapTypeInfo():
            key, item = _key_text(_text_of(kind.key_type)), _text_of(kind.value_type)
            return lambda value: "{" + ",".join([f"{key(k)}:{item(v)}" for k, v in value.items()]) + "}"
    if (element := getattr(kind, "element_type", None)) is None:
        raise InvalidJob(f"JSON cannot hold {kind!r}")
    one = _text_of(element)
    return lambda values: f"[{','.join(map(one, values))}]"


def _key_text(text: _Text) -> _Text:
    """Returns a formatter whose texts are quoted, as names of members must be."""

    def quoted(value: FieldValue) -> str:
        found = text(value)
        return found if found.startswith('"') else f'"{found}"'

    return quoted


def _fields_text(kind: RowTypeInfo | TupleTypeInfo) -> Callable[[Sequence[FieldValue]], str]:
    names = [f"{json_string(name)}:" for name in kind.get_field_names()]
    parts = list(zip(names, [_text_of(field) for field in kind.get_field_types()], strict=True))
    return lambda values: (
        "{" + ",".join([name + text(value) for (name, text), value in zip(parts, values, strict=True)]) + "}"
    )


def json_string(value: str) -> str:
    """Formats a text as a JSON string, escaped as Jackson does."""
    if _ESCAPED_OTHERWISE.search(value) is None:
        return encode_basestring(value)
    pieces = _ESCAPED_OTHERWISE.split(value)
    texts = [_escaped(p) if place % 2 else encode_basestring(p)[1:-1] for place, p in enumerate(pieces)]
    return f'"{"".join(texts)}"'


def _escaped(character: str) -> str:
    """Escapes a character as its UTF-16 units."""
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))


def _number(text: Callable[[float], str]) -> _Text:
    return lambda value: text(value) if math.isfinite(value) else f'"{text(value)}"'


def _timestamp(value: datetime.datetime) -> str:
    fraction = f".{value.microsecond:06d}".rstrip("0").rstrip(".")
    return f'"{value.isoformat(timespec="seconds")}{fraction}Z"'


def _instant(value: Instant) -> str:
    """Formats an instant with as many fractional digits as Java's ``Instant``: none, three or six."""
    moment = _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    digits = "auto" if not moment.microsecond else "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return f'"{moment.isoformat(timespec=digits)}Z"'


_BASIC: dict[BasicType, _Text] = {
    BasicType.STRING: json_string,
    BasicType.CHAR: json_string,
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: _number(float_text),
    BasicType.DOUBLE: _number(double_text),
    BasicType.INSTANT: _instant,
}
"""Formatters of basic types; others are whole or decimal numbers, formatted by ``str``."""
_TIMES: dict[str, _Text] = {
    "Date": lambda value: f'"{value.isoformat()}"',
    "Time": lambda value: f'"{value.isoformat(timespec="seconds")}Z"',
    "Timestamp": _timestamp,
}
