"""Schema evolution: converts stored columns to the types that a job declares now, field by field, by name.

    old, new schema ─▶ evolve ─┬─ Evolution   what changes, and ``apply`` does it to a batch
                               └─ Refusal     why not: column, old type, new type

| of a field with a name       | allowed                                                                              |
|------------------------------|--------------------------------------------------------------------------------------|
| added                        | filled with its declared default, else null                                          |
| dropped, moved               | yes                                                                                  |
| its type                     | widened when every old value has exactly one new value that is equal: more bits, more |
|                              | digits, int8..int32 to double, finer timestamps                                      |
| anything else                | refused                                                                              |

Fields that are only numbered (tuples, rows without names) can be widened, not added or dropped: which one was meant?
Keys never change: their hash says in which key group they are (as in Flink, where key serializers are not migrated). A
default is the metadata ``tidegate.default`` of the field, as JSON (``Types.ROW_NAMED(..., defaults=...)`` writes it).

Pure: schemas and batches in, schemas and batches out. The JobManager and the client may ask it too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.model.values import FieldValue
from tidegate.records.column_widening import is_widening, widened

DEFAULT_METADATA = b"tidegate.default"
PICKLED = b"tidegate.pickled"
TTL_COLUMN = "ttl_ms"
PASSED_COLUMNS = frozenset({"window_start", "window_end", "window_id", "namespace", "timestamp", "deleted"})
"""Columns of a keyed segment that jobs do not declare: they are kept unchanged."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """State that cannot be read with the declared types. Each reason names the column, its old and its new type."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evolution:
    """State that can be read with the declared types. ``changes``: empty when the types are unchanged."""

    old: pa.Schema
    new: pa.Schema
    changes: tuple[str, ...]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch of the old schema to the new one. Unchanged columns are not copied."""
        columns = []
        for field in self.new:
            if field.name in self.old.names:
                columns.append(convert(batch.column(field.name), self.old.field(field.name), field))
            else:
                columns.append(filled(field, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.new)


def evolve(old: pa.Schema, new: pa.Schema) -> Evolution | Refusal:
    """Compares the stored and the declared schema of a keyed segment, both without ``key_group``; returns how to convert the data or why that is
    impossible."""
    changes: list[str] = []
    reasons: list[str] = []
    passed = [field for field in old if field.name in PASSED_COLUMNS and field.name not in new.names]
    new = pa.schema([*new, *passed])
    for name in [n for n in old.names if n not in new.names]:
        if _is_key(name):
            reasons.append(f"{name}: stored as {shown(old.field(name))}, but the job has no such column")
        else:
            changes.append("time-to-live: off from now on" if name == TTL_COLUMN else f"{name}: dropped")
    for field in new:
        if field.name not in old.names:
            if field.name == TTL_COLUMN:
                changes.append("time-to-live: on from now on, counted from the restore")
            elif _is_key(field.name):
                reasons.append(f"{field.name}: the job declares {shown(field)}, but it is not stored")
            else:
                _added(field.name, field, changes, reasons)
        else:
            _compare(field.name, old.field(field.name), field, changes, reasons, is_key=_is_key(field.name))
    return Refusal(tuple(reasons)) if reasons else Evolution(old, new, tuple(changes))


def shown(field: pa.Field) -> str:
    """Returns the type of a field as text for messages."""
    return "pickled objects" if _is_pickled(field) else str(field.type)


def with_default(field: pa.Field, value: FieldValue) -> pa.Field:
    """Adds a default to a field, for rows that were stored without it. Raises ``ValueError`` when it does not fit the type."""
    try:
        text = json.dumps(value)
        pa.array([value], field.type)
    except (TypeError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{value!r} is not a valid default for {field.name}: {field.type} ({error})") from None
    return field.with_metadata({**(field.metadata or {}), DEFAULT_METADATA: text.encode()})


def _is_key(name: str) -> bool:
    return name == "key" or name.startswith("key.")


def _compare(
    path: str, old: pa.Field, new: pa.Field, changes: list[str], reasons: list[str], *, is_key: bool = False
) -> None:
    """Compares two fields recursively, also inside lists and maps; below a map's key no field may be added or dropped."""
    if _is_pickled(old) != _is_pickled(new):
        reasons.append(f"{path}: stored as {shown(old)}, the job declares {shown(new)}")
    elif new.nullable < old.nullable:
        reasons.append(f"{path}: stored as {shown(old)} that may be null, the job declares it not null")
    elif is_key and old.type != new.type:
        reasons.append(f"{path}: stored as {shown(old)}, the job declares {shown(new)}; a key cannot change its type")
    elif pa.types.is_struct(old.type) and pa.types.is_struct(new.type):
        _compare_fields(path, list(old.type), list(new.type), changes, reasons)
    elif _is_list(old.type) and new.type.id == old.type.id:
        _compare(f"{path}[]", old.type.value_field, new.type.value_field, changes, reasons)
    elif pa.types.is_map(old.type) and pa.types.is_map(new.type):
        _compare(f"{path}{{key}}", old.type.key_field, new.type.key_field, changes, reasons, is_key=True)
        _compare(f"{path}{{}}", old.type.item_field, new.type.item_field, changes, reasons)
    elif old.type != new.type:
        if is_widening(old.type, new.type):
            changes.append(f"{path}: widened from {old.type} to {new.type}")
        else:
            reasons.append(
                f"{path}: stored as {shown(old)}, the job declares {shown(new)}, which does not hold all of it"
            )


