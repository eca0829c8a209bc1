"""Keyed state of record functions, in memory, by key group: the backend ``hashmap``.

    set_current(key, group) ─▶ handles read and write the entry (key, namespace) of their table
    freeze() ─▶ FrozenKeyedState: one segment for each state name, written in the snapshot thread

State that was restored but that nobody asks for yet is kept as it is and written again, so that a state whose function
registers it late (or in a later version of the job) is not lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from taskmanager.state.base import FrozenState, SegmentSource, SegmentStore
from taskmanager.state.entries import EntryFormat, canonical_key, from_columns, to_columns
from taskmanager.state.layers import FrozenTable, StateTable
from taskmanager.state.segments import Groups, StateDescription, metadata_of, read_keyed, write_keyed
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import KeyGroupRange

Rows = tuple[Groups, pa.RecordBatch]


class KeyedStateBackend:
    """All keyed state of one operator of one subtask. ``key_type`` is ``None`` when keys are to be pickled."""

    def __init__(self, operator: str, owned: KeyGroupRange, key_type: TypeInformation | None = None) -> None:
        self.operator = operator
        self.owned = owned
        self.key: Any = None
        self.group = owned.start
        self.namespace: Any = None
        """Of the window that is worked on; handles of plain state do not look at it."""
        self._key_type = key_type or Types.PICKLED_BYTE_ARRAY()
        self._tables: dict[str, tuple[EntryFormat, StateTable]] = {}
        self._unclaimed: dict[str, list[Rows]] = {}

    def restore(self, restored: RestoredOperator, source: SegmentSource) -> None:
        """Read what lies in the own key groups. Raises ``CorruptData``, ``StorageError``."""
        for segment in restored.keyed:
            if segment.key_groups.intersect(self.owned).size:
                rows = read_keyed(source, segment, self.owned)
                self._unclaimed.setdefault(segment.state_name, []).append(rows)

    def set_current(self, key: Any, group: int) -> None:
        """The key of the record that is worked on. ``key`` is canonical (``canonical_key``)."""
        self.key = key
        self.group = group

    def table(self, state_name: str, kind: str, value_type: TypeInformation | None) -> StateTable:
        """The table of a state, made (and filled with what was restored) when it is first asked for.
        Raises ``InvalidJob`` when the name is in use for another kind or type, ``SchemaMismatch``."""
        wanted = EntryFormat(self.operator, state_name, kind, self._key_type, value_type)
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
            for group, entry, value in from_columns(wanted, groups, data):
                table.write(group, entry, value)
        self._tables[state_name] = (wanted, table)
        return table

    def freeze(self) -> FrozenState:
        """References only."""
        tables = [(layout, table.freeze()) for layout, table in self._tables.values()]
        return _FrozenKeyedState(self.operator, self.owned, tables, dict(self._unclaimed))


@dataclass(slots=True)
class _FrozenKeyedState(FrozenState):
    operator: str
    owned: KeyGroupRange
    tables: list[tuple[EntryFormat, FrozenTable]]
    unclaimed: dict[str, list[Rows]] = field(default_factory=dict)

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        segments = []
        for layout, table in self.tables:
            groups, data = to_columns(layout, table.entries())
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
