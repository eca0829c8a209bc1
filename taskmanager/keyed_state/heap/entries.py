"""Converts entries of keyed state to Arrow columns, and back.

key        a column of the key's type, or pickled when there is none
namespace  ``window_start`` and ``window_end`` for time windows; ``window_id`` for windows of counts; ``namespace`` (pickled)
           for others; nothing for ``None``
timestamp  timers only: when they fire
value      a column of the state's type, or pickled when there is none; nothing for timers
ttl_ms     state that expires: when each value, element or map entry was written (``tidegate.taskmanager.keyed_state.ttl``)

Stored columns of other types than the job declares are read as ``tidegate.records.schema_evolution`` allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import MapTypeInfo, TypeInformation, Types
from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.errors import ON_DAMAGE, CorruptData, InvalidJob, NotSerializable, SchemaMismatch
from tidegate.model.values import Key, StateValue
from tidegate.records.canonical.forms import EncodedKey, canonical_keys, values_of
from tidegate.records.record_codec import decode_column, decode_maps, encode_column
from tidegate.records.schema_evolution import TTL_COLUMN, Refusal, evolve
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.ttl import Ttl, plain, stamped, stamps_of
from tidegate.taskmanager.state.files.segments import DELETED, PICKLED, Groups, StateDescription, metadata_of

KEY, VALUE, NAMESPACE, TIMESTAMP = "key", "value", "namespace", "timestamp"
WINDOW_START, WINDOW_END, WINDOW_ID = "window_start", "window_end", "window_id"
Columns = list[tuple[pa.Field, pa.Array]]
_PICKLED_TYPE = Types.PICKLED_BYTE_ARRAY()
_KEY_OF, _NAMESPACE_OF = itemgetter(0), itemgetter(1)
"""Return the key and the namespace of an entry; ``_NAMESPACE_OF`` also the namespace of a timer."""


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """The format in which the entries of one state are written. ``value_type``: ``None`` for timers, whose namespace is ``(timestamp, namespace)``."""

    operator: str
    state_name: str
    kind: str
    key_type: TypeInformation
    value_type: TypeInformation | None
    ttl: Ttl | None = None

    @property
    def description(self) -> StateDescription:
        types = {KEY: repr(self.key_type)}
        if self.value_type is not None:
            types[VALUE] = repr(self.value_type)
        return StateDescription(self.operator, self.state_name, self.kind, types)

    @property
    def declared(self) -> pa.Schema:
        """The columns that the job declares, without those of namespaces."""
        fields = [self.key_type.arrow_field(KEY)]
        if self.value_type is not None:
            fields.append(self.value_type.arrow_field(VALUE))
        if self.ttl is not None:
            fields.append(self.ttl_field)
        return pa.schema(fields)

    @property
    def ttl_field(self) -> pa.Field:
        return pa.field(TTL_COLUMN, pa.list_(pa.int64()) if self.is_list or self.is_map else pa.int64())

    @property
    def is_list(self) -> bool:
        """Whether entries are lists that grow: of a ListState, or the records of a window."""
        return self.kind in ("list", "process")

    @property
    def is_map(self) -> bool:
        return self.kind == "map"

    def has_columns(self, stored: pa.Schema) -> bool:
        """Tells whether a file has exactly the columns that are written now."""
        if self.ttl is None and TTL_COLUMN in stored.names:
            return False
        return all(field.name in stored.names and stored.field(field.name).equals(field) for field in self.declared)

    def living(self, entries: Mapping[Entry, StateValue], now_ms: int) -> Mapping[Entry, StateValue]:
        """Returns the entries that a snapshot contains: without expired ones, if the state is configured so."""
        if self.ttl is None or not self.ttl.in_full_snapshot:
            return entries
        return self.ttl.without_expired(self.kind, entries, now_ms)


class EntryColumns:
    """Collects the entries of some key groups as columns for a snapshot file; in an incremental one the keys of removed entries follow."""

    def __init__(self, layout: EntryFormat, kinds: Set[type]) -> None:
        """Begins an empty batch of entries. ``kinds``: the types of the namespaces of all batches of the snapshot, since all batches have the same columns."""
        self.layout = layout
        self.kinds = kinds
        self.keys: list[Key] = []
        self.namespaces: list[Namespace] = []
        """The namespaces of the entries; empty if all are ``None``."""
        self.values: list[StateValue] = []
        self._groups: list[tuple[int, int]] = []
        self._has_namespaces = layout.value_type is None or not kinds <= {type(None)}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def groups(self) -> Groups:
        """The key group of each entry."""
        groups, counts = zip(*self._groups, strict=True) if self._groups else ((), ())
        return np.repeat(np.array(groups, np.int32), counts)

    def add(self, group: int, entries: Mapping[Entry, StateValue]) -> None:
        self.values += entries.values()
        self.add_removed(group, entries)

    def add_removed(self, group: int, entries: Collection[Entry]) -> None:
        self.keys += map(_KEY_OF, entries)
        if self._has_namespaces:
            self.namespaces += map(_NAMESPACE_OF, entries)
        self._groups.append((group, len(entries)))


def kinds_of(layout: EntryFormat, entries: Iterable[Entry]) -> set[type]:
    """Returns the types of the entries' namespaces."""
    namespaces = map(_NAMESPACE_OF, entries)
    return set(map(type, namespaces if layout.value_type is not None else map(_NAMESPACE_OF, namespaces)))


