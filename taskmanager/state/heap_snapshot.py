"""A frozen table of Python objects, written: its key groups whole, or what changed in them since an earlier checkpoint.

decide ─▶ for some key groups at a time: entries become columns ─▶ the groups are given back ─▶ the columns are written
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from taskmanager.machines.increments import Chain, Increments, decide
from taskmanager.state.base import SegmentStore
from taskmanager.state.entries import EntryFormat, to_columns
from taskmanager.state.layers import MISSING, Entry, FrozenTable
from taskmanager.state.segment_streams import SegmentStream
from taskmanager.state.segments import Groups
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange

PIECE_ENTRIES = 1 << 14

Piece = tuple[Groups, pa.RecordBatch]


class FrozenHeapTable:
    """``base``: what it may build upon. ``increments``: later checkpoints may build upon it."""

    def __init__(
        self,
        checkpoint_id: int,
        layout: EntryFormat,
        table: FrozenTable,
        base: Chain | None,
        increments: Increments | None,
    ) -> None:
        self._checkpoint_id = checkpoint_id
        self._layout = layout
        self._table = table
        self._base = base
        self._increments = increments

    def write(self, store: SegmentStore, owned: KeyGroupRange, frozen_ms: int) -> list[SegmentHandle]:
        """Snapshot thread. ``frozen_ms``: when it was frozen, for state that expires. Raises ``StorageError``,
        ``SchemaMismatch``, ``NotSerializable``."""
        table, base = self._table, self._base
        groups = range(owned.start, owned.end + 1)
        changed = [len(table.changed(group, base.epoch)) if base else 0 for group in groups]
        plan = decide(base, owned, [table.size_of(group) for group in groups], changed)
        whole = range(0) if plan.whole is None else range(plan.whole.start, plan.whole.end + 1)
        written: list[SegmentHandle] = []
        if plan.delta is not None:
            others = [group for group in groups if group not in whole]
            pieces = self._changes(others, plan.delta.since, frozen_ms)
            written += self._stream(store, pieces, owned, plan.delta.level)
        for group in table.groups():
            if group not in whole:
                table.written(group)
        if plan.whole is not None:
            written += self._stream(store, self._whole(whole, frozen_ms), plan.whole, 0)
        if self._increments is not None:
            self._increments.written(self._checkpoint_id, plan.chain(table.epoch, written))
        return [*plan.kept, *written]

    def release(self) -> None:
        self._table.release()

    def _stream(
        self, store: SegmentStore, pieces: Iterator[Piece], groups: KeyGroupRange, level: int
    ) -> Iterator[SegmentHandle]:
        first = next(pieces, None)
        if first is not None:
            stream = SegmentStream(self._layout.description, groups, level)
            yield stream.write(store, itertools.chain([first], pieces), is_shared=self._increments is not None)

    def _whole(self, groups: Iterable[int], frozen_ms: int) -> Iterator[Piece]:
        table, layout = self._table, self._layout
        there = [group for group in groups if table.size_of(group)]
        kinds = {kind for group in there for kind in self._kinds(table.group(group))}
        waiting: list[int] = []
        rows: list[tuple[int, Entry, Any]] = []
        for group in there:
            rows += layout.living(((group, entry, value) for entry, value in table.group(group).items()), frozen_ms)
            waiting.append(group)
            if len(rows) >= PIECE_ENTRIES or group == there[-1]:
                piece = to_columns(layout, rows, kinds=kinds)
                for done in waiting:
                    table.written(done)
                waiting, rows = [], []
                if piece[1].num_rows:
                    yield piece

    def _changes(self, groups: Iterable[int], since: int, frozen_ms: int) -> Iterator[Piece]:
        table, layout = self._table, self._layout
        entries = {group: found for group in groups if (found := table.changed(group, since))}
        kinds = {kind for found in entries.values() for kind in self._kinds(found)}
        for group, changed in entries.items():
            held = table.group(group)
            rows = ((group, entry, held[entry]) for entry in changed if held.get(entry, MISSING) is not MISSING)
            living = list(layout.living(rows, frozen_ms))
            left = {entry for _, entry, _ in living}
            piece = to_columns(layout, living, [(group, entry) for entry in changed if entry not in left], kinds)
            table.written(group)
            yield piece

    def _kinds(self, entries: Iterable[Entry]) -> set[type]:
        """Of their namespaces."""
        if self._layout.value_type is None:
            return {type(space[1]) for _, space in entries}
        return {type(space) for _, space in entries}
