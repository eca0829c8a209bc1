"""Writes a snapshot of the ``rocksdb`` backend from a view of the database that is made at the barrier.

    freeze ─▶ view, sealed changes │ for each state: decide (whole? delta? kept?) ─▶ segments streamed to the store │ release

Freezing copies nothing and does no I/O. A full state is cut at key groups into files of about ``FILE_BYTES`` (``segment_streams``), so that neither writer nor
reader holds more of it than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.rocksdb import columns
from tidegate.taskmanager.keyed_state.rocksdb.changes import SealedChanges
from tidegate.taskmanager.keyed_state.rocksdb.columns import Form, changed_batches, whole_batches
from tidegate.taskmanager.keyed_state.rocksdb.database import View
from tidegate.taskmanager.keyed_state.rocksdb.restore import UnclaimedState
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import FrozenUnloaded
from tidegate.taskmanager.machines.incremental_snapshot import Increments, Plan, SegmentChain, decide
from tidegate.taskmanager.state.files.segment_streams import write_segments
from tidegate.taskmanager.state.ports import FrozenState, SegmentStore


@dataclass(frozen=True, slots=True)
class FrozenEntries:
    """One frozen state. ``base``: the chain that the snapshot may build upon. ``unloaded``: what is still in restored files."""

    rows: StateRows
    namespaces: frozenset[int]
    increments: Increments
    base: SegmentChain | None
    unloaded: FrozenUnloaded | None = None


@dataclass(slots=True)
class FrozenRocks(FrozenState):
    """The frozen state of a backend. ``timers``: timers on the heap. ``builds_chains``: later checkpoints may refer to what this one writes."""

    checkpoint_id: int
    owned: KeyGroupRange
    view: View | None
    changes: SealedChanges
    states: Sequence[FrozenEntries]
    timers: FrozenState
    builds_chains: bool
    frozen_ms: int
    released: Callable[[SealedChanges], None]
    unclaimed: Sequence[UnclaimedState] = field(default_factory=tuple)

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        segments = list(self.timers.write(store).keyed)
        for state in self.states:
            segments += self._write_state(state, store)
        for restored in self.unclaimed:
            segments += restored.write(store)
        return OperatorSnapshot(keyed=tuple(segments))

    def release(self) -> None:
        if self.view is not None:
            self.view = None
            self.released(self.changes)
        self.timers.release()

    def _write_state(self, state: FrozenEntries, store: SegmentStore) -> Sequence[SegmentHandle]:
        assert self.view is not None
        plan = self._plan(state)
        written: list[SegmentHandle] = []
        if plan.whole is not None:
            written += self._write_whole(state, self.view, plan.whole, store)
        if plan.delta is not None:
            written += self._write_delta(state, self.view, plan, store)
        if self.builds_chains:
            state.increments.written(self.checkpoint_id, plan.chain(self.changes.epoch, written))
        return (*plan.kept, *written)

    def _plan(self, state: FrozenEntries) -> Plan:
        if state.base is None:
            return decide(None, self.owned, (), ())
        changed = np.zeros(self.owned.size, np.int64)
        for entry in self.changes.since(state.base.epoch, state.rows.prefix):
            changed[(entry[2] << 8 | entry[3]) - self.owned.start] += 1
        rows = np.zeros(self.owned.size, np.int64)
        for segment in state.base.segments:  # at most twice too many, since they are rewritten
            first = segment.key_groups.start - self.owned.start
            rows[first : first + segment.key_groups.size] += np.diff(segment.offsets)
        return decide(state.base, self.owned, np.maximum(rows, changed).tolist(), changed.tolist())

    def _write_whole(
        self, state: FrozenEntries, view: View, groups: KeyGroupRange, store: SegmentStore
    ) -> Iterator[SegmentHandle]:
        ttl = state.rows.layout.ttl
        last = self.frozen_ms - ttl.ms if ttl is not None and ttl.in_full_snapshot else None
        wanted = None if state.base is None and state.unloaded is None else groups
        batches = whole_batches(Form(state.rows, state.namespaces, last), view, wanted, state.unloaded)
        about = state.rows.layout.description
        return write_segments(
            store,
            about,
            batches,
            groups,
            is_shared=self.builds_chains,
            batch_rows=columns.BATCH_ENTRIES,
            is_ordered=True,
        )

    def _write_delta(
        self, state: FrozenEntries, view: View, plan: Plan, store: SegmentStore
    ) -> Iterator[SegmentHandle]:
        assert plan.delta is not None
        whole = plan.whole
        entries = (
            entry
            for entry in self.changes.since(plan.delta.since, state.rows.prefix)
            if whole is None or not whole.start <= (entry[2] << 8 | entry[3]) <= whole.end
        )
        batches = changed_batches(Form(state.rows, state.namespaces, has_deleted=True), view, entries)
        return write_segments(
            store,
            state.rows.layout.description,
            batches,
            self.owned,
            plan.delta.level,
            is_shared=self.builds_chains,
            batch_rows=columns.BATCH_ENTRIES,
            is_ordered=True,
        )
