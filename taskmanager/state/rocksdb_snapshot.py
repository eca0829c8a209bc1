"""A snapshot of the ``rocksdb`` backend: a view of the database, taken at the barrier, walked through by the snapshot thread.

    freeze ─▶ view, sealed changes │ for each state: decide (whole? delta? kept?) ─▶ segments streamed to the store │ release

Freezing copies nothing and does no I/O. A whole state is cut at key groups into files of about ``SEGMENT_BYTES``, so that
neither side ever holds more of it than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from taskmanager.machines.increments import Chain, Increments, Plan, decide, restricted
from taskmanager.state.base import FrozenState, SegmentStore
from taskmanager.state.rocksdb_changes import SealedChanges
from taskmanager.state.rocksdb_columns import Form, changed_batches, whole_batches
from taskmanager.state.rocksdb_database import View
from taskmanager.state.rocksdb_restore import UnclaimedState
from taskmanager.state.rocksdb_tables import StateRows
from taskmanager.state.segment_streams import Rows, SegmentStream
from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle
from tidegate.model.keygroups import KeyGroupRange

SEGMENT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class FrozenRows:
    """One state. ``base``: what the snapshot may build upon."""

    rows: StateRows
    namespaces: frozenset[int]
    increments: Increments
    base: Chain | None


@dataclass(slots=True)
class FrozenRocks(FrozenState):
    """``timers``: those are on the heap. ``builds_chains``: later checkpoints may refer to what this one writes."""

    checkpoint_id: int
    owned: KeyGroupRange
    view: View | None
    changes: SealedChanges
    states: Sequence[FrozenRows]
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

    def _write_state(self, state: FrozenRows, store: SegmentStore) -> Sequence[SegmentHandle]:
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

    def _plan(self, state: FrozenRows) -> Plan:
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
        self, state: FrozenRows, view: View, groups: KeyGroupRange, store: SegmentStore
    ) -> Iterator[SegmentHandle]:
        ttl = state.rows.layout.ttl
        last = self.frozen_ms - ttl.ms if ttl is not None and ttl.in_full_snapshot else None
        batches = _Cut(
            whole_batches(Form(state.rows, state.namespaces, last), view, None if state.base is None else groups)
        )
        first = groups.start
        while batches.next_group is not None:
            stream = SegmentStream(state.rows.layout.description, KeyGroupRange(first, groups.end))
            written = stream.write(store, batches.part(), is_shared=self.builds_chains)
            end = groups.end if batches.next_group is None else batches.next_group - 1
            yield restricted(written, KeyGroupRange(first, end))
            first = end + 1

    def _write_delta(self, state: FrozenRows, view: View, plan: Plan, store: SegmentStore) -> Iterator[SegmentHandle]:
        assert plan.delta is not None
        whole = plan.whole
        entries = (
            entry
            for entry in self.changes.since(plan.delta.since, state.rows.prefix)
            if whole is None or not whole.start <= (entry[2] << 8 | entry[3]) <= whole.end
        )
        batches = changed_batches(Form(state.rows, state.namespaces, has_deleted=True), view, entries)
        stream = SegmentStream(state.rows.layout.description, self.owned, plan.delta.level)
        first = next(batches, None)
        if first is not None:
            yield stream.write(store, _chain(first, batches), is_shared=self.builds_chains)


class _Cut:
    """Batches in parts of about ``SEGMENT_BYTES`` that end where a key group ends. A batch may be cut in two for that."""

    def __init__(self, batches: Iterator[Rows]) -> None:
        self._batches = batches
        self._next = next(batches, None)

    @property
    def next_group(self) -> int | None:
        """Where the next part begins; ``None`` at the end."""
        return None if self._next is None else int(self._next[0][0])

    def part(self) -> Iterator[Rows]:
        size, last = 0, -1
        while self._next is not None:
            groups, data = self._next
            if size >= SEGMENT_BYTES:
                at = int(np.searchsorted(groups, last, side="right"))
                if at < len(groups):
                    self._next = (groups[at:], data.slice(at))
                    if at:
                        yield groups[:at], data.slice(0, at)
                    return
            size, last = size + data.nbytes, int(groups[-1])
            self._next = next(self._batches, None)
            yield groups, data


def _chain(first: Rows, rest: Iterator[Rows]) -> Iterator[Rows]:
    yield first
    yield from rest
