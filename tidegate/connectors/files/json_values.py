"""Values of JSON as columns, read by Python: of types that Arrow's reader does not know, and in forms that it does not take.

They are read as by Flink's JSON format (Flink: ``JsonRowDeserializationSchema``): numbers may be between quotes, a text may be any
value, bytes are base64, dates and times are ISO 8601, an object may be a map. Law: nothing of a value is lost. Flink makes 5 of 5.7
where a whole number is wanted, and false of any text; both are refused here.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from tidegate.common.records.java_text import double_text
from tidegate.model.values import FieldValue

_Reader = Callable[[FieldValue], FieldValue]

_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_FRACTION = re.compile(r"\.([0-9]+)")
_BLANKS = re.compile(r"\s*")
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BY_ARROW = (
    pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string,
    pa.types.is_large_string, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_null,
)  # fmt: skip


def reads_by_arrow(kind: pa.DataType) -> bool:
    """Whether Arrow's reader knows the type, and means by it what is written for it."""
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return all(reads_by_arrow(kind.field(i).type) for i in range(kind.num_fields))
    return any(is_of(kind) for is_of in _BY_ARROW)


def json_batch(content: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a row for each object in ``content``, with blanks between them. Raises ``ValueError`` for what is no JSON, and
    ``ArrowInvalid`` for a value that is none of its column."""
    has_decimals = any(_has_decimals(field.type) for field in schema)
    decoder = json.JSONDecoder(parse_float=Decimal if has_decimals else float, parse_constant=_refused)
    objects = _objects(content.decode(), decoder)
    return pa.RecordBatch.from_arrays([_column(objects, field) for field in schema], schema=schema)


def _objects(text: str, decoder: json.JSONDecoder) -> list[dict[str, FieldValue]]:
    found: list[dict[str, FieldValue]] = []
    place = _behind_blanks(text, 0)
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        if not isinstance(value, dict):
            raise pa.ArrowInvalid(f"row {len(found)} is no object: {_shown(value)}")
        found.append(value)
        place = _behind_blanks(text, place)
    return found


def _behind_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    return place if blanks is None else blanks.end()


def _refused(name: str) -> FieldValue:
    raise ValueError(f"{name} is no JSON")


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    return any(_has_decimals(kind.field(i).type) for i in range(kind.num_fields))


def _column(objects: Sequence[dict[str, FieldValue]], field: pa.Field) -> pa.Array:
    read, values = _reader(field.type), []
    for row, one in enumerate(objects):
        value = one.get(field.name)
        try:
            values.append(None if value is None else read(value))
        except (ValueError, InvalidOperation, OverflowError):
            raise pa.ArrowInvalid(f"field {field.name!r} of row {row}: {_shown(value)} is no {field.type}") from None
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise pa.ArrowInvalid(f"field {field.name!r}: {error}") from None


def _shown(value: FieldValue) -> str:
    return repr(value)[:200]


def _reader(kind: pa.DataType) -> _Reader:
    """Returns what reads values that are not null. It raises ``ValueError``."""
    for is_of, read in _READERS:
        if is_of(kind):
            return read
    if pa.types.is_timestamp(kind):
        return _timestamp_reader(_PER_SECOND[kind.unit])
    if pa.types.is_dictionary(kind):
        return _reader(kind.value_type)
    if pa.types.is_map(kind):
        return _map_reader(_reader(kind.key_type), _nullable(_reader(kind.item_type)))
    if pa.types.is_struct(kind):
        return _struct_reader({field.name: _nullable(_reader(field.type)) for field in kind})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_reader(_nullable(_reader(kind.value_type)))
    raise pa.ArrowInvalid(f"JSON holds no {kind}")


def _nullable(read: _Reader) -> _Reader:
    return lambda value: None if value is None else read(value)


def _whole(value: FieldValue) -> int:
    match value:
        case bool():
            raise ValueError
        case int():
            return value
        case float() | Decimal() if value % 1 == 0:
            return int(value)
        case str() if _WHOLE.fullmatch(value):
            return int(value)
    raise ValueError


def _floating(value: FieldValue) -> float:
    match value:
        case bool():
            raise ValueError
        case int() | float() | Decimal():
            return float(value)
        case str() if value in _NUMBERS:
            return _NUMBERS[value]
        case str() if _NUMBER.fullmatch(value):
            return float(value)
    raise ValueError


def _decimal(value: FieldValue) -> Decimal:
    match value:
        case bool():
            raise ValueError
        case int() | Decimal():
            return Decimal(value)
        case str() if _NUMBER.fullmatch(value):
            return Decimal(value.strip())
    raise ValueError


def _boolean(value: FieldValue) -> bool:
    match value.strip().lower() if isinstance(value, str) else value:
        case True | "true":
            return True
        case False | "false":
            return False
    raise ValueError


def _text(value: FieldValue) -> str:
    """Any value as Jackson shows it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case dict():
            return "{" + ",".join(f"{_quoted(name)}:{_inside(part)}" for name, part in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_inside, value)) + "]"
    return str(value)


def _inside(value: FieldValue) -> str:
    if value is None:
        return "null"
    return _quoted(value) if isinstance(value, str) else _text(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bytes(value: FieldValue) -> bytes:
    return base64.b64decode(_only_text(value), validate=True)


def _date(value: FieldValue) -> datetime.date:
    return datetime.date.fromisoformat(_only_text(value))


def _time(value: FieldValue) -> datetime.time:
    found = datetime.time.fromisoformat(_only_text(value).removesuffix("Z"))
    if found.tzinfo is not None:
        raise ValueError
    return found


def _timestamp_reader(per_second: int) -> _Reader:
    """Instants of any offset are in UTC, and so is a time without one; digits beyond the unit are left out."""

    def read(value: FieldValue) -> int:
        text = _only_text(value)
        fraction = _FRACTION.search(text)
        digits = fraction[1] if fraction else ""
        moment = datetime.datetime.fromisoformat(_FRACTION.sub("", text, count=1))
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        since = moment - _EPOCH
        nanos = int(digits[:9].ljust(9, "0"))
        return (since.days * 86400 + since.seconds) * per_second + nanos * per_second // 10**9

    return read


def _only_text(value: FieldValue) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _map_reader(key: _Reader, item: _Reader) -> _Reader:
    def read(value: FieldValue) -> list[tuple[FieldValue, FieldValue]]:
        if not isinstance(value, dict):
            raise ValueError
        return [(key(name), item(part)) for name, part in value.items()]

    return read


def _struct_reader(fields: dict[str, _Reader]) -> _Reader:
    def read(value: FieldValue) -> dict[str, FieldValue]:
        if not isinstance(value, dict):
            raise ValueError
        return {name: field(value.get(name)) for name, field in fields.items()}

    return read


def _list_reader(one: _Reader) -> _Reader:
    def read(value: FieldValue) -> list[FieldValue]:
        if not isinstance(value, list):
            raise ValueError
        return [one(part) for part in value]

    return read


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_READERS: list[tuple[Callable[[pa.DataType], bool], _Reader]] = [
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (_is_bytes, _bytes),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_null, _refused),
]
