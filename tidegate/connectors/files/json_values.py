"""Parsing of JSON values to columns by Python, for types and forms that Arrow's reader does not support.

They are read as by Flink's JSON format (Flink: ``JsonRowDeserializationSchema``): numbers may be between quotes, a text may be any
value, bytes are base64, dates and times are ISO 8601, an object may be a map. Of fields that an object has twice, the last counts.

Law: nothing of a value is lost. A number stays the text that it is until its column is known, so that no digit goes through a float. What a
column cannot hold is refused: 5.7 as a whole number (Flink makes 5 of it), any text as a boolean, 1e400 as a float, a fraction of a second
that is finer than the column's unit.
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

from tidegate.connectors.files.decimal_text import exact, fitted
from tidegate.model.values import FieldValue
from tidegate.records.java_text import double_text

_Reader = Callable[[FieldValue], FieldValue]


class Number(str):
    """A JSON number as its text."""

    __slots__ = ()


_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_FRACTION = re.compile(r"[.,]([0-9]+)")
_BLANKS = re.compile(r"[ \t\n\r]*")
_SHOWN_CHARACTERS = 200
"""How many characters of a value a message shows. Chosen, not measured."""
_MOST_DIGITS = 76
"""The digits of a decimal256: no column holds longer whole numbers, and Python parses so many in some microseconds."""
_INFINITE_FROM = {"halffloat": 65520.0, "float": 3.4028235677973366e38}
"""The values from which IEEE 754 rounds to infinity in a float of 16 and of 32 bits."""
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BY_ARROW = (
    pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string,
    pa.types.is_large_string, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_null,
)  # fmt: skip


def reads_by_arrow(kind: pa.DataType) -> bool:
    """Returns whether Arrow's reader supports the type and reads it as it is written."""
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return all(reads_by_arrow(kind.field(i).type) for i in range(kind.num_fields))
    return any(is_of(kind) for is_of in _BY_ARROW)


