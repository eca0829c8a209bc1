"""Keyed state of record functions, in memory, by key group: the backend ``hashmap``.

    set_current(key, group) ─▶ handles read and write the entry (key, namespace) of their table
    freeze() ─▶ FrozenKeyedState: one segment for each state name, written in the snapshot thread

State that was restored but that nobody asks for yet is kept as it is and written again, so that a state whose function
registers it late (or in a later version of the job) is not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from taskmanager.state.backend import KeyedBackend
from taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from taskmanager.state.entries import EntryFormat, canonical_key, from_columns, to_columns
from taskmanager.state.heap_cells import HeapListCells, HeapMapCells, HeapSweep
from taskmanager.state.layers import FrozenTable, StateTable
from taskmanager.state.segments import Groups, StateDescription, metadata_of, read_keyed, write_keyed
from taskmanager.state.ttl import Sweep, Ttl
from tidegate.common.typeinfo import TypeInformation
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import KeyGroupRange

Rows = tuple[Groups, pa.RecordBatch]


class KeyedStateBackend(KeyedBackend):
    """``state.backend.type: hashmap``."""

    def __init__(
        self,
        operator: str,
        owned: KeyGroupRange,
        key_type: TypeInformation | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(operator, owned, key_type, now_ms)
        self._tables: dict[str, tuple[EntryFormat, StateTable]] = {}
        self._unclaimed: dict[str, list[Rows]] = {}

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        for segment in restored.keyed:
            if segment.key_groups.intersect(self.owned).size:
                rows = read_keyed(source, segment, self.owned)
                self._unclaimed.setdefault(segment.state_name, []).append(rows)

    def table(
        self, state_name: str, kind: str, value_type: TypeInformation | None, ttl: Ttl | None = None
    ) -> StateTable:
        wanted = EntryFormat(self.operator, state_name, kind, self._key_type, value_type, ttl)
        known = self._tables.get(state_name)
        if known is not None:
            if known[0] != wanted:
                raise InvalidJob(
                    f"operator '{self.operator}': state '{state_name}' is registered as {known[0].kind} of "
                    f"{known[0].value_type!r} and as {kind} of {value_type!r}: use two names"
                )
            return known[1]
        table = StateTable()
        for groups, data in self._unclaimed.pop(state_name, []):
            for group, entry, value in from_columns(wanted, groups, data, self.now_ms()):
                table.write(group, entry, value)
        self._tables[state_name] = (wanted, table)
        return table

    def list_cells(
        self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None, kind: str = "list"
    ) -> HeapListCells:
        return HeapListCells(self.table(state_name, kind, value_type, ttl))

    def map_cells(self, state_name: str, value_type: TypeInformation, ttl: Ttl | None = None) -> HeapMapCells:
        return HeapMapCells(self.table(state_name, "map", value_type, ttl))

    def sweep(self, state_name: str) -> Sweep:
        layout, table = self._tables[state_name]
        assert layout.ttl is not None
        return HeapSweep(table, layout.kind, layout.ttl, self.owned)

    def freeze(self, checkpoint_id: int = 0, options: CheckpointOptions | None = None) -> FrozenState:
        tables = [(layout, table.freeze()) for layout, table in self._tables.values()]
        return _FrozenKeyedState(self.operator, self.owned, tables, self.now_ms(), dict(self._unclaimed))


@dataclass(slots=True)
class _FrozenKeyedState(FrozenState):
    operator: str
    owned: KeyGroupRange
    tables: list[tuple[EntryFormat, FrozenTable]]
    frozen_ms: int
    unclaimed: dict[str, list[Rows]] = field(default_factory=dict)

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        segments = []
        for layout, table in self.tables:
            groups, data = to_columns(layout, layout.living(table.entries(), self.frozen_ms))
            if data.num_rows:
                segments.append(write_keyed(store, data, groups, self.owned, layout.description))
        for name, parts in self.unclaimed.items():
            groups = np.concatenate([groups for groups, _ in parts])
            table = pa.Table.from_batches([data for _, data in parts]).combine_chunks()
            if table.num_rows:
                stored = metadata_of(table.schema)
                about = StateDescription(self.operator, name, stored.get("kind", ""), stored.get("types", {}))
                segments.append(write_keyed(store, table.to_batches()[0], groups, self.owned, about))
        return OperatorSnapshot(keyed=tuple(segments))

    def release(self) -> None:
        for _, table in self.tables:
            table.release()
        self.tables = []


__all__ = ["KeyedStateBackend", "canonical_key"]
