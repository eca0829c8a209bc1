"""Avro schema resolution: how a value that was written with one schema is read with another, decided once per pair of schemas.

    writer, reader ─▶ Resolution.schema ─▶ fastavro: the writer's layout, in which each place that differs has a function of its value

What decides is the reader's schema: its logical types are applied to the numbers and bytes that the writer wrote, and a field that the
writer does not have is its default. As in Avro Java, records match whatever their names, enums and fixed types by their names without
namespace or an alias, and a mismatch is one of the values at that place: a message without such a value is read. Unlike it, times
and decimals keep their value where both schemas have the same logical type in another unit or scale.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np

from tidegate.connectors.formats.avro_type import AvroType, ParsedSchema, library, logical_type
from tidegate.model.values import FieldValue

Convert: TypeAlias = Callable[[FieldValue], FieldValue]

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_MOST = {"int": 2**31 - 1, "long": 2**63 - 1}
_OURS = "tidegate"
_UNREAD = "\0"
"""The name given to every field that the reader does not have."""
EXACT = Context(prec=1_000)


class Unresolved(Exception):
    """A value cannot be read with the reader's schema. The message names its place."""


_NATIVE = ("date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
"""Logical types that ``fastavro`` itself decodes as ``Values`` does."""


class Values:
    """Conversion of logical types to Python values, as ``fastavro`` has them."""

    native: tuple[str, ...] = _NATIVE
    """The logical types that ``fastavro`` decodes itself."""

    def logical(self, schema: AvroType) -> Convert | None:
        """Returns the converter of a logical type from its number, bytes or text; ``None`` where none is needed."""
        match logical_type(schema):
            case "decimal":
                return decimal_of(schema.get("scale", 0))
            case "uuid":
                return UUID if schema["type"] == "string" else None
            case "" | "timestamp-nanos" | "local-timestamp-nanos":
                return None
            case name:
                return _OBJECTS[name]


def decimal_of(scale: int) -> Convert:
    """Returns the converter of bytes to decimals with this scale, of any number of digits."""
    return lambda data: Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, EXACT)


_EPOCH = datetime.datetime(1970, 1, 1)
_ZONED = _EPOCH.replace(tzinfo=datetime.UTC)
_DAY = datetime.timedelta(days=1)


def _time(value: datetime.timedelta) -> datetime.time:
    if not datetime.timedelta(0) <= value < _DAY:
        raise Unresolved(f"{value} after midnight is not a time of day")
    return (_EPOCH + value).time()


_OBJECTS: dict[str, Convert] = {
    "date": lambda days: datetime.date.fromordinal(days + _EPOCH.toordinal()),
    "time-millis": lambda value: _time(datetime.timedelta(milliseconds=value)),
    "time-micros": lambda value: _time(datetime.timedelta(microseconds=value)),
    "timestamp-millis": lambda value: _ZONED + datetime.timedelta(milliseconds=value),
    "timestamp-micros": lambda value: _ZONED + datetime.timedelta(microseconds=value),
    "local-timestamp-millis": lambda value: _EPOCH + datetime.timedelta(milliseconds=value),
    "local-timestamp-micros": lambda value: _EPOCH + datetime.timedelta(microseconds=value),
}


def _register() -> None:
    """Registers a logical type with ``fastavro``, under a name that is not Avro's, by which it calls our converters."""
    readers = library().read.LOGICAL_READERS
    kinds = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "array", "map", "record")
    for kind in kinds:
        readers[f"{kind}-{_OURS}"] = _converted


def _converted(data: FieldValue, place: Mapping[str, Any], _reader: object = None) -> FieldValue:
    return place["convert"](data)


def _with(place: AvroType, convert: Convert | None) -> AvroType:
    if convert is None:
        return place
    known = place if isinstance(place, dict) else {"type": place}
    return {**known, "logicalType": _OURS, "convert": convert}


