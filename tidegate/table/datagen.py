"""The ``datagen`` connector (Flink: ``DataGenTableSourceFactory``): each column is a sequence or has random values.

Every value is a function of the row's number and the column's name, so a restart generates the same rows again; timestamps, dates and times are of now.
What is in a column has options by its path: ``fields.a.element.min``, ``fields.m.key.length``, ``fields.r.x.max``.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.mixing import splitmix64
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.plan.logical_types import LogicalType, TypeRoot

UNBOUNDED_ROWS = 2**62
_DEFAULT_RATE = 10_000
"""Flink's default of ``rows-per-second``."""
_DEFAULT_LENGTH = 100
"""Flink's default of ``fields.#.length``."""
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DEFAULT_ELEMENTS = 3
"""Flink's default of ``fields.#.length`` of arrays, maps and multisets."""
_MOST_OF_A_MULTISET = 10
_FIELD_OPTIONS = ("kind", "min", "max", "length", "start", "end", "null-rate", "var-len", "max-past")
_UNBOUNDED_LENGTH = 2**31 - 1
_COLLECTION = ("length", "null-rate")
_OPTIONS_OF: dict[TypeRoot, tuple[str, ...]] = {
    TypeRoot.BOOLEAN: ("null-rate",),
    TypeRoot.CHAR: ("null-rate",),
    TypeRoot.VARCHAR: ("length", "null-rate", "var-len"),
    TypeRoot.BINARY: (),
    TypeRoot.VARBINARY: ("length", "var-len"),
    TypeRoot.DATE: (),
    TypeRoot.TIME: (),
    TypeRoot.TIMESTAMP: ("max-past", "null-rate"),
    TypeRoot.TIMESTAMP_LTZ: ("max-past", "null-rate"),
    TypeRoot.ARRAY: _COLLECTION,
    TypeRoot.MAP: _COLLECTION,
    TypeRoot.MULTISET: _COLLECTION,
    TypeRoot.ROW: ("null-rate",),
}
"""The options of a column by its type; those of other types are ``min``, ``max`` and ``null-rate``."""
_SPAN = {1: 2**7, 2: 2**15, 4: 2**31, 8: 2**63}


@dataclass(frozen=True)
class GeneratedRows:
    """Generates rows: called with the number of the first row and a count, it returns a record batch."""

    schema: pa.Schema
    options: dict[str, dict[str, str]]
    count: int | None

    @staticmethod
    def of(schema: pa.Schema, table_options: Mapping[str, str]) -> GeneratedRows:
        """Makes the generator of a ``datagen`` table. Raises ``InvalidJob`` for an unknown option or a type without random values."""
        columns = schema.names
        options: dict[str, dict[str, str]] = {name: {} for name in columns}
        for key, text in table_options.items():
            name, _, option = key.removeprefix("fields.").partition(".")
            if key.startswith("fields.") and name in columns and option:
                if option.rpartition(".")[2] not in _FIELD_OPTIONS:
                    raise InvalidJob(f"datagen has no option {key!r}: a field has {', '.join(_FIELD_OPTIONS)}")
                options[name][option] = text
            elif key not in ("connector", "rows-per-second", "number-of-rows"):
                raise InvalidJob(f"datagen has no option {key!r} for the columns {', '.join(columns)}")
        for field in schema:
            if options[field.name].get("kind", "random") == "random":
                check_type(field)
        count = table_options.get("number-of-rows")
        ends = [
            int(found["end"]) - int(found.get("start", 0)) + 1
            for found in options.values()
            if found.get("kind") == "sequence"
        ]
        counts = [*([int(count)] if count else []), *ends]
        return GeneratedRows(schema, options, min(counts) if counts else None)

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        rows = np.arange(first, first + count, dtype=np.uint64)
        columns = [_column(field.type, self.options[field.name], rows, field.name) for field in self.schema]
        return pa.record_batch(columns, schema=self.schema)


def rows_per_second(options: Mapping[str, str]) -> int:
    """Returns the rate that the table's options name, or Flink's default."""
    return int(options.get("rows-per-second", _DEFAULT_RATE))