def json_batch(content: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Parses each object in ``content``, with blanks between them, to a row. Raises ``ValueError`` for invalid JSON, and ``ArrowInvalid`` for a value
    that does not fit its column."""
    objects = json_objects(content.decode())
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(objects), pa.struct([])))
    return pa.RecordBatch.from_arrays([_column(objects, field) for field in schema], schema=schema)


def json_objects(text: str) -> list[dict[str, FieldValue]]:
    """Parses the objects in ``text``, with blanks between them; their numbers are ``Number``. Raises ``ValueError`` for invalid JSON, and
    ``ArrowInvalid`` for a value that is not an object."""
    found: list[dict[str, FieldValue]] = []
    place = _after_blanks(text, 0)
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        if not isinstance(value, dict):
            raise pa.ArrowInvalid(f"row {len(found)} is not an object: {_shown(value)}")
        found.append(value)
        place = _after_blanks(text, place)
    return found


def check_type(field: pa.Field) -> None:
    """Raises ``ArrowInvalid`` for a column type that JSON cannot be read into."""
    _reader(field.type)


def _after_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    return place if blanks is None else blanks.end()


def _refused(value: FieldValue) -> FieldValue:
    raise ValueError(
        f"the column is declared as null, and a row has the value {value!r} in it: declare the type of its values"
    )


def _column(objects: Sequence[dict[str, FieldValue]], field: pa.Field) -> pa.Array:
    read, values = _reader(field.type), []
    for row, one in enumerate(objects):
        value = one.get(field.name)
        try:
            values.append(None if value is None else read(value))
        except (ValueError, ArithmeticError):
            raise _misfit(field, row, value) from None
    try:
        return pa.array(values, field.type)
    except Exception:
        for row, value in enumerate(values):
            try:
                pa.array([value], field.type)
            except Exception as error:
                raise _misfit(field, row, objects[row][field.name]) from error
        raise


def _misfit(field: pa.Field, row: int, value: FieldValue) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"field {field.name!r} of row {row}: {_shown(value)} is no {field.type}")


def _shown(value: FieldValue) -> str:
    """Returns the beginning of a value for messages, with quotes around texts."""
    is_text = isinstance(value, str) and not isinstance(value, Number)
    return (repr(value) if is_text else _text(value))[:_SHOWN_CHARACTERS]


def _reader(kind: pa.DataType) -> _Reader:
    """Returns the parser of non-null values of a type. It raises ``ValueError``."""
    for is_of, read in _READERS:
        if is_of(kind):
            return read
    if pa.types.is_timestamp(kind):
        return _timestamp_reader(_PER_SECOND[kind.unit])
    if pa.types.is_time(kind):
        return _time_reader(_PER_SECOND[kind.unit])
    if pa.types.is_decimal(kind):
        return _decimal_reader(kind)
    if pa.types.is_floating(kind):
        return _float_reader(_INFINITE_FROM.get(str(kind), math.inf))
    if pa.types.is_dictionary(kind):
        return _reader(kind.value_type)
    if pa.types.is_map(kind):
        return _map_reader(_reader(kind.key_type), _nullable(_reader(kind.item_type)))
    if pa.types.is_struct(kind):
        return _struct_reader({field.name: _nullable(_reader(field.type)) for field in kind})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_reader(_nullable(_reader(kind.value_type)))
    raise pa.ArrowInvalid(f"JSON cannot hold {kind}")


def _nullable(read: _Reader) -> _Reader:
    return lambda value: None if value is None else read(value)


def _whole(value: FieldValue) -> int:
    if isinstance(value, Number) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        if len(value) <= _MOST_DIGITS:
            try:
                return int(value)
            except ValueError:
                pass  # 5.0 and 5e2 are whole, too
        number = exact(value)
        if number == number.to_integral_value():
            return int(number)
    raise ValueError


def _float_reader(infinite_from: float) -> _Reader:
    def read(value: FieldValue) -> float:
        if isinstance(value, Number) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
            found = float(value)
            if -infinite_from < found < infinite_from:
                return found
        elif isinstance(value, float):  # NaN and the infinities, which are no numbers of JSON
            return value
        elif isinstance(value, str) and value in _NUMBERS:
            return _NUMBERS[value]
        raise ValueError

    return read


def _decimal_reader(kind: pa.DataType) -> _Reader:
    def read(value: FieldValue) -> Decimal:
        if isinstance(value, Number) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
            return fitted(value, kind)
        raise ValueError

    return read


def _boolean(value: FieldValue) -> bool:
    match value.strip().lower() if isinstance(value, str) else value:
        case True | "true":
            return True
        case False | "false":
            return False
    raise ValueError


def _text(value: FieldValue) -> str:
    """Formats any value as Jackson does, except that a number which this would change stays as written."""
    if isinstance(value, str) and not isinstance(value, Number):
        return value
    pieces: list[str] = []
    _add_text(value, pieces)
    return "".join(pieces)


def _add_text(value: FieldValue, pieces: list[str]) -> None:
    """Appends the text of a value; recursion takes one Python frame a level."""
    match value:
        case None:
            pieces.append("null")
        case bool():
            pieces.append("true" if value else "false")
        case Number():
            pieces.append(_number_text(value))
        case str():
            pieces.append(_quoted(value))
        case dict():
            for place, (name, part) in enumerate(value.items()):
                pieces.append(f"{',' if place else '{'}{_quoted(name)}:")
                _add_text(part, pieces)
            pieces.append("}" if value else "{}")
        case list():
            for place, part in enumerate(value):
                pieces.append("," if place else "[")
                _add_text(part, pieces)
            pieces.append("]" if value else "[]")
        case _:
            pieces.append(double_text(value))


def _number_text(token: Number) -> str:
    if token.lstrip("-").isdecimal():
        return "0" if token == "-0" else str(token)  # noqa: S105  (of JSON)
    shown = double_text(float(token))
    try:
        return shown if Decimal(shown) == Decimal(token) else str(token)
    except InvalidOperation:
        return str(token)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bytes(value: FieldValue) -> bytes:
    return base64.b64decode(_only_text(value), validate=True)


def _date(value: FieldValue) -> datetime.date:
    return datetime.date.fromisoformat(_only_text(value))


def _time_reader(per_second: int) -> _Reader:
    def read(value: FieldValue) -> int:
        text, fraction = _without_fraction(_only_text(value).removesuffix("Z"), per_second)
        found = datetime.time.fromisoformat(text)
        if found.tzinfo is not None:
            raise ValueError
        return (found.hour * 3600 + found.minute * 60 + found.second) * per_second + fraction

    return read


def _timestamp_reader(per_second: int) -> _Reader:
    """Returns the parser of timestamps: any offset is converted to UTC, and a time without one is in UTC."""

    def read(value: FieldValue) -> int:
        text, fraction = _without_fraction(_only_text(value), per_second)
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        since = moment - _EPOCH
        return (since.days * 86400 + since.seconds) * per_second + fraction

    return read


def _without_fraction(text: str, per_second: int) -> tuple[str, int]:
    """Splits a text into the part without the fraction of a second, and the fraction in units. Raises ``ValueError`` if the unit is too coarse."""
    found = _FRACTION.search(text)
    if found is None:
        return text, 0
    digits = found[1].rstrip("0")
    units = int(digits or "0") * per_second
    if units % 10 ** len(digits):
        raise ValueError
    return text[: found.start()] + text[found.end() :], units // 10 ** len(digits)


def _only_text(value: FieldValue) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
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
    (pa.types.is_boolean, _boolean),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (_is_bytes, _bytes),
    (pa.types.is_date, _date),
    (pa.types.is_null, _refused),
]
_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_NUMBERS.__getitem__)