@dataclass
class Resolution:
    """The resolution of a writer's schema with a reader's. ``schema``: what ``fastavro`` decodes with, without a reader's schema."""

    writer: ParsedSchema
    reader: ParsedSchema
    values: Values = field(default_factory=Values)
    trials: frozenset[tuple[str, str]] = frozenset()
    """Pairs of records whose shapes are being compared further up in the recursion."""

    def __post_init__(self) -> None:
        _register()
        self._pairs: dict[tuple[str, str], str] = {}
        self._named: dict[str, AvroType] = {}
        root = self._place(self.writer.root, self.reader.root, "")
        # how fastavro knows a schema that it has checked
        hints = {"__fastavro_parsed": True, "__named_schemas": self._named}
        self.schema: AvroType = {**self._whole(root), **hints}
        self.array: AvroType = {"type": "array", "items": root, **hints}
        """It reads values that stand one after another, as in blocks of files."""

    def _whole(self, root: AvroType) -> AvroType:
        """Wraps a root schema that is not an object in a record, which adds no bytes."""
        if isinstance(root, dict):
            return root
        if isinstance(root, str) and root in self._named:
            return self._named[root]
        around = {"type": "record", "name": "whole", "fields": [{"name": "value", "type": root}]}
        return _with(around, lambda record: record["value"])

    def _place(self, writer: AvroType, reader: AvroType, path: str) -> AvroType:
        """Returns the schema to decode a value with; if the reader cannot take it, one whose converter raises."""
        if isinstance(writer, list):
            return [self._place(branch, reader, path) for branch in writer]
        written = self.writer.resolved(writer)
        wanted = self.reader.resolved(reader)
        try:
            if isinstance(wanted, list):
                wanted = self._branch(written, wanted, path)
            return self._resolved(written, wanted, path)
        except Unresolved as mismatch:
            return self._refusing(written, str(mismatch))

    def _refusing(self, written: AvroType, reason: str) -> AvroType:
        def refuse(value: FieldValue) -> FieldValue:
            raise Unresolved(reason)

        place = self._unread(written)
        whole = self._named[place] if isinstance(place, str) and place in self._named else place
        return {**_with(whole, refuse), "refuses": True}

    def _resolved(self, written: AvroType, wanted: AvroType, path: str) -> AvroType:
        kind, other = written["type"], wanted["type"]
        if kind != other and other not in _PROMOTIONS.get(kind, ()):
            raise Unresolved(f"{_at(path)} was written as {_shown(written)}, which is not read as {_shown(wanted)}")
        match kind:
            case "record" | "error":
                return self._record(written, wanted, path)
            case "array":
                return {"type": "array", "items": self._place(written["items"], wanted["items"], f"{path}[]")}
            case "map":
                return {"type": "map", "values": self._place(written["values"], wanted["values"], f"{path}{{}}")}
            case "enum":
                return _enum(written, wanted, path)
            case "fixed" if not _same_name(written, wanted) or written["size"] != wanted["size"]:
                raise Unresolved(f"{_at(path)} was written as {_shown(written)}, which is not read as {_shown(wanted)}")
        place = {"type": kind, "size": written["size"], "name": written["name"]} if kind == "fixed" else kind
        if {kind, other} == {"string", "bytes"} or (kind, other) == ("int", "long"):
            place = other  # written in the same way
        steps = [_promotion(kind, other), _rescaling(written, wanted), self.values.logical(wanted)]
        if steps[:2] == [None, None] and logical_type(wanted) in self.values.native:
            return {"type": other, "logicalType": logical_type(wanted)}
        return _with(place, _chained([step for step in steps if step is not None], path))

    def _record(self, written: AvroType, wanted: AvroType, path: str) -> AvroType:
        pair = (written["name"], wanted["name"])
        if pair in self._pairs:
            return self._pairs[pair]
        name = self._pairs[pair] = f"r{len(self._pairs)}"
        wanted_by, missing = _matched(written, wanted)
        without = [one["name"] for one in missing if "default" not in one]
        if without:
            del self._pairs[pair]
            raise Unresolved(
                f"{_at(path, without[0])} has no default, and the record {written['name']} that was written has no such field"
            )
        fields, unread = [], False
        for one in written["fields"]:
            target = wanted_by.get(one["name"])
            if target is None:
                fields.append({"name": _UNREAD, "type": self._unread(one["type"])})
                unread = True
            else:
                inner = f"{path}.{target['name']}" if path else target["name"]
                fields.append({"name": target["name"], "type": self._place(one["type"], target["type"], inner)})
        defaults = [(one["name"], self._default(one, path)) for one in missing]
        convert = _shaping(unread, defaults) if unread or defaults else None
        self._named[name] = _with({"type": "record", "name": name, "fields": fields}, convert)
        return name

    def _default(self, one: AvroType, path: str) -> Callable[[], FieldValue]:
        return default_of(self.reader, one["type"], one["default"], self.values, f"{path}.{one['name']}".lstrip("."))

    def _unread(self, writer: AvroType) -> AvroType:
        """Returns a schema that skips a value: its layout only."""
        if isinstance(writer, list):
            return [self._unread(branch) for branch in writer]
        written = self.writer.resolved(writer)
        match written["type"]:
            case "record" | "error":
                pair = (written["name"], "")
                if pair not in self._pairs:
                    name = self._pairs[pair] = f"r{len(self._pairs)}"
                    fields = [{"name": _UNREAD, "type": self._unread(one["type"])} for one in written["fields"]]
                    self._named[name] = {"type": "record", "name": name, "fields": fields}
                return self._pairs[pair]
            case "array":
                return {"type": "array", "items": self._unread(written["items"])}
            case "map":
                return {"type": "map", "values": self._unread(written["values"])}
            case "enum":
                return "int"
            case "fixed":
                return {"type": "fixed", "size": written["size"], "name": written["name"]}
            case "string":
                return "bytes"
            case kind:
                return kind

    def _branch(self, written: AvroType, union: AvroType, path: str) -> AvroType:
        """Returns the branch of the reader's union for a value: the first of the same type and name, then of the same shape, then a wider one."""
        branches = [self.reader.resolved(branch) for branch in union]
        alike = [branch for branch in branches if branch["type"] == written["type"]]
        if "name" in written:
            fit = [branch for branch in alike if branch["name"] == written["name"]]
            fit += [branch for branch in alike if _same_name(written, branch)]
            if not fit and written["type"] == "record":
                fit = [branch for branch in alike if self._has_shape(written, branch)]
        else:
            fit = alike or [one for one in branches if one["type"] in _PROMOTIONS.get(written["type"], ())]
        if not fit:
            shown = ", ".join(map(_shown, branches))
            raise Unresolved(f"{_at(path)} was written as {_shown(written)}, which is none of the union of {shown}")
        return fit[0]

    def _has_shape(self, written: AvroType, wanted: AvroType) -> bool:
        pair = (written["name"], wanted["name"])
        if pair in self.trials or pair in self._pairs:
            return True
        reader = ParsedSchema(wanted, self.reader.named)
        trial = Resolution(ParsedSchema(written, self.writer.named), reader, self.values, self.trials | {pair}).schema
        parts = [trial, *(one["type"] for one in trial["fields"])]
        return not any(isinstance(part, dict) and part.get("refuses") for part in parts)