def to_columns(entries: EntryColumns, *, is_delta: bool = False) -> tuple[Groups, pa.RecordBatch]:
    """Converts entries to columns; returns their key groups and the batch. ``is_delta``: adds the column ``deleted``.

    Raises ``SchemaMismatch`` naming the state when a value does not fit its type, or ``NotSerializable``.
    """
    layout = entries.layout
    where = f"operator '{layout.operator}', state '{layout.state_name}'"
    fields = [layout.key_type.arrow_field(KEY)]
    arrays = [encode_column(layout.key_type, values_of(entries.keys), f"{where}, key")]
    spaces = entries.namespaces
    if layout.value_type is None:
        fields.append(pa.field(TIMESTAMP, pa.int64()))
        arrays.append(pa.array([stamp for stamp, _ in spaces], pa.int64()))
        spaces = [space for _, space in spaces]
    for field, array in _namespace_columns(spaces, entries.kinds):
        fields.append(field)
        arrays.append(array)
    rows, values = len(entries.values), entries.values
    if layout.value_type is not None:
        if layout.ttl is not None:
            fields.append(layout.ttl_field)
            arrays.append(pa.array([stamps_of(layout.kind, value) for value in values], layout.ttl_field.type))
            values = [plain(layout.kind, value) for value in values]
        fields.append(layout.value_type.arrow_field(VALUE))
        arrays.append(encode_column(layout.value_type, values, where))
    if gone := len(entries) - rows:
        arrays = [a if len(a) == len(entries) else pa.concat_arrays([a, pa.nulls(gone, a.type)]) for a in arrays]
    if is_delta:
        fields.append(pa.field(DELETED, pa.bool_(), nullable=False))
        arrays.append(pa.array(np.arange(len(entries)) >= rows))
    return entries.groups, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def removed_entries(layout: EntryFormat, groups: Groups, data: pa.RecordBatch) -> Iterator[tuple[int, Entry]]:
    """Yields the entries of rows that mark a removal; their values are not used."""
    keys = _forms(layout, data)
    spaces: Iterable[Namespace] = namespaces_of(data)
    if layout.value_type is None:
        spaces = zip(data.column(TIMESTAMP).to_pylist(), spaces, strict=True)
    yield from zip(groups.tolist(), zip(keys, spaces, strict=True), strict=True)


def from_columns(
    layout: EntryFormat, groups: Groups, data: pa.RecordBatch, now_ms: int = 0
) -> Iterator[tuple[int, Entry, StateValue]]:
    """Yields group, entry and value of each row. ``now_ms``: the time of state that was written without a time to live.

    Raises ``SchemaMismatch`` when the state was written with types that cannot be read as the job's.
    """
    data = _as_declared(layout, data)
    keys = _forms(layout, data)
    spaces: Iterable[Namespace] = namespaces_of(data)
    if layout.value_type is None:
        spaces = zip(data.column(TIMESTAMP).to_pylist(), spaces, strict=True)
        values: list[StateValue] = [True] * data.num_rows
    else:
        values = values_in(layout, data.column(VALUE))
    if layout.ttl is not None:
        stamps = data.column(TTL_COLUMN).to_pylist()
        values = [stamped(layout.kind, value, ms, now_ms) for value, ms in zip(values, stamps, strict=True)]
    entries = list(zip(keys, spaces, strict=True))
    if EncodedKey in set(map(type, keys)) and len(set(entries)) < len(entries):
        raise _twice(layout, next(key for (key, _), count in Counter(entries).items() if count > 1))
    yield from zip(groups.tolist(), entries, values, strict=True)


