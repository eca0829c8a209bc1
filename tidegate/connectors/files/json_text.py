"""Records as JSON text, and back: by Arrow's reader, and by Python where that does not know a type or a form.

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
from tidegate.connectors.files.json_values import json_batch, reads_by_arrow
from tidegate.model.values import FieldValue, Json, Record

_FIRST_NULL = re.compile(rb"\s*null")
_LATER_NULL = re.compile(rb"\n\s*null")


def _stand_in(value: FieldValue) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_stand_in).encode


def json_texts(data: pa.RecordBatch) -> list[str]:
    """Returns an object for each row, a map as an object, too; what JSON lacks is written as text: bytes as base64, dates
    and decimals as Python shows them."""
    return [_text(row) for row in data.to_pylist(maps_as_pydicts="strict")]


def _text(row: Record) -> str:
    try:
        return _encode(row)
    except (ValueError, TypeError):  # a number that JSON lacks, a name that is no text
        return _encode(_named(row))


def _named(value: FieldValue) -> FieldValue:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {
                name if isinstance(name, str | int) else _stand_in(name): _named(part) for name, part in value.items()
            }
        case list() | tuple():
            return [_named(part) for part in value]
    return value


def json_rows(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.RecordBatch:
    """Returns the objects in ``content`` as rows: fields that the schema does not name are ignored, missing ones are
    null. ``are_lines``: no object has a line end. Raises ``ArrowInvalid``."""
    refused: pa.ArrowInvalid | None = None
    if all(reads_by_arrow(field.type) for field in schema) and _is_safe(content):
        try:
            return one_batch(_table(content, schema, are_lines), schema)
        except pa.ArrowInvalid as error:
            refused = error
    try:
        return json_batch(content, schema)
    except pa.ArrowInvalid:
        raise
    except ValueError as error:
        raise refused or pa.ArrowInvalid(f"JSON parse error: {error}") from error


def _is_safe(content: bytes) -> bool:
    """Whether Arrow's reader may see it: the first value ends the process if it is ``null``, and text that is no UTF-8 is passed on."""
    if _FIRST_NULL.match(content) or _LATER_NULL.search(content):
        return False
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def _table(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(content),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=not are_lines
        ),
    )


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
