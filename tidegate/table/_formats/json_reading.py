"""Decoding of JSON to rows of a table (Flink: ``JsonParserRowDataDeserializationSchema``).

A batch of messages is decoded by Arrow's reader where that reads it as Flink does, and otherwise one by one. Arrow reads objects whose members have the
JSON type of their column; text in a number column, numbers in a text column, times in other forms than the standard's and invalid messages take the
slow path.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tidegate.connectors.files.json_text import BOM, MAX_DEPTH, TOO_DEEP, is_safe, is_too_deep
from tidegate.connectors.formats.messages import Counts, Values, one_a_line
from tidegate.functions.sql.scalar import arrow_schema, arrow_type
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.records.java_text import double_text
from tidegate.table._formats.columns import TEXTS, UNIT_NS, cast_texts, one_by_one
from tidegate.table._formats.errors import Unreadable
from tidegate.table._formats.java_numbers import BLANK, decimal_number, floating_number, in_range, whole_number
from tidegate.table._formats.times import TimestampStandard, date_of, instant_of, time_of, timestamp_of

Convert: TypeAlias = Callable[[Any], Any]
"""Converts a non-null parsed JSON value to what Arrow's column accepts. Raises ``Unreadable``."""

_SPACE = re.compile(r"[ \t\r\n]*")
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_SAME = (*_BITS, *TEXTS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BOOLEAN)
"""Types whose values Arrow reads as Flink does, or refuses."""


class _Number(str):
    """A number as its text in the message."""

    __slots__ = ()


class _WholeNumber(_Number):
    __slots__ = ()


class _Object(list):  # type: ignore[type-arg]
    """The members of a JSON object, in order and with duplicates."""

    __slots__ = ()


def _no_constant(text: str) -> None:
    raise Unreadable(f"the message holds {text}, which is no JSON")


_decoder = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_Object,
    parse_int=_WholeNumber,
    parse_float=_Number,
    parse_constant=_no_constant,
)