def _matched(written: AvroType, wanted: AvroType) -> tuple[dict[str, AvroType], list[AvroType]]:
    """Returns the reader's field for each of the writer's that has one, by name or alias, and the reader's other fields."""
    names = {one["name"] for one in written["fields"]}
    found: dict[str, AvroType] = {}
    missing = []
    for one in wanted["fields"]:
        name = next((name for name in (one["name"], *one.get("aliases", ())) if name in names), None)
        if name is None or name in found:
            missing.append(one)
        else:
            found[name] = one
    return found, missing


def _same_name(written: AvroType, wanted: AvroType) -> bool:
    """Compares names without their namespaces, as the specification does, or by an alias."""
    bare = written["name"].rpartition(".")[2]
    space = wanted["name"].rpartition(".")[0]
    aliases = [alias if "." in alias or not space else f"{space}.{alias}" for alias in wanted.get("aliases", ())]
    return bare == wanted["name"].rpartition(".")[2] or written["name"] in aliases or bare in wanted.get("aliases", ())


def _enum(written: AvroType, wanted: AvroType, path: str) -> AvroType:
    if not _same_name(written, wanted):
        raise Unresolved(f"{_at(path)} was written as {_shown(written)}, which is not read as {_shown(wanted)}")
    known = set(wanted["symbols"])
    default = wanted.get("default")
    symbols = [one if one in known else default for one in written["symbols"]]

    def symbol(index: FieldValue) -> FieldValue:
        if not 0 <= index < len(symbols):
            raise Unresolved(
                f"{_at(path)} has the symbol number {index} of an enum of {len(symbols)} symbols, counted from 0"
            )
        found = symbols[index]
        if found is None:
            raise Unresolved(f"{_at(path)} is {written['symbols'][index]!r}, which is no symbol of {wanted['name']}")
        return found

    return _with("int", symbol)


