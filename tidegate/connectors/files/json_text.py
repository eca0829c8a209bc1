"""Records as JSON text, and back: by Arrow's reader, and by Python where that does not know a type or a form. Which of them reads a block
is seen by the time that it takes, and by nothing else.

JSON has no ``NaN`` and no infinity: they are written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as Flink's JSON
format and Spark do by way of Jackson, and read as numbers where the column is one; so are the bare words, which Python writes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tidegate.connectors.files.batches import one_batch
from tidegate.connectors.files.decimal_text import has_decimals, has_tiny
from tidegate.connectors.files.json_values import Number, json_batch, json_objects, reads_by_arrow
from tidegate.model.values import FieldValue, Record

BOM = b"\xef\xbb\xbf"
MAX_DEPTH = 500
"""The most levels of nested JSON. Half of what Python's stack allows, since its JSON reader needs one frame for each level; Jackson's limit is 1000."""
MAX_INFERRED_DEPTH = 100
"""The most levels of a nested type that is inferred: FlatBuffers, Arrow's form of schemas for the wire, refuses types that are slightly deeper."""
TOO_DEEP = f"the value is nested more than {MAX_DEPTH} deep"
_MOST_FLOAT_DIGITS = 308
"""Every whole number with so many digits is less than the largest float."""
_FIRST_NULL = re.compile(rb"\s*null")
_LATER_NULL = re.compile(rb"\}\s*null")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_OPENING = np.frombuffer(b"{[", np.uint8)


def _stand_in(value: FieldValue) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_stand_in).encode


def json_texts(data: pa.RecordBatch) -> list[str]:
    """Formats each row as a JSON object, and a map as an object too; other types are text: bytes as base64, dates and decimals as Python shows them."""
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
    """Parses JSON objects to rows: unknown fields are ignored, missing ones are null. ``are_lines``: no object contains a line end, so that each can be
    checked for its depth; otherwise the caller must exclude deep ones (``is_too_deep``). Raises ``ArrowInvalid``.

    What Python's reader says counts; Arrow's is given what it reads in the same way."""
    if are_lines and any(map(is_too_deep, _long_lines(content))):
        raise pa.ArrowInvalid(TOO_DEEP)
    has_exact = any(has_decimals(field.type) for field in schema) and has_tiny(content)
    if not has_exact and all(reads_by_arrow(field.type) for field in schema) and is_safe(content):
        try:
            data = one_batch(_table(content, schema, are_lines), schema)
        except Exception:  # noqa: BLE001  whatever it is that Arrow does not take: Python says what is wrong
            data = None
        if data is not None and not _is_doubtful(data, content):
            return data
    try:
        return json_batch(content, schema)
    except pa.ArrowInvalid:
        raise
    except ValueError as error:
        raise pa.ArrowInvalid(f"JSON parse error: {error}") from error


def json_schema(lines: bytes) -> pa.Schema:
    """Infers the fields of JSON objects as Arrow does, except that a column with whole numbers beyond int64 is text, which a float would change. Raises
    ``ArrowInvalid``."""
    if any(is_too_deep(line, MAX_INFERRED_DEPTH) for line in _long_lines(lines, MAX_INFERRED_DEPTH)):
        raise pa.ArrowInvalid(f"a value is nested more than {MAX_INFERRED_DEPTH} deep, which is too much for a column")
    json_rows(lines, pa.schema([]), are_lines=True)  # Arrow's reader may see them then
    if not lines.strip():
        raise pa.ArrowInvalid("the file holds no JSON object")
    found = pa.json.read_json(
        pa.BufferReader(lines), read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    ).schema
    if not any(map(_has_floats, found.types)):
        return found
    objects = json_objects(lines.decode())
    return pa.schema(
        [field.with_type(_without_loss(field.type, [one.get(field.name) for one in objects])) for field in found]
    )