def typed_options(row_type: LogicalType, table_options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a table with those that its types give: lengths of texts and bytes; a multiset is a map from its elements.

    Raises ``InvalidJob``, in Flink's words, for an option or a length that a type does not have."""
    made = dict(table_options)
    known = {f"fields.{field.name}.kind" for field in row_type.fields}
    for field in row_type.fields:
        path = f"fields.{field.name}"
        if made.get(f"{path}.kind", "random") == "random":
            _add_options(field.type, path, field.name, made, known)
        else:
            known |= {f"{path}.start", f"{path}.end"}
    unknown = sorted(key for key in made if key.startswith("fields.") and key not in known)
    if unknown:
        raise InvalidJob(f"Unsupported options found for 'datagen'.\n\nUnsupported options:\n\n{chr(10).join(unknown)}")
    return made


def _add_options(type: LogicalType, path: str, name: str, made: dict[str, str], known: set[str]) -> None:
    known |= {f"{path}.{option}" for option in _OPTIONS_OF.get(type.root, ("min", "max", "null-rate"))}
    key = f"{path}.length"
    is_fixed = type.root in (TypeRoot.CHAR, TypeRoot.BINARY)
    varies = type.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY)
    if f"{path}.var-len" in made and not varies:
        raise InvalidJob(
            f"Only supports specifying '{path}.var-len' option for variable-length types (VARCHAR/STRING/VARBINARY/BYTES). The type of field '{name}' "
            "is not within this range."
        )
    if is_fixed and key in made:
        raise InvalidJob(f"Custom length for fixed-length type (CHAR/BINARY) field '{name}' is not supported.")
    if is_fixed or varies:
        length = type.length or 1
        if key in made and int(made[key]) > length:
            raise InvalidJob(
                f"Custom length '{made[key]}' for variable-length type (VARCHAR/STRING/VARBINARY/BYTES) field '{name}' should be shorter than '{length}' "
                "defined in the schema."
            )
        if length != _UNBOUNDED_LENGTH:
            made.setdefault(key, str(length))
        known.add(key)
    names = ("key", "value") if type.root is TypeRoot.MAP else ("element",)
    parts = [(field.name, field.type) for field in type.fields] or list(zip(names, type.children, strict=False))
    for part, child in parts:
        _add_options(child, f"{path}.{part}", f"{name}.{part}", made, known)
    if type.root is TypeRoot.MULTISET:
        for option in [option for option in made if option.startswith(f"{path}.element.")]:
            moved = f"{path}.key.{option.removeprefix(f'{path}.element.')}"
            made[moved] = made.pop(option)
            if option in known:
                known.add(moved)
        made |= {f"{path}.value.min": "0", f"{path}.value.max": str(_MOST_OF_A_MULTISET)}
        known |= {f"{path}.value.min", f"{path}.value.max"}


def check_type(field: pa.Field) -> None:
    """Raises ``InvalidJob`` for a type without random values."""
    if not _is_made(field.type):
        raise InvalidJob(f"datagen cannot make values of type {field.type} (column {field.name!r})")