def _promotion(kind: str, other: str) -> Convert | None:
    if kind in ("int", "long") and other == "double":
        return float
    if kind in ("int", "long") and other == "float":
        return lambda value: float(np.int64(value).astype(np.float32))  # rounded once, as in Java
    return None


def _rescaling(written: AvroType, wanted: AvroType) -> Convert | None:
    """Returns the converter to the reader's unit of time, truncating, or to its decimal scale; ``None`` if they are equal."""
    if logical_type(written) == logical_type(wanted) == "decimal":
        return _decimal_rescaling(written.get("scale", 0), wanted.get("scale", 0), wanted["precision"])
    family, _, unit = logical_type(written).rpartition("-")
    other_family, _, other = logical_type(wanted).rpartition("-")
    if not family or family.removeprefix("local-") != other_family.removeprefix("local-") or unit == other:
        return None
    if (factor := _PER_SECOND[other] // _PER_SECOND[unit]) > 0:
        return lambda value: value * factor
    divisor = _PER_SECOND[unit] // _PER_SECOND[other]
    return lambda value: value // divisor


def _decimal_rescaling(scale: int, wanted: int, precision: int) -> Convert | None:
    """Returns the converter of decimal bytes to another scale, which refuses to lose digits."""
    if scale == wanted:
        return None

    def rescale(data: FieldValue) -> FieldValue:
        number = int.from_bytes(data, "big", signed=True)
        number, rest = (
            (number * 10 ** (wanted - scale), 0) if wanted > scale else divmod(number, 10 ** (scale - wanted))
        )
        if rest or abs(number) >= 10**precision:
            raise Unresolved(f"{decimal_of(scale)(data)} has more digits than a decimal({precision}, {wanted})")
        return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)

    return rescale


def _chained(steps: list[Convert], path: str) -> Convert | None:
    """Chains converters. An error of a step is raised with its place."""
    if not steps:
        return None

    def convert(value: FieldValue) -> FieldValue:
        try:
            for step in steps:
                value = step(value)
        except Unresolved as error:
            raise Unresolved(f"{_at(path)}: {error}") from None
        except (ValueError, OverflowError, ArithmeticError) as error:
            raise Unresolved(f"{_at(path)}: {error}") from error
        return value

    return convert


def _shaping(unread: bool, defaults: list[tuple[str, Callable[[], FieldValue]]]) -> Convert:
    def shape(record: FieldValue) -> FieldValue:
        if unread:
            del record[_UNREAD]
        for name, make in defaults:
            record[name] = make()
        return record

    return shape


def default_of(
    schema: ParsedSchema, kind: AvroType, default: FieldValue, values: Values, path: str
) -> Callable[[], FieldValue]:
    """Returns a function that makes a field's default value, a new one each time. Raises ``Unresolved`` for an invalid default."""
    found = _default(schema, kind, default, values, path)
    if not isinstance(found, (list, dict)):
        return lambda: found
    return lambda: _default(schema, kind, default, values, path)