def is_too_deep(text: bytes, most: int = MAX_DEPTH) -> bool:
    """Returns whether a JSON value is nested more than ``most`` deep."""
    if text.count(b"{") + text.count(b"[") <= most:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", text).translate(None, _NO_BRACKETS), np.uint8)
    return bool(np.where(np.isin(brackets, _OPENING), 1, -1).cumsum().max(initial=0) > most)


def is_safe(content: bytes) -> bool:
    """Returns whether Arrow's reader can parse the content safely. It crashes if the first value is ``null``, removes a byte order mark wherever a
    block begins, and accepts text that is not UTF-8."""
    if content.startswith(BOM) or _FIRST_NULL.match(content):
        return False
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def _is_doubtful(data: pa.RecordBatch, content: bytes) -> bool:
    """Returns whether Arrow may have read ``null`` as an object, or a number that is too large as infinity."""
    if all(column.null_count for column in data.columns) and _LATER_NULL.search(content):
        return True
    return any(map(_has_infinity, data.columns))


def _long_lines(content: bytes, depth: int = MAX_DEPTH) -> Iterator[bytes]:
    """Yields the lines that are long enough to be nested deeper than ``depth``, which takes two bytes a level."""
    begin = 0
    while begin + 2 * depth < len(content):
        end = content.rfind(b"\n", begin, begin + 2 * depth)
        if end < 0:
            end = content.find(b"\n", begin)
            end = len(content) if end < 0 else end
            yield content[begin:end]
        begin = end + 1


def _has_infinity(column: pa.Array) -> bool:
    """Returns whether a column contains an infinity, which may be a number that is too large."""
    if pa.types.is_floating(column.type):
        return pc.any(pc.is_inf(column)).as_py() is True
    if pa.types.is_struct(column.type) or pa.types.is_list(column.type):
        return any(map(_has_infinity, column.flatten() if pa.types.is_struct(column.type) else [column.flatten()]))
    return False


def _has_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_has_floats(kind.field(i).type) for i in range(kind.num_fields))


def _without_loss(kind: pa.DataType, values: Sequence[FieldValue]) -> pa.DataType:
    """Returns the type with text in place of each float type that would change ``values``."""
    if pa.types.is_floating(kind):
        numbers = [value for value in values if isinstance(value, Number)]
        return pa.string() if changes_as_floats(numbers) else kind
    if pa.types.is_list(kind):
        items = [item for value in values if isinstance(value, list) for item in value]
        return pa.list_(kind.value_field.with_type(_without_loss(kind.value_type, items)))
    if pa.types.is_struct(kind):
        rows = [value for value in values if isinstance(value, dict)]
        return pa.struct([f.with_type(_without_loss(f.type, [row.get(f.name) for row in rows])) for f in kind])
    return kind


def changes_as_floats(numbers: Sequence[str]) -> bool:
    """Returns whether floats would change the numbers: all are whole, or a whole one loses digits."""
    are_whole = [number.lstrip("+-").isdecimal() for number in numbers]
    return bool(are_whole) and (all(are_whole) or any(map(_loses_digits, compress(numbers, are_whole))))


def _loses_digits(number: str) -> bool:
    return len(number) > _MOST_FLOAT_DIGITS or int(number) != int(float(number))


def _table(content: bytes, schema: pa.Schema, are_lines: bool) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(content),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=not are_lines
        ),
    )


def missing_field(content: bytes | None, fields: Iterable[pa.Field]) -> str | None:
    """Returns the first of ``fields``, or of nested rows' fields, that the JSON object in ``content`` lacks; ``None`` if it lacks none or is not an
    object."""
    try:
        (found,) = json_objects((content or b"").decode())
        return _missing(found, fields)
    except ValueError:
        return None


def _missing(found: FieldValue, fields: Iterable[pa.Field]) -> str | None:
    if not isinstance(found, dict):
        return None
    for field in fields:
        if field.name not in found:
            return str(field.name)
        if pa.types.is_struct(field.type) and (inner := _missing(found[field.name], field.type)):
            return inner
    return None
