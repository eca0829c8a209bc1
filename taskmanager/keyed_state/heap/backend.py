"""The keyed state backend ``hashmap``: state of record functions as Python objects in memory, by key group.

    set_current(key, group) ─▶ handles read and write the entry (key, namespace) of their table
    freeze() ─▶ frozen tables, written in the snapshot thread group by group: whole, or what changed (``heap_snapshot``)

Restored state that no function has requested yet is kept and written again by every snapshot, so that a function can still register it later, or in a later
version of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, SegmentHandle
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.record_copy import RecordCopy, record_copy
from tidegate.store.levels import merged
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.heap.cells import HeapListCells, HeapMapCells, HeapSweep
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import IndexedTable, StateTable
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat, from_columns, removed_entries
from tidegate.taskmanager.keyed_state.heap.snapshot import FrozenHeapTable
from tidegate.taskmanager.keyed_state.heap.timers import HeapTimers
from tidegate.taskmanager.keyed_state.ttl import Sweep, Ttl
from tidegate.taskmanager.machines.incremental_snapshot import Increments, restored_chain
from tidegate.taskmanager.state.files.read_ahead import ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segments import (
    DELETED,
    KEY_GROUP,
    Groups,
    StateDescription,
    metadata_of,
    read_keyed,
    write_keyed,
)
from tidegate.taskmanager.state.ports import FrozenState, SegmentSource, SegmentStore
from tidegate.wire.state_columns import is_identity

MERGED_ENTRIES = 2_000
"""Number of entries written during a snapshot of which at most about so many are merged with each batch."""

Rows = tuple[Groups, pa.RecordBatch]
T = TypeVar("T", bound=StateTable)


class KeyedStateBackend(KeyedBackend):
    """The backend of ``state.backend.type: hashmap``."""

    def __init__(
        self,
        operator: str,
        owned: KeyGroupRange,
        key_type: TypeInformation | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        restored_checkpoint_id: int | None = None,
        *,
        reuses_objects: bool = False,
    ) -> None:
        """Creates an empty backend for the ``owned`` key groups. ``reuses_objects``: values that functions put into state are stored without a copy."""
        super().__init__(operator, owned, key_type, now_ms)
        self._reuses_objects = reuses_objects
        self._restored_checkpoint_id = restored_checkpoint_id
        self._segments: dict[str, list[SegmentHandle]] = {}
        """The restored segments by state. A state that is requested early enough builds upon them."""
        self._tables: dict[str, tuple[EntryFormat, StateTable]] = {}
        self._increments: dict[str, Increments] = {}
        self._was_frozen = False
        self._unclaimed: dict[str, list[Rows]] = {}
        self._restored_ms = 0
        """The time of the restore: that of state which was written without a time to live."""

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        self._restored_ms = self.now_ms()
        mine = in_reading_order(s for s in restored.keyed if s.key_groups.intersect(self.owned).size)
        with ReadAhead(source, [segment.handle for segment in mine]) as files:
            for segment in mine:
                rows = read_keyed(files, segment, self.owned)
                self._unclaimed.setdefault(segment.state_name, []).append(rows)
                self._segments.setdefault(segment.state_name, []).append(segment)

    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> StateTable:
        return self._table_of(state_name, kind, value_type, ttl, StateTable)

    def entries_by_key(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> IndexedTable:
        return self._table_of(state_name, "value", value_type, ttl, IndexedTable)

    def _table_of(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None, make: type[T]
    ) -> T:
        wanted = EntryFormat(self.operator, state_name, kind, self._key_type, value_type, ttl)
        known = self._tables.get(state_name)
        if known is not None:
            if known[0] != wanted or not isinstance(known[1], make):
                raise InvalidJob(
                    f"operator '{self.operator}': state '{state_name}' is registered as {known[0].kind} of "
                    f"{known[0].value_type!r} and as {kind} of {value_type!r}: use two names"
                )
            return known[1]
        table = make()
        parts = self._unclaimed.pop(state_name, [])
        for groups, data in parts:
            _load(table, wanted, groups, data, self._restored_ms)
        self._tables[state_name] = (wanted, table)
        self._increments[state_name] = increments = Increments()
        if self._restored_checkpoint_id is not None and not self._was_frozen:
            is_same = bool(parts) and all(wanted.has_columns(data.schema) for _, data in parts)
            chain = restored_chain(self._segments.pop(state_name), self.owned) if is_same else None
            if chain is not None:
                increments.restored(self._restored_checkpoint_id, chain)
                table.note_changes()
        return table

    def copies_of(self, state_name: str, value_type: TypeInformation | None) -> RecordCopy:
        return record_copy(value_type, self._where(state_name), reuses_objects=self._reuses_objects)

    def list_cells(
        self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None, kind: str = "list"
    ) -> HeapListCells:
        return HeapListCells(self.table(state_name, kind, value_type, ttl))

    def map_cells(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> HeapMapCells:
        return HeapMapCells(self.table(state_name, "map", value_type, ttl))

    def timers(self, state_name: str) -> HeapTimers:
        return HeapTimers(self.table(state_name, "timers", None))

    def entry_keys(self, state_name: str) -> list[tuple[int, Entry]]:
        return [(group, entry) for group, entry, _ in self._tables[state_name][1].entries()]

    def sweep(self, state_name: str) -> Sweep:
        layout, table = self._tables[state_name]
        assert layout.ttl is not None
        return HeapSweep(table, layout.kind, layout.ttl, self.owned)

    def freeze(self, checkpoint_id: int = 0, options: CheckpointOptions | None = None) -> FrozenState:
        self._was_frozen = True
        may_share = options is not None and bool(options.shared_location) and not options.snapshot_type.is_savepoint
        frozen = []
        for name, (layout, table) in self._tables.items():
            increments = self._increments[name]
            if may_share:
                table.note_changes()
            base = None if options is None else increments.begin(options)
            oldest = increments.oldest_epoch
            table.forget_changes(table.oldest_needed if oldest is None else min(oldest, table.oldest_needed))
            builds = increments if may_share else None
            frozen.append(FrozenHeapTable(checkpoint_id, layout, table.freeze(), base, builds))
        return _FrozenKeyedState(self.operator, self.owned, frozen, self.now_ms(), dict(self._unclaimed))

    def confirmed(self, checkpoint_id: int) -> None:
        for increments in self._increments.values():
            increments.confirmed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        for increments in self._increments.values():
            increments.aborted(checkpoint_id)

    def forget_all(self) -> None:
        for _, table in self._tables.values():
            table.forget_all()

    def merge_some(self) -> None:
        for _, table in self._tables.values():
            table.merge_some(MERGED_ENTRIES)


@dataclass(slots=True)
class _FrozenKeyedState(FrozenState):
    operator: str
    owned: KeyGroupRange
    tables: list[FrozenHeapTable]
    frozen_ms: int
    unclaimed: dict[str, list[Rows]] = field(default_factory=dict)

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        segments: list[SegmentHandle] = []
        for table in self.tables:
            segments += table.write(store, self.owned, self.frozen_ms)
        for name, parts in self.unclaimed.items():
            groups, data = _joined(parts)
            if data.num_rows:
                stored = metadata_of(data.schema)
                about = StateDescription(self.operator, name, stored.get("kind", ""), stored.get("types", {}))
                segments.append(write_keyed(store, data, groups, self.owned, about))
        return OperatorSnapshot(keyed=tuple(segments))

    def release(self) -> None:
        for table in self.tables:
            table.release()
        self.tables = []


def _load(table: StateTable, layout: EntryFormat, groups: Groups, data: pa.RecordBatch, now_ms: int) -> None:
    """Loads one level of restored state into a table."""
    if DELETED in data.schema.names:
        is_gone = data.column(DELETED)
        gone = is_gone.to_numpy(zero_copy_only=False)
        for group, entry in removed_entries(layout, groups[gone], data.filter(is_gone)):
            table.delete(group, entry)
        groups, data = groups[~gone], data.filter(pa.array(~gone)).drop_columns([DELETED])
    for group, entry, value in from_columns(layout, groups, data, now_ms):
        table.write(group, entry, value)


def _joined(parts: list[Rows]) -> Rows:
    """Merges restored rows, lowest level first, into one batch."""
    if not any(DELETED in data.schema.names for _, data in parts):
        table = pa.Table.from_batches([data for _, data in parts]).combine_chunks()
        groups = np.concatenate([groups for groups, _ in parts])
    else:
        tables = [
            pa.Table.from_batches([data]).append_column(KEY_GROUP, pa.array(groups, pa.int32()))
            for groups, data in parts
        ]
        table = merged(tables, is_identity).combine_chunks()
        groups, table = table.column(KEY_GROUP).to_numpy(), table.drop_columns([KEY_GROUP])
    batches = table.to_batches()
    return groups, batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
