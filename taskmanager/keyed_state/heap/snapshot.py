"""Writes a frozen table of Python objects: whole key groups, or what changed in them since an earlier checkpoint.

decide ─▶ for some key groups at a time: entries become columns ─▶ the groups are released ─▶ the columns are written
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import FrozenTable
from tidegate.taskmanager.keyed_state.heap.entries import EntryColumns, EntryFormat, kinds_of, to_columns
from tidegate.taskmanager.machines.incremental_snapshot import Increments, SegmentChain, decide
from tidegate.taskmanager.state.files.segment_streams import Rows as Piece
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.ports import SegmentStore

PIECE_ENTRIES = 1 << 14
"""Entries that the snapshot thread converts to columns at once, which bounds what a snapshot holds besides the state."""


class FrozenHeapTable:
    """A frozen table with the chain that it may build upon, ``base``. ``increments``: set if later checkpoints may build upon this one."""

    def __init__(
        self,
        checkpoint_id: int,
        layout: EntryFormat,
        table: FrozenTable,
        base: SegmentChain | None,
        increments: Increments | None,
    ) -> None:
        self._checkpoint_id = checkpoint_id
        self._layout = layout
        self._table = table
        self._base = base
        self._increments = increments

    def write(self, store: SegmentStore, owned: KeyGroupRange, frozen_ms: int) -> list[SegmentHandle]:
        """Writes the table; returns its segments. Runs in the snapshot thread. ``frozen_ms``: time of the freeze, for state with a time to live. Raises
        ``StorageError``, ``SchemaMismatch``, ``NotSerializable``.
        """
        table, base = self._table, self._base
        groups = range(owned.start, owned.end + 1)
        changed = [len(table.changed(group, base.epoch)) if base else 0 for group in groups]
        plan = decide(base, owned, [table.size_of(group) for group in groups], changed)
        whole = range(0) if plan.whole is None else range(plan.whole.start, plan.whole.end + 1)
        written: list[SegmentHandle] = []
        if plan.delta is not None:
            others = [group for group in groups if group not in whole]
            pieces = self._changes(others, plan.delta.since, frozen_ms)
            written += self._segments(store, pieces, owned, plan.delta.level)
        for group in table.groups():
            if group not in whole:
                table.written(group)
        if plan.whole is not None:
            written += self._segments(store, self._whole(whole, frozen_ms), plan.whole, 0)
        if self._increments is not None:
            self._increments.written(self._checkpoint_id, plan.chain(table.epoch, written))
        return [*plan.kept, *written]

    def release(self) -> None:
        self._table.release()

    def _segments(
        self, store: SegmentStore, pieces: Iterator[Piece], groups: KeyGroupRange, level: int
    ) -> Iterator[SegmentHandle]:
        about, is_shared = self._layout.description, self._increments is not None
        return write_segments(store, about, pieces, groups, level, is_shared=is_shared)

    def _whole(self, groups: Iterable[int], frozen_ms: int) -> Iterator[Piece]:
        table, layout = self._table, self._layout
        there = [group for group in groups if table.size_of(group)]
        kinds: set[type] = set().union(*(kinds_of(layout, table.group(group)) for group in there))
        entries, waiting = EntryColumns(layout, kinds), []
        for group in there:
            entries.add(group, layout.living(table.group(group), frozen_ms))
            waiting.append(group)
            if len(entries) >= PIECE_ENTRIES or group == there[-1]:
                piece = to_columns(entries)
                for done in waiting:
                    table.written(done)
                entries, waiting = EntryColumns(layout, kinds), []
                if piece[1].num_rows:
                    yield piece

    def _changes(self, groups: Iterable[int], since: int, frozen_ms: int) -> Iterator[Piece]:
        table, layout = self._table, self._layout
        changes = {group: found for group in groups if (found := table.changed(group, since))}
        kinds: set[type] = set().union(*(kinds_of(layout, found) for found in changes.values()))
        entries, waiting = EntryColumns(layout, kinds), []
        last = next(reversed(changes), None)
        for group, changed in changes.items():
            living = layout.living(table.some(group, changed), frozen_ms)
            gone = changed - living.keys()
            entries.add(group, living)
            waiting.append(group)
            if gone:
                entries.add_removed(group, gone)
            if gone or len(entries) >= PIECE_ENTRIES or group == last:  # removed entries stand behind all others
                piece = to_columns(entries, is_delta=True)
                for done in waiting:
                    table.written(done)
                entries, waiting = EntryColumns(layout, kinds), []
                yield piece