def _compare_fields(
    path: str, old: Sequence[pa.Field], new: Sequence[pa.Field], changes: list[str], reasons: list[str]
) -> None:
    before, after = {f.name: f for f in old}, {f.name: f for f in new}
    if before.keys() != after.keys() and (_is_numbered(old) or _is_numbered(new)):
        reasons.append(
            f"{path}: stored with the fields {list(before)}, the job declares {list(after)}; fields can be added and "
            "dropped only where they have names (Types.ROW_NAMED)"
        )
        return
    changes += [f"{path}.{name}: dropped" for name in before if name not in after]
    for name, field in after.items():
        if name in before:
            _compare(f"{path}.{name}", before[name], field, changes, reasons)
        else:
            _added(f"{path}.{name}", field, changes, reasons)


def _added(path: str, field: pa.Field, changes: list[str], reasons: list[str]) -> None:
    default = _default_of(field)
    if default is None and not field.nullable:
        reasons.append(f"{path}: the job declares {shown(field)} that is not null; give it a default")
        return
    try:
        pa.array([default], field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        reasons.append(f"{path}: the default {default!r} is no {shown(field)}")
        return
    changes.append(f"{path}: added, {'null' if default is None else repr(default)}")


def convert(column: pa.Array, old: pa.Field, new: pa.Field) -> pa.Array:
    """Converts a column of the old field to the new one; ``evolve`` has approved it."""
    if old.type.equals(new.type):
        return column
    if pa.types.is_struct(old.type):
        return _convert_struct(column, new.type)
    if _is_list(old.type):
        offsets, start, length = _offsets(column)
        items = convert(column.values.slice(start, length), old.type.value_field, new.type.value_field)
        return type(column).from_arrays(offsets, items, type=new.type)
    if pa.types.is_map(old.type):
        offsets, start, length = _offsets(column)
        keys = convert(column.keys.slice(start, length), old.type.key_field, new.type.key_field)
        items = convert(column.items.slice(start, length), old.type.item_field, new.type.item_field)
        return pa.MapArray.from_arrays(offsets, keys, items, type=new.type)
    return widened(column, new.type)


def filled(field: pa.Field, rows: int) -> pa.Array:
    """Creates a column of ``rows`` defaults of the field."""
    default = _default_of(field)
    return pa.nulls(rows, field.type) if default is None else pa.array([default] * rows, field.type)


def _convert_struct(column: pa.Array, kind: pa.DataType) -> pa.Array:
    before = {field.name: (field, part) for field, part in zip(column.type, column.flatten(), strict=True)}
    parts = [
        convert(before[field.name][1], before[field.name][0], field)
        if field.name in before
        else filled(field, len(column))
        for field in kind
    ]
    if not parts:
        return pa.nulls(len(column), kind)
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())


def _offsets(column: pa.Array) -> tuple[pa.Array, int, int]:
    """Returns the offsets of a list or map column from 0 on, null for null values, and the range of its elements."""
    bounds = column.offsets.to_numpy()
    start, length = int(bounds[0]), int(bounds[-1] - bounds[0])
    valid = [*column.is_valid().to_pylist(), True]
    numbers = (int(b) - start if ok else None for b, ok in zip(bounds.tolist(), valid, strict=True))
    kind = pa.int64() if pa.types.is_large_list(column.type) else pa.int32()
    return pa.array(list(numbers), kind), start, length


def _default_of(field: pa.Field) -> FieldValue:
    text = (field.metadata or {}).get(DEFAULT_METADATA)
    return None if text is None else json.loads(text)


def _is_pickled(field: pa.Field) -> bool:
    return PICKLED in (field.metadata or {})


def _is_numbered(fields: Sequence[pa.Field]) -> bool:
    return all(field.name == f"f{index}" for index, field in enumerate(fields))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
