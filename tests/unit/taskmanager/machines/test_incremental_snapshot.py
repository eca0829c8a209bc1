"""Increments: whatever is confirmed, aborted and rewritten, base and deltas add up to the state, in bounded space."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tidegate.model.checkpoint import CheckpointOptions, SegmentHandle, StateHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.incremental_snapshot import (
    MAX_LEVELS,
    RESTORED,
    Increments,
    Plan,
    SegmentChain,
    decide,
    restored_chain,
    restricted,
)

OWNED = KeyGroupRange(4, 19)
SHARED = CheckpointOptions("chk", shared_location="shared")


@dataclass
class Heap:
    """State of small numbers, written as the plans say. A file's content is a list of (group, key, value or ``None``)."""

    values: dict[tuple[int, int], int] = field(default_factory=dict)
    epochs: dict[tuple[int, int], int] = field(default_factory=dict)
    """Of every entry that ever changed, removed ones included."""
    epoch: int = 1
    increments: Increments = field(default_factory=Increments)
    files: dict[str, list[tuple[int, int, int | None]]] = field(default_factory=dict)
    written_rows: int = 0

    def change(self, group: int, key: int, value: int | None) -> None:
        self.epochs[group, key] = self.epoch
        if value is None:
            self.values.pop((group, key), None)
        else:
            self.values[group, key] = value

    def snapshot(self, checkpoint_id: int, options: CheckpointOptions = SHARED) -> tuple[SegmentHandle, ...]:
        base = self.increments.begin(options)
        since = base.epoch if base else 0
        rows, changed = [0] * OWNED.size, [0] * OWNED.size
        for group, _ in self.values:
            rows[group - OWNED.start] += 1
        for (group, _), epoch in self.epochs.items():
            changed[group - OWNED.start] += epoch > since
        plan = decide(base, OWNED, rows, changed)
        written = self._write(checkpoint_id, plan)
        self.increments.written(checkpoint_id, plan.chain(self.epoch, written))
        self.epoch += 1
        return (*plan.kept, *written)

    def _write(self, checkpoint_id: int, plan: Plan) -> list[SegmentHandle]:
        whole = plan.whole or KeyGroupRange(0, -1)
        written = []
        self.written_rows = 0
        if plan.whole:
            rows: list[tuple[int, int, int | None]] = [
                (g, k, v) for (g, k), v in self.values.items() if whole.start <= g <= whole.end
            ]
            written.append(self._file(f"{checkpoint_id}-whole", whole, rows, 0))
        if plan.delta:
            changes = [
                (g, k, self.values.get((g, k)))
                for (g, k), epoch in self.epochs.items()
                if epoch > plan.delta.since and not whole.start <= g <= whole.end
            ]
            written.append(self._file(f"{checkpoint_id}-delta", OWNED, changes, plan.delta.level))
        return written

    def _file(
        self, name: str, groups: KeyGroupRange, rows: list[tuple[int, int, int | None]], level: int
    ) -> SegmentHandle:
        rows.sort(key=lambda row: row[:2])
        self.files[name] = rows
        self.written_rows += len(rows)
        offsets = [sum(g < group for g, _, _ in rows) for group in range(groups.start, groups.end + 2)]
        handle = StateHandle(len(rows), "", path=f"shared/{name}", is_shared=True)
        return SegmentHandle("s", groups, tuple(offsets), handle, level)

    def restored(self, segments: tuple[SegmentHandle, ...]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        seen = set()
        for segment in sorted(segments, key=lambda s: s.level):
            rows = self.files[segment.handle.path.removeprefix("shared/")]
            for group in range(segment.key_groups.start, segment.key_groups.end + 1):
                assert (group, segment.level) not in seen, "a level of a key group is there once"
                seen.add((group, segment.level))
                at = group - segment.key_groups.start
                for g, key, value in rows[segment.offsets[at] : segment.offsets[at + 1]]:
                    assert g == group
                    if value is None:
                        found.pop((g, key), None)
                    else:
                        found[g, key] = value
        return found

    def restarted(self, checkpoint_id: int, segments: tuple[SegmentHandle, ...]) -> Heap:
        """The next attempt: it knows what it was restored from, and nothing of when it changed."""
        after = Heap(self.restored(segments), files=self.files)
        chain = restored_chain(segments, OWNED)
        assert chain is not None
        after.increments.restored(checkpoint_id, chain)
        return after


def filled(keys: int = 40) -> Heap:
    heap = Heap()
    for group in range(OWNED.start, OWNED.end + 1):
        for key in range(keys):
            heap.change(group, key, key)
    return heap


@pytest.mark.parametrize("seed", range(30))
def test_a_restore_of_any_checkpoint_is_the_state_that_it_froze(seed: int) -> None:
    rng = random.Random(seed)
    heap = filled(rng.choice([3, 40]))
    confirmed, latest = 0, heap.snapshot(0)
    for checkpoint_id in range(1, 150):
        if rng.random() < 0.1:
            heap = heap.restarted(confirmed, latest)
        for _ in range(rng.choice([0, 1, 5, 20, 200])):
            group, key = rng.randint(*OWNED), rng.randrange(60)
            heap.change(group, key, rng.choice([None, rng.randrange(1000)]))
        options = CheckpointOptions(
            "chk", is_full=rng.random() < 0.05, shared_location="shared", oldest_base_id=max(0, confirmed)
        )
        segments = heap.snapshot(checkpoint_id, options)
        assert heap.restored(segments) == heap.values
        assert len({s.level for s in segments}) <= MAX_LEVELS + 1
        fate = rng.random()
        if fate < 0.6:
            heap.increments.confirmed(checkpoint_id)
            confirmed, latest = checkpoint_id, segments
        elif fate < 0.8:
            heap.increments.aborted(checkpoint_id)


def test_a_state_that_did_not_change_writes_nothing() -> None:
    heap = filled()
    first = heap.snapshot(1)
    heap.increments.confirmed(1)
    assert heap.snapshot(2) == first
    assert heap.written_rows == 0


def test_after_one_percent_changed_less_than_five_percent_are_written() -> None:
    heap, rng = filled(100), random.Random(7)
    heap.snapshot(1)
    heap.increments.confirmed(1)
    kept, written = 0, []
    for checkpoint_id in range(2, 400):
        for _ in range(16):
            heap.change(rng.randint(*OWNED), rng.randrange(100), checkpoint_id)
        segments = heap.snapshot(checkpoint_id)
        heap.increments.confirmed(checkpoint_id)
        written.append(heap.written_rows)
        files = {s.handle.path: s.handle.size_bytes for s in segments}
        kept = max(kept, sum(files.values()))
    assert sum(written) / len(written) < 0.05 * 1600
    assert kept < 2.6 * 1600, "space"


def test_state_that_only_grows_writes_each_row_once() -> None:
    heap, written = Heap(), 0
    for checkpoint_id in range(1, MAX_LEVELS):
        for group in range(OWNED.start, OWNED.end + 1):
            heap.change(group, checkpoint_id, checkpoint_id)
        segments = heap.snapshot(checkpoint_id)
        assert heap.restored(segments) == heap.values
        heap.increments.confirmed(checkpoint_id)
        written += heap.written_rows
    assert written == len(heap.values)


def test_removed_entries_go_away_in_time() -> None:
    heap = filled(100)
    heap.snapshot(1)
    heap.increments.confirmed(1)
    for checkpoint_id in range(2, 52):
        for group in range(OWNED.start, OWNED.end + 1):
            heap.change(group, checkpoint_id, None)
        segments = heap.snapshot(checkpoint_id)
        heap.increments.confirmed(checkpoint_id)
    assert heap.restored(segments) == heap.values
    assert sum(segment.offsets[-1] - segment.offsets[0] for segment in segments) <= 2 * len(heap.values)


def test_what_is_not_confirmed_or_no_longer_kept_is_not_built_upon() -> None:
    increments, chain = Increments(), SegmentChain(1, ())
    assert increments.begin(SHARED) is None
    increments.written(3, chain)
    assert increments.begin(SHARED) is None, "only written"
    increments.confirmed(3)
    assert increments.begin(SHARED) is chain
    assert increments.begin(CheckpointOptions("chk", shared_location="shared", oldest_base_id=4)) is None
    assert increments.begin(CheckpointOptions("chk", shared_location="shared", is_full=True)) is None
    assert increments.begin(CheckpointOptions("chk")) is None, "a savepoint"
    increments.written(4, SegmentChain(2, ()))
    increments.aborted(4)
    increments.confirmed(4)
    assert increments.begin(SHARED) is chain


def test_many_small_deltas_become_one() -> None:
    heap, levels = filled(400), []
    heap.snapshot(1)
    heap.increments.confirmed(1)
    for checkpoint_id in range(2, 3 * MAX_LEVELS):
        heap.change(OWNED.start, checkpoint_id % 3, checkpoint_id)
        segments = heap.snapshot(checkpoint_id)
        assert heap.restored(segments) == heap.values
        heap.increments.confirmed(checkpoint_id)
        levels.append(len({s.level for s in segments}))
        assert heap.written_rows <= MAX_LEVELS
    assert max(levels) == MAX_LEVELS + 1
    assert min(levels[MAX_LEVELS:]) < 5


def test_after_a_restart_the_first_snapshot_writes_what_changed_and_restored_levels_go_away_in_time() -> None:
    heap = filled(100)
    segments = heap.snapshot(1)
    heap.increments.confirmed(1)
    for checkpoint_id in range(2, 300):
        heap.change(OWNED.start + checkpoint_id % OWNED.size, checkpoint_id % 100, checkpoint_id)
        if checkpoint_id % 3 == 0:
            heap = heap.restarted(checkpoint_id - 1, segments)
            heap.change(OWNED.start, 0, checkpoint_id)
        segments = heap.snapshot(checkpoint_id)
        assert heap.restored(segments) == heap.values
        assert len({s.level for s in segments}) <= MAX_LEVELS + 1
        heap.increments.confirmed(checkpoint_id)
        if checkpoint_id < MAX_LEVELS:
            assert heap.written_rows < 1600 / 3
    chain = restored_chain(segments, KeyGroupRange(OWNED.start, OWNED.start + 1))
    assert chain is not None
    assert {delta.since for delta in chain.deltas} == {RESTORED}
    assert all(s.key_groups.end <= OWNED.start + 1 for s in chain.segments)


def test_files_that_belong_to_one_checkpoint_are_not_built_upon() -> None:
    own = SegmentHandle("s", KeyGroupRange(4, 4), (0, 1), StateHandle(1, "", path="chk-1/x"))
    inline = SegmentHandle("s", KeyGroupRange(5, 5), (0, 1), StateHandle(1, "", data=b"x"))
    assert restored_chain([own, inline], OWNED) is None
    assert restored_chain([own, inline], KeyGroupRange(5, 9)) == SegmentChain(0, (inline,), (), 5)


def test_a_restriction_keeps_the_file_and_narrows_the_index() -> None:
    handle = StateHandle(9, "", path="x")
    segment = SegmentHandle("s", KeyGroupRange(4, 7), (0, 2, 3, 3, 9), handle, 2)
    narrow = restricted(segment, KeyGroupRange(5, 6))
    assert narrow == SegmentHandle("s", KeyGroupRange(5, 6), (2, 3, 3), handle, 2)