def _default(schema: ParsedSchema, kind: AvroType, default: FieldValue, values: Values, path: str) -> FieldValue:
    """Converts a default from JSON: bytes are Latin-1 text, missing fields of a record have their own defaults, and a union's default is of the first
    branch that accepts it (Avro 1.12; before, of the first branch)."""
    if isinstance(kind, list):
        for branch in kind:
            try:
                return _default(schema, branch, default, values, path)
            except Unresolved:
                continue
        raise _no_default(default, kind, path)
    known = schema.resolved(kind)
    match known["type"], default:
        case ("null", None) | ("boolean", bool()) | ("string", str()):
            found = default
        case ("int" | "long") as bits, int() if (
            not isinstance(default, bool) and -_MOST[bits] - 1 <= default <= _MOST[bits]
        ):
            found = default
        case "float", (int() | float()) if not isinstance(default, bool):
            found = float(np.float32(default))
        case "double", (int() | float()) if not isinstance(default, bool):
            found = float(default)
        case (("bytes" | "fixed"), str()) if all(ord(one) < 256 for one in default):
            found = default.encode("latin-1")
            if len(found) != known.get("size", len(found)):
                raise _no_default(default, known, path)
        case "enum", str() if default in known["symbols"]:
            found = default
        case "array", list():
            return [_default(schema, known["items"], one, values, path) for one in default]
        case "map", dict():
            return {key: _default(schema, known["values"], one, values, path) for key, one in default.items()}
        case (("record" | "error"), dict()):
            return {one["name"]: _field_default(schema, one, default, values, path) for one in known["fields"]}
        case _:
            raise _no_default(default, known, path)
    convert = _chained([step] if (step := values.logical(known)) else [], path)
    return found if convert is None else convert(found)


def check_defaults(schema: ParsedSchema, values: Values) -> None:
    """Raises ``Unresolved`` that names a default which does not fit its field."""
    for record in schema.named.values():
        for one in record.get("fields", ()):
            if "default" in one:
                default_of(schema, one["type"], one["default"], values, one["name"])


class _Encoded(Values):
    """Logical values as they are encoded: numbers, bytes and texts."""

    def logical(self, schema: AvroType) -> Convert | None:
        return None


def with_values(schema: ParsedSchema) -> ParsedSchema:
    """Returns the schema with defaults converted from JSON to values, which ``fastavro`` uses for fields that a record lacks."""
    named = copy.deepcopy(schema.named)
    root = schema.root
    if isinstance(root, dict):
        root = copy.deepcopy({key: part for key, part in root.items() if key != "__named_schemas"})
        _set_defaults(root, schema)
        root = {**root, "__named_schemas": named}
    for one in named.values():
        _set_defaults(one, schema)
    return ParsedSchema(root, named)


def _set_defaults(kind: AvroType, schema: ParsedSchema) -> None:
    match kind:
        case list():
            for branch in kind:
                _set_defaults(branch, schema)
        case dict():
            for part in ("items", "values"):
                _set_defaults(kind.get(part), schema)
            for one in kind.get("fields", ()):
                if "default" in one and not isinstance(one["default"], bytes):
                    one["default"] = default_of(schema, one["type"], one["default"], _Encoded(), one["name"])()
                _set_defaults(one["type"], schema)


def _field_default(
    schema: ParsedSchema, one: AvroType, given: Mapping[str, FieldValue], values: Values, path: str
) -> FieldValue:
    if one["name"] not in given and "default" not in one:
        raise Unresolved(f"the default of {_at(path)} has no {one['name']!r}, which has none itself")
    return _default(schema, one["type"], given.get(one["name"], one.get("default")), values, f"{path}.{one['name']}")


def _no_default(default: FieldValue, schema: AvroType, path: str) -> Unresolved:
    shown = f"a union of {', '.join(map(_shown, schema))}" if isinstance(schema, list) else _shown(schema)
    return Unresolved(f"the default {default!r} of {_at(path)} is no {shown}")


def _at(path: str, name: str = "") -> str:
    whole = f"{path}.{name}".strip(".") if name else path
    return f"the field {whole!r}" if whole else "the value"


def _shown(schema: AvroType) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return "a union"
    name, logical = schema.get("name"), logical_type(schema)
    size = f" of {schema['size']} bytes" if schema["type"] == "fixed" else ""
    return " ".join(part for part in (schema["type"], name, f"({logical})" if logical else "") if part) + size
