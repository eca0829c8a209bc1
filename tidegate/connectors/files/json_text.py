"""Records as JSON text, and back where Arrow's reader does not know what is written.

JSON has no ``NaN`` and no infinity: they are written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as Flink's JSON
format and Spark do by way of Jackson, and read as numbers where the column is one.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.json

from tidegate.connectors.files.batches import one_batch
from tidegate.model.values import FieldValue, Json, JsonObject, Record

_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ANY_NUMBER = re.compile(rb'"(?:NaN|-?Infinity)"')
_BLANKS = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def _stand_in(value: FieldValue) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_stand_in).encode


def json_texts(data: pa.RecordBatch) -> list[str]:
    """Returns an object for each row; what JSON lacks is written as text: bytes as base64, dates and decimals as Python
    shows them."""
    return [_text(row) for row in data.to_pylist()]


def _text(row: Record) -> str:
    try:
        return _encode(row)
    except ValueError:  # a number that JSON lacks
        return _encode(_named(row))


def _named(value: FieldValue) -> FieldValue:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _named(part) for name, part in value.items()}
        case list() | tuple():
            return [_named(part) for part in value]
    return value


def json_rows(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.RecordBatch:
    """Returns the objects in ``content`` as rows: fields that the schema does not name are ignored, missing ones are
    null. ``are_lines``: no object has a line end. Raises ``ArrowInvalid``."""
    try:
        return one_batch(_table(content, schema, are_lines), schema)
    except pa.ArrowInvalid:
        data = _with_named_numbers(content, schema, are_lines) if _ANY_NUMBER.search(content) else None
        if data is None:
            raise
        return data


def _table(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(content),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=not are_lines
        ),
    )


def _with_named_numbers(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.RecordBatch | None:
    """Returns the rows with their columns of floats read by Python, for which ``"NaN"`` can be a number. ``None`` if
    that is not all that Arrow's reader minds."""
    floats = [f for f in schema if _has_floats(f.type)]
    others = pa.schema([f for f in schema if f not in floats])
    try:
        objects = _objects(content.decode())
        found = {f.name: pa.array([_numbered(o.get(f.name), f.type) for o in objects], f.type) for f in floats}
        data = one_batch(_table(content, others, are_lines), others)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, AttributeError):
        return None
    return pa.RecordBatch.from_arrays(
        [found[name] if name in found else data.column(name) for name in schema.names], schema=schema
    )


def _objects(text: str) -> list[JsonObject]:
    """Returns all values in a text, with blanks between them. Raises ``ValueError``."""
    found, place = [], _behind_blanks(text, 0)
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        found.append(value)
        place = _behind_blanks(text, place)
    return found


def _behind_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    return place if blanks is None else blanks.end()


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(part.type) for part in kind)
    return _has_floats(kind.value_type) if _is_list(kind) else bool(pa.types.is_floating(kind))


def _numbered(value: FieldValue, kind: pa.DataType) -> FieldValue:
    match value:
        case str() if pa.types.is_floating(kind):
            return _NUMBERS.get(value, value)
        case list():
            return [_numbered(part, kind.value_type) for part in value] if _is_list(kind) else value
        case dict() if pa.types.is_struct(kind):
            return {f.name: _numbered(value.get(f.name), f.type) for f in kind}
    return value


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def missing_field(content: bytes | None, fields: Iterable[pa.Field]) -> str | None:
    """Returns the first of ``fields``, or of the fields of one that is a row, that the object in ``content`` lacks.
    ``None`` for what is no object, too."""
    try:
        return _missing(json.loads(content or b"null"), fields)
    except ValueError:
        return None


def _missing(found: Json, fields: Iterable[pa.Field]) -> str | None:
    if not isinstance(found, dict):
        return None
    for field in fields:
        if field.name not in found:
            return str(field.name)
        if pa.types.is_struct(field.type) and (inner := _missing(found[field.name], field.type)):
            return inner
    return None