def _is_made(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_map(kind) or types.is_struct(kind):
        return all(_is_made(kind.field(at).type) for at in range(kind.num_fields))
    numbers = types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)
    times = types.is_timestamp(kind) or types.is_date32(kind) or types.is_time32(kind)
    texts = types.is_string(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(numbers or times or texts or types.is_boolean(kind))


def _column(kind: pa.DataType, options: Mapping[str, str], rows: NumpyColumn, name: str) -> pa.Array:
    if options.get("kind", "random") == "sequence":
        return pa.array(rows.astype(np.int64) + int(options.get("start", 0))).cast(kind)
    made = _random(kind, options, rows, name)
    rate = float(options.get("null-rate", 0))
    if rate <= 0:
        return made
    missing = (_drawn(rows, f"{name}?") >> np.uint64(11)) / 2.0**53 < rate
    return made.take(pa.array(np.arange(len(rows)), mask=missing))


def _random(kind: pa.DataType, options: Mapping[str, str], rows: NumpyColumn, name: str) -> pa.Array:
    types = pa.types
    if types.is_struct(kind):
        parts = [_column(part.type, _of_part(options, part.name), rows, f"{name}.{part.name}") for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if types.is_list(kind) or types.is_map(kind):
        return _collection(kind, options, rows, name)
    drawn = _drawn(rows, name)
    if types.is_string(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
        made = _texts(drawn, int(options.get("length", _DEFAULT_LENGTH)) * (1 if types.is_string(kind) else 2))
        if not types.is_string(kind):
            made = pa.array([bytes.fromhex(text) for text in made.to_pylist()], pa.binary())
        return (_cut(made, drawn) if options.get("var-len", "false").lower() == "true" else made).cast(kind)
    if types.is_boolean(kind):
        return pa.array(drawn & np.uint64(1) == 1)
    if types.is_floating(kind):
        largest = float(np.finfo(np.float64 if types.is_float64(kind) else np.float32).max)
        return _between(drawn, float(options.get("min", 0)), float(options.get("max", largest))).cast(kind)
    if types.is_decimal(kind):
        largest = 10.0 ** (kind.precision - kind.scale) - 10.0**-kind.scale
        low, high = max(-largest, float(options.get("min", 0))), min(largest, float(options.get("max", largest)))
        return _between(drawn, low, high).cast(kind)
    if types.is_timestamp(kind):
        past = parse_duration_ms(options.get("max-past", "0 ms"))
        ms = time.time_ns() // 1_000_000 - (drawn % np.uint64(past or 1)).astype(np.int64)
        return pa.array(ms).cast(pa.timestamp("ms")).cast(kind)
    if types.is_date32(kind):
        return pa.array([datetime.datetime.now().astimezone().date()] * len(rows), kind)
    if types.is_time32(kind):
        return pa.array([datetime.datetime.now().astimezone().time()] * len(rows), pa.time64("us")).cast(
            kind, safe=False
        )
    span = _SPAN[kind.bit_width // 8]
    low, high = int(options.get("min", -span)), int(options.get("max", span - 1))
    width = high - low + 1
    spread = drawn if width >= 2**64 else drawn % np.uint64(width)
    return pa.array((spread + np.uint64(low % 2**64)).view(np.int64)).cast(kind)


def _of_part(options: Mapping[str, str], part: str) -> Mapping[str, str]:
    start = f"{part}."
    return {key.removeprefix(start): text for key, text in options.items() if key.startswith(start)}


def _collection(kind: pa.DataType, options: Mapping[str, str], rows: NumpyColumn, name: str) -> pa.Array:
    """Generates arrays, maps or multisets. A key that is drawn twice occurs once."""
    size = int(options.get("length", _DEFAULT_ELEMENTS))
    places = (rows[:, None] * np.uint64(size) + np.arange(size, dtype=np.uint64)).ravel()
    if pa.types.is_list(kind):
        elements = _column(kind.value_type, _of_part(options, "element"), places, f"{name}.element")
        ends = np.arange(len(rows) + 1, dtype=np.int32) * size
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements).cast(kind)
    keys = _column(kind.key_type, _of_part(options, "key"), places, f"{name}.key")
    items = _column(kind.item_type, _of_part(options, "value"), places, f"{name}.value")
    codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy().reshape(len(rows), size)
    is_first = np.array([[code not in row[:at] for at, code in enumerate(row)] for row in codes.tolist()], bool)
    chosen = pa.array(is_first.ravel(), pa.bool_())
    offsets = [0, *np.cumsum(is_first.reshape(len(rows), size).sum(axis=1)).tolist()]
    found = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pc.filter(keys, chosen), pc.filter(items, chosen))
    return found.cast(kind)


def _cut(made: pa.Array, drawn: NumpyColumn) -> pa.Array:
    """Truncates each text to a random length, from one character to one less than all."""
    values = made.to_pylist()
    longest = max(len(values[0]) - 1, 1) if values else 1
    ends = (splitmix64(drawn + np.uint64(977)) % np.uint64(longest)).tolist()
    return pa.array([value[: 1 + end] for value, end in zip(values, ends, strict=True)], made.type)


def _between(drawn: NumpyColumn, low: float, high: float) -> pa.Array:
    return pa.array(low + (drawn >> np.uint64(11)) / 2.0**53 * (high - low))


def _texts(drawn: NumpyColumn, length: int) -> pa.Array:
    words = -(-length // 16)
    parts = np.stack([splitmix64(drawn + np.uint64(i)) for i in range(words)], axis=1)
    digits = _HEX[np.unpackbits(parts.view(np.uint8), axis=1).reshape(len(drawn), -1, 4) @ np.array([8, 4, 2, 1])]
    return pa.array([bytes(row[:length]).decode() for row in digits])


def _drawn(rows: NumpyColumn, name: str) -> NumpyColumn:
    return splitmix64(splitmix64(rows) ^ np.uint64(crc32(name.encode())))
