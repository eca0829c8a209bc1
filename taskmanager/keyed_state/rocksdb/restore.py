"""Loads restored segments into RocksDB, file by file, in the order of their levels.

Types are known only when a function requests its state, so segments stay unread until then. State that no function requests is written again by every snapshot,
so that it is not lost. The first snapshot copies its files below the attempt's directory, since the original files are deleted with their checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.heap.entries import EntryFormat, from_columns, removed_entries
from tidegate.taskmanager.keyed_state.rocksdb.restored_rows import RestoredRows, can_be_left
from tidegate.taskmanager.keyed_state.rocksdb.tables import RocksCells
from tidegate.taskmanager.state.files.read_ahead import ReadAhead, in_reading_order
from tidegate.taskmanager.state.files.segments import (
    KEY_GROUP,
    Groups,
    StateDescription,
    metadata_of,
    read_keyed,
    write_keyed,
)
from tidegate.taskmanager.state.ports import SegmentSource, SegmentStore
from tidegate.taskmanager.state.restoring.files import opened_for_parts

DELETED = "deleted"
_ENTRIES = 4096
"""Entries of one write batch at a restore. Chosen, not measured."""


class UnclaimedState:
    """The restored segments of one state that was not requested yet. ``directory``: of the attempt."""

    def __init__(
        self, operator: str, state_name: str, owned: KeyGroupRange, source: SegmentSource, directory: str
    ) -> None:
        self._operator = operator
        self._state_name = state_name
        self._owned = owned
        self._source = source
        self._directory = directory
        self.segments: list[SegmentHandle] = []
        self._copies: list[str] = []

    def add(self, segment: SegmentHandle) -> None:
        self.segments = in_reading_order([*self.segments, segment])

    def leave(self, layout: EntryFormat, state_id: int, now_ms: int) -> RestoredRows | None:
        """Returns the rows if they can stay in their files; ``None`` if they must be loaded (``claim``). Raises ``CorruptData``, ``StorageError``.

        They must be loaded when their types differ from those of the state, when another backend wrote them, or if ``opened_for_parts`` says so.
        """
        if self._copies:
            return None
        parts = opened_for_parts(self.segments, self._source, self._directory, partial(can_be_left, layout))
        return None if parts is None else RestoredRows(layout, state_id, parts, now_ms)

    def claim(self, layout: EntryFormat, cells: RocksCells, now_ms: int) -> bool:
        """Loads all rows into the database. Returns whether they had exactly the columns that are written now. Raises ``CorruptData``, ``StorageError``,
        ``SchemaMismatch``.
        """
        is_same = True
        handles = [] if self._copies else [segment.handle for segment in self.segments]
        with ReadAhead(self._source, handles) as files:
            for index, segment in enumerate(self.segments):
                groups, data = self._read(index, files)
                is_same = is_same and layout.has_columns(data.schema)
                for at in range(0, data.num_rows, _ENTRIES):
                    part = data.slice(at, _ENTRIES)
                    _load(layout, cells, groups[at : at + _ENTRIES], part, now_ms, is_newer=segment.level > 0)
        return is_same

    def write(self, store: SegmentStore) -> Iterator[SegmentHandle]:
        """Writes the unclaimed state again as it was, level by level. Runs in the snapshot thread."""
        copies = []
        for index, segment in enumerate(self.segments):
            groups, data = self._read(index, self._source)
            if not self._copies:
                copies.append(self._copy(index, groups, data))
            if data.num_rows:
                stored = metadata_of(data.schema)
                about = StateDescription(
                    self._operator, self._state_name, stored.get("kind", ""), stored.get("types", {})
                )
                both = segment.key_groups.intersect(self._owned)
                yield replace(write_keyed(store, data, groups, both, about), level=segment.level)
        self._copies = self._copies or copies

    def _read(self, index: int, files: SegmentSource) -> tuple[Groups, pa.RecordBatch]:
        if self._copies:
            with pa.memory_map(self._copies[index]) as file:
                (batch,) = pa.ipc.open_file(file).read_all().combine_chunks().to_batches() or [None]
            return batch.column(KEY_GROUP).to_numpy(), batch.drop_columns([KEY_GROUP])
        return read_keyed(files, self.segments[index], self._owned)

    def _copy(self, index: int, groups: Groups, data: pa.RecordBatch) -> str:
        path = os.path.join(self._directory, f"{self._state_name.encode().hex()[:32]}-{id(self):x}-{index}.arrow")
        schema = data.schema.insert(0, pa.field(KEY_GROUP, pa.int32()))
        batch = pa.RecordBatch.from_arrays([pa.array(groups, pa.int32()), *data.columns], schema=schema)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch)
        return path


def _load(
    layout: EntryFormat, cells: RocksCells, groups: Groups, data: pa.RecordBatch, now_ms: int, *, is_newer: bool
) -> None:
    if is_newer:
        if layout.is_list or layout.is_map:
            cells.unload(_entries(layout, cells, groups, data))
        if DELETED in data.schema.names:
            dead = data.column(DELETED)
            if not (layout.is_list or layout.is_map):
                cells.unload(_entries(layout, cells, groups[dead.to_numpy(zero_copy_only=False)], data.filter(dead)))
            groups = groups[~dead.to_numpy(zero_copy_only=False)]
            data = data.filter(pc.invert(dead)).drop_columns([DELETED])
    rows = cells.rows
    pairs: list[tuple[bytes, StateValue]] = [
        (rows.entry(group, entry), value) for group, entry, value in from_columns(layout, groups, data, now_ms)
    ]
    cells.load(pairs)


def _entries(layout: EntryFormat, cells: RocksCells, groups: Groups, data: pa.RecordBatch) -> Sequence[bytes]:
    return [cells.rows.entry(group, entry) for group, entry in removed_entries(layout, groups, data)]
