"""Entries of keyed state as Arrow columns, and back.

key        a column of the key's type, or pickled when there is none
namespace  ``window_start`` and ``window_end`` for time windows; ``namespace`` (pickled) for others; nothing for ``None``
timestamp  timers only: when they fire
value      a column of the state's type, or pickled when there is none; nothing for timers
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from taskmanager.state.layers import Entry
from taskmanager.state.segments import PICKLED, Groups, StateDescription
from tidegate.common.record_codec import decode_column, encode_column
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.datastream.window import TimeWindow
from tidegate.model.errors import CorruptData, SchemaMismatch

KEY, VALUE, NAMESPACE, TIMESTAMP = "key", "value", "namespace", "timestamp"
WINDOW_START, WINDOW_END = "window_start", "window_end"
_PICKLED_TYPE = Types.PICKLED_BYTE_ARRAY()


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """How the entries of one state are written. ``value_type`` is ``None`` for timers, whose namespace is
    ``(timestamp, namespace)``."""

    operator: str
    state_name: str
    kind: str
    key_type: TypeInformation
    value_type: TypeInformation | None

    @property
    def description(self) -> StateDescription:
        types = {KEY: repr(self.key_type)}
        if self.value_type is not None:
            types[VALUE] = repr(self.value_type)
        return StateDescription(self.operator, self.state_name, self.kind, types)


def canonical_key(key: Any) -> Any:
    """The key with the one NaN of this process in place of any other, so that a dict finds it again."""
    if key.__class__ is float:
        return math.nan if key != key else key
    if key.__class__ is tuple and any(part != part for part in key):
        return tuple(canonical_key(part) for part in key)
    return key


def to_columns(layout: EntryFormat, entries: Iterable[tuple[int, Entry, Any]]) -> tuple[Groups, pa.RecordBatch]:
    """Raises ``SchemaMismatch`` naming the state when a value does not fit its type, ``NotSerializable``."""
    rows = list(entries)
    where = f"operator '{layout.operator}', state '{layout.state_name}'"
    groups = np.fromiter((group for group, _, _ in rows), np.int32, len(rows))
    keys = encode_column(layout.key_type, [entry[0] for _, entry, _ in rows], f"{where}, key")
    fields, arrays = [layout.key_type.arrow_field(KEY)], [keys]
    spaces: list[Any] = [entry[1] for _, entry, _ in rows]
    if layout.value_type is None:
        fields.append(pa.field(TIMESTAMP, pa.int64()))
        arrays.append(pa.array([stamp for stamp, _ in spaces], pa.int64()))
        spaces = [space for _, space in spaces]
    for field, array in _namespace_columns(spaces):
        fields.append(field)
        arrays.append(array)
    if layout.value_type is not None:
        fields.append(layout.value_type.arrow_field(VALUE))
        arrays.append(encode_column(layout.value_type, [value for _, _, value in rows], where))
    return groups, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def from_columns(layout: EntryFormat, groups: Groups, data: pa.RecordBatch) -> Iterator[tuple[int, Entry, Any]]:
    """Raises ``SchemaMismatch`` when the state was written with other types."""
    _check(layout, data.schema)
    keys = map(canonical_key, decode_column(layout.key_type, data.column(KEY)))
    spaces: Iterable[Any] = _namespaces(data)
    if layout.value_type is None:
        spaces = zip(data.column(TIMESTAMP).to_pylist(), spaces, strict=True)
        values: list[Any] = [True] * data.num_rows
    else:
        values = decode_column(layout.value_type, data.column(VALUE))
    yield from zip(groups.tolist(), zip(keys, spaces, strict=True), values, strict=True)


def _namespace_columns(spaces: list[Any]) -> list[tuple[pa.Field, pa.Array]]:
    if all(space is None for space in spaces):
        return []
    if all(type(space) is TimeWindow for space in spaces):
        starts, ends = [w.start for w in spaces], [w.end for w in spaces]
        return [
            (pa.field(WINDOW_START, pa.int64()), pa.array(starts, pa.int64())),
            (pa.field(WINDOW_END, pa.int64()), pa.array(ends, pa.int64())),
        ]
    pickled = encode_column(_PICKLED_TYPE, spaces, "namespace")
    return [(pa.field(NAMESPACE, pa.binary(), metadata=PICKLED), pickled)]


def _namespaces(data: pa.RecordBatch) -> list[Any]:
    if WINDOW_START in data.schema.names:
        starts, ends = data.column(WINDOW_START).to_pylist(), data.column(WINDOW_END).to_pylist()
        return [TimeWindow(start, end) for start, end in zip(starts, ends, strict=True)]
    if NAMESPACE in data.schema.names:
        return decode_column(_PICKLED_TYPE, data.column(NAMESPACE))
    return [None] * data.num_rows


def _check(layout: EntryFormat, stored: pa.Schema) -> None:
    expected = {KEY: layout.key_type}
    if layout.value_type is not None:
        expected[VALUE] = layout.value_type
    elif TIMESTAMP not in stored.names:
        raise CorruptData(f"state '{layout.state_name}' of operator '{layout.operator}' has no column '{TIMESTAMP}'")
    for name, type_info in expected.items():
        wanted = type_info.arrow_field(name)
        if name not in stored.names:
            raise CorruptData(f"state '{layout.state_name}' of operator '{layout.operator}' has no column '{name}'")
        found = stored.field(name)
        if found.type != wanted.type or _is_pickled(found) != _is_pickled(wanted):
            shown = "pickled objects" if _is_pickled(found) else found.type
            raise SchemaMismatch(
                f"operator '{layout.operator}', state '{layout.state_name}': the restored {name} is of type {shown}, the "
                f"job declares {type_info!r} ({wanted.type}): keep the type, or give the state another name"
            )


def _is_pickled(field: pa.Field) -> bool:
    return b"tidegate.pickled" in (field.metadata or {})