@dataclass(frozen=True)
class JsonReading:
    """Decodes the format ``json``. ``standard``: of timestamps; ``ignores_errors``: an invalid value becomes null, and a message that is not an object
    is skipped."""

    row_type: LogicalType
    standard: TimestampStandard = TimestampStandard.SQL
    fails_on_missing: bool = False
    ignores_errors: bool = False
    _columns: list[tuple[str, Convert]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = [(one.name, self._convert(one.type)) for one in self.row_type.fields]
        object.__setattr__(self, "_columns", columns)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.row_type, self.standard, self.fails_on_missing, self.ignores_errors)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def read(self, messages: Values) -> tuple[pa.RecordBatch, Counts | None]:
        """Decodes messages to rows, and the number of rows for each message, or ``None`` where each has one. Raises ``PoisonRecord``."""
        schema = arrow_schema(self.row_type)
        found = self._at_once(messages, schema)
        if found is not None:
            return found, None
        return one_by_one(messages, self._rows, schema)

    # ---- by Arrow

    def at_once(self, messages: Values) -> pa.RecordBatch | None:
        """Decodes messages by Arrow's JSON reader; returns ``None`` where it would read them otherwise than Flink."""
        return self._at_once(messages, arrow_schema(self.row_type))

    def _at_once(self, messages: Values, schema: pa.Schema) -> pa.RecordBatch | None:
        read = [_read_type(one.type) for one in self.row_type.fields]
        if self.fails_on_missing or not read or any(kind is None for kind in read) or not len(messages):
            return None
        values = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
        if values.null_count or not _are_objects(values):
            return None
        content = one_a_line(values)
        if not is_safe(content) or b"NaN" in content or b"Inf" in content:
            return None
        wanted = pa.schema([pa.field(one.name, kind) for one, kind in zip(schema, read, strict=True)])
        options = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
        reading = pa.json.ReadOptions(use_threads=False, block_size=len(content) + 1)
        try:
            table = pa.json.read_json(pa.BufferReader(content), reading, options).combine_chunks()
            if table.num_rows != len(values):
                return None
            columns = [
                cast_texts(one.type, table.column(name), self.standard)
                for one, name in zip(self.row_type.fields, wanted.names, strict=True)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    # ---- one by one

    def _rows(self, message: bytes | None) -> Iterator[tuple[Any, ...]]:
        if not message:
            return
        try:
            found = self._parsed(message.removeprefix(BOM))
            are_many = isinstance(found, list) and not isinstance(found, _Object)
            if not are_many and not isinstance(found, _Object):
                raise Unreadable("the message is no JSON object")
        except Unreadable:
            if self.ignores_errors:
                return
            raise
        for one in found if are_many else (found,):
            if isinstance(one, _Object):
                yield self._row(one)
            elif not self.ignores_errors:
                raise Unreadable("the message is an array, of which an element is no JSON object")

    def _parsed(self, message: bytes) -> Any:
        if len(message) > 2 * MAX_DEPTH and is_too_deep(message):
            raise Unreadable(TOO_DEEP)
        try:
            text = message.decode()
            return _decoder.raw_decode(text, _SPACE.match(text).end())[0]  # type: ignore[union-attr]
        except UnicodeDecodeError as error:
            raise Unreadable(f"not UTF-8: {error.reason} at byte {error.start}") from None
        except json.JSONDecodeError as error:
            raise Unreadable(f"the message is no JSON: {error.msg} at character {error.pos}") from None

    def _row(self, members: _Object) -> tuple[Any, ...]:
        """Returns the values of an object's columns. Of duplicate members the last counts, except that, as in Flink, parsing stops after as many
        members as there are columns."""
        found: dict[str, Any] = {}
        left = len(self._columns)
        names = {name for name, _ in self._columns}
        for name, value in members:
            if name in names:
                found[name] = value
                left -= 1
                if not left:
                    break
        if left and self.fails_on_missing:
            missing = next((name for name, _ in self._columns if name not in found), "")
            raise Unreadable(f"the field {missing} is missing")
        return tuple([self._value(name, convert, found.get(name)) for name, convert in self._columns])

    def _value(self, name: str, convert: Convert, value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except Unreadable as error:
            if self.ignores_errors:
                return None
            raise Unreadable(f"field {name}: {error}") from None

    def _lenient(self, convert: Convert) -> Convert:
        """Returns the converter of values nested in another value."""
        if not self.ignores_errors:
            return lambda value: None if value is None else convert(value)

        def converted(value: Any) -> Any:
            try:
                return None if value is None else convert(value)
            except Unreadable:
                return None

        return converted

    def _convert(self, type: LogicalType) -> Convert:
        """Returns the converter of JSON values to a type. Raises ``InvalidJob`` for a type that the format does not support."""
        if type.root in _BITS:
            return _whole(_BITS[type.root])
        match type.root:
            case TypeRoot.CHAR | TypeRoot.VARCHAR:
                return _text
            case TypeRoot.BOOLEAN:
                return lambda value: value if isinstance(value, bool) else _is_true(value)
            case TypeRoot.FLOAT | TypeRoot.DOUBLE:
                return lambda value: floating_number(_scalar(value))
            case TypeRoot.DECIMAL:
                precision, scale = type.precision or 10, type.scale or 0
                return lambda value: decimal_number(_scalar(value), precision, scale)
            case TypeRoot.BINARY | TypeRoot.VARBINARY:
                return _bytes
            case TypeRoot.DATE:
                return lambda value: date_of(_string(value))
            case TypeRoot.TIME:
                return lambda value: time_of(_string(value)) // 1_000_000
            case TypeRoot.TIMESTAMP:
                divisor, standard = UNIT_NS[arrow_type(type).unit], self.standard
                return lambda value: timestamp_of(_string(value), standard) // divisor
            case TypeRoot.TIMESTAMP_LTZ:
                divisor, standard = UNIT_NS[arrow_type(type).unit], self.standard
                return lambda value: instant_of(_string(value), standard) // divisor
            case TypeRoot.ARRAY:
                element = self._lenient(self._convert(type.element))
                return lambda value: [element(one) for one in _elements(value)]
            case TypeRoot.MAP | TypeRoot.MULTISET:
                key = type.children[0]
                if key.root not in TEXTS:
                    raise InvalidJob(
                        f"JSON format doesn't support non-string as key type of map. The type is: {type.root.value}"
                    )
                is_map = type.root is TypeRoot.MAP
                item = self._lenient(self._convert(type.children[1]) if is_map else _whole(32))
                return lambda value: [(name, item(one)) for name, one in dict(_members(value)).items()]
            case TypeRoot.ROW:
                fields = [(one.name, self._lenient(self._convert(one.type))) for one in type.fields]
                return lambda value: _struct(fields, dict(_members(value)))
            case _:
                raise InvalidJob(f"Unsupported type: {type}: the format json does not read it")


class JsonTree:
    """Parses JSON trees and converts their members to column values, for the changelog formats (Flink: ``JsonToRowDataConverters``)."""

    def __init__(self, standard: TimestampStandard, *, ignores_errors: bool) -> None:
        self._reading = _TreeReading(LogicalType(TypeRoot.ROW, fields=()), standard, ignores_errors=ignores_errors)
        self._readers: dict[LogicalType, Convert] = {}

    def parsed(self, message: bytes) -> Any:
        """Parses a message; objects become dicts, in which the last of duplicate members counts. Raises ``Unreadable``."""
        return _as_tree(self._reading._parsed(message.removeprefix(BOM)))

    def member(self, tree: Any, name: str) -> Any:
        """Returns a member of an object; ``None`` where it is missing or null."""
        return tree.get(name) if isinstance(tree, dict) else None

    def text(self, value: Any) -> str:
        """Formats a JSON value as a text column holds it."""
        return _tree_text(value)

    def microseconds(self, text: str) -> int:
        """Parses a timestamp to microseconds since 1970. Raises ``Unreadable``."""
        return timestamp_of(text.replace("T", " ", 1), TimestampStandard.SQL) // 1_000

    def reader(self, type: LogicalType) -> Convert:
        """Returns a function that converts members of JSON objects to values of a type; a missing member becomes null. Raises ``InvalidJob`` for a type that
        the format does not
        support."""
        if type not in self._readers:
            self._readers[type] = self._reading._lenient(self._reading._convert(type))
        return self._readers[type]


class _TreeReading(JsonReading):
    """A JSON decoder over parsed trees, where Flink keeps the text of numbers and refuses some values."""

    def _convert(self, type: LogicalType) -> Convert:
        match type.root:
            case TypeRoot.CHAR | TypeRoot.VARCHAR:
                return _tree_text
            case TypeRoot.BINARY | TypeRoot.VARBINARY:
                return lambda value: (
                    _bytes(value) if not isinstance(value, _Number) and isinstance(value, str) else None
                )
            case TypeRoot.MAP | TypeRoot.MULTISET:
                convert = super()._convert(type)
                return lambda value: convert(value if isinstance(value, dict) else {})
        return super()._convert(type)


def _tree_text(value: Any) -> str:
    if isinstance(value, _Number) and not isinstance(value, _WholeNumber):
        return double_text(float(value))
    return _text(value)


def _as_tree(value: Any) -> Any:
    if isinstance(value, _Object):
        return {name: _as_tree(one) for name, one in value}
    return [_as_tree(one) for one in value] if isinstance(value, list) else value


def _read_type(type: LogicalType) -> pa.DataType | None:
    """Returns the Arrow type to read a column as, or ``None`` where Arrow would read another value than Flink."""
    if type.root in _SAME:
        return arrow_type(type)
    if type.root in (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return pa.string()
    if type.root is TypeRoot.ARRAY and type.element.root in _SAME:
        return arrow_type(type)
    if type.root is TypeRoot.ROW and all(one.type.root in _SAME for one in type.fields):
        return arrow_type(type)
    return None


def _are_objects(values: pa.Array) -> bool:
    """Returns whether each message looks like one JSON object on one line."""
    whole = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
    return bool(pc.all(whole).as_py()) and not pc.any(pc.match_substring(values, b"\n")).as_py()


def _string(value: Any) -> str:
    if type(value) is not str:
        raise Unreadable(f"{_shown(value)} is no string")
    return value


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"{_shown(value)} is no number")
    return value


def _whole(bits: int) -> Convert:
    """Returns the converter to whole numbers of ``bits`` bits. A fraction is truncated for 32 and 64 bits, and refused for fewer."""

    def convert(value: Any) -> int:
        text = _scalar(value)
        if type(text) is not _Number or bits < 32:
            return whole_number(text, bits)
        number = float(text)
        if abs(number) > 2.0**64:
            raise Unreadable(f"{text} is out of the range of {bits} bits")
        return in_range(int(number), bits)

    return convert


def _is_true(value: Any) -> bool:
    return isinstance(value, str) and value.strip(BLANK).lower() == "true"


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable(f"no base64: {error}") from None


def _elements(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or isinstance(value, _Object):
        raise Unreadable(f"{_shown(value)} is no array")
    return value


def _members(value: Any) -> _Object | dict[str, Any]:
    if not isinstance(value, _Object | dict):
        raise Unreadable(f"{_shown(value)} is no object")
    return value


def _struct(fields: Sequence[tuple[str, Convert]], members: dict[str, Any]) -> dict[str, Any]:
    return {name: convert(members.get(name)) for name, convert in fields}


def _text(value: Any) -> str:
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _jackson(value)


def _jackson(value: Any) -> str:
    """Formats a JSON tree as Jackson does: without spaces, fractional numbers as Java's doubles."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Number():
            return str(value) if isinstance(value, _WholeNumber) else double_text(float(value))
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _Object() | dict():
            return (
                "{"
                + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_jackson(v)}" for k, v in dict(value).items())
                + "}"
            )
    return f"[{','.join(map(_jackson, value))}]"


def _shown(value: Any) -> str:
    text = _jackson(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