def values_in(layout: EntryFormat, column: pa.Array) -> list[StateValue]:
    """Returns the values of a column. Those of maps have canonical keys. Raises ``SchemaMismatch``."""
    assert layout.value_type is not None
    if not (layout.is_map and isinstance(layout.value_type, MapTypeInfo)):
        return decode_column(layout.value_type, column)
    found: list[StateValue] = []
    for entry in decode_maps(layout.value_type, column):
        keys = canonical_keys([key for key, _ in entry])
        made = dict(zip(keys, (value for _, value in entry), strict=True))
        if len(made) < len(entry):
            raise _twice(layout, next(key for key, count in Counter(keys).items() if count > 1))
        found.append(made)
    return found


def _forms(layout: EntryFormat, data: pa.RecordBatch) -> list[Key]:
    try:
        return canonical_keys(decode_column(layout.key_type, data.column(KEY)))
    except (InvalidJob, NotSerializable) as error:
        raise type(error)(
            f"operator '{layout.operator}', state '{layout.state_name}' cannot be restored: {error.message}"
        ) from error


def _twice(layout: EntryFormat, key: Key) -> SchemaMismatch:
    return SchemaMismatch(
        f"operator '{layout.operator}', state '{layout.state_name}' cannot be restored: an earlier version kept two entries of the key {key!r}, which is "
        "one key now, and only one of them could stay. Read the state with the State Processor and write it with the entry that you want to keep, or give "
        "the state another name"
    )


def _namespace_columns(spaces: list[Namespace], kinds: Set[type]) -> Columns:
    if kinds <= {type(None)}:
        return []
    if kinds == {TimeWindow}:
        return time_window_columns(spaces)
    if kinds == {CountWindow}:
        return count_window_columns(spaces)
    pickled = encode_column(_PICKLED_TYPE, spaces, "namespace")
    return [(pa.field(NAMESPACE, pa.binary(), metadata=PICKLED), pickled)]


def time_window_columns(windows: Sequence[TimeWindow]) -> Columns:
    starts, ends = [w.start for w in windows], [w.end for w in windows]
    return [
        (pa.field(WINDOW_START, pa.int64()), pa.array(starts, pa.int64())),
        (pa.field(WINDOW_END, pa.int64()), pa.array(ends, pa.int64())),
    ]


def count_window_columns(windows: Sequence[CountWindow]) -> Columns:
    return [(pa.field(WINDOW_ID, pa.int64()), pa.array([window.id for window in windows], pa.int64()))]


def namespaces_of(data: pa.RecordBatch) -> list[Namespace]:
    if WINDOW_START in data.schema.names:
        starts, ends = data.column(WINDOW_START).to_pylist(), data.column(WINDOW_END).to_pylist()
        return [TimeWindow(start, end) for start, end in zip(starts, ends, strict=True)]
    if WINDOW_ID in data.schema.names:
        return [CountWindow(number) for number in data.column(WINDOW_ID).to_pylist()]
    if NAMESPACE in data.schema.names:
        return decode_column(_PICKLED_TYPE, data.column(NAMESPACE))
    return [None] * data.num_rows


def _as_declared(layout: EntryFormat, data: pa.RecordBatch) -> pa.RecordBatch:
    of = f"operator '{layout.operator}', state '{layout.state_name}'"
    stored, needed = data.schema.names, [KEY, TIMESTAMP if layout.value_type is None else VALUE]
    missing = [name for name in needed if name not in stored]
    if missing:
        raise CorruptData(f"{of}: the restored state has no column '{missing[0]}' among {stored}; {ON_DAMAGE}")
    kind = metadata_of(data.schema).get("kind", layout.kind)
    if kind != layout.kind:
        raise SchemaMismatch(
            f"{of} was written as {kind} and is now declared as {layout.kind}: give the state another name"
        )
    plan = evolve(data.schema, layout.declared)
    if isinstance(plan, Refusal):
        raise SchemaMismatch(
            f"{of} cannot be restored: {'; '.join(plan.reasons)}. Keep the type, or give the state another name"
        )
    return plan.apply(data)
