"""Windows snapshotted by their changes restore to what was there when they were frozen, whatever happened between: as if written whole."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.keyed_state.columns.stores import PartsStore, Store
from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import combined_by, plan_of_partials
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.panes.merging import merge
from tidegate.jobmanager.machines.restore.state_assignment import OperatorPlan
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, OperatorState, SnapshotType
from tidegate.model.errors import CorruptData
from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import range_of, subtask_of
from tidegate.taskmanager.machines.state.restoring import EAGER_BYTES
from tidegate.taskmanager.state.files import segment_streams
from tidegate.taskmanager.state.ports import SegmentStore
from tidegate.taskmanager.windows.state import buckets, stored, windows
from tidegate.taskmanager.windows.state import restored as restored_windows
from tidegate.taskmanager.windows.state.appended import Appended
from tidegate.taskmanager.windows.state.files import FrozenWindows, WindowFormat, WindowTimes
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

MAX_PARALLELISM = 16
SIZE_MS = 10
AGGREGATES = (("n", "count", None), ("total", "sum", "v"), ("least", "min", "v"), ("mean", "avg", "v"))
SHARED = CheckpointOptions("chk", shared_location="shared")
SAVEPOINT = CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)
Content = dict[tuple[int, int], tuple[int, int, int]]
"""By (number of the window, key): rows, sum, least."""


IN_MEMORY = WindowMemory()


def state(index: int = 0, parallelism: int = 1, memory: WindowMemory = IN_MEMORY) -> ColumnarWindowState:
    schema = rows_of({}).schema
    plan = plan_of_partials("op", ["k"], AGGREGATES, schema).by_window()

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return merge(plan, parts)

    owned = range_of(index, MAX_PARALLELISM, parallelism)
    form = WindowFormat("op", WINDOW, ("k",), WindowTimes(SIZE_MS, 0), combined_by(AGGREGATES))
    return ColumnarWindowState(form, merged, owned, MAX_PARALLELISM, memory)


def rows_of(content: Content) -> pa.RecordBatch:
    windows, keys = (np.array([entry[i] for entry in content], np.int64) for i in range(2))
    rows, totals, least = (np.array([value[i] for value in content.values()], np.int64) for i in range(3))
    columns = {WINDOW: windows, "k": keys, "n": rows, "total": totals, "least": least}
    return pa.record_batch({**columns, "mean__sum": totals, "mean__count": rows})


def content_of(parts: Iterable[pa.RecordBatch]) -> Content:
    found: Content = {}
    for part in parts:
        columns = [part[name].to_pylist() for name in (WINDOW, "k", "n", "total", "least")]
        for window, key, rows, total, least in zip(*columns, strict=True):
            assert (window, key) not in found
            found[window, key] = (rows, total, least)
    return found


def add(to: Content, more: Content) -> None:
    for entry, (rows, total, least) in more.items():
        old = to.get(entry, (0, 0, least))
        to[entry] = (old[0] + rows, old[1] + total, min(old[2], least))


GROUPS = key_groups(hash_columns([pa.array(range(20_000))]), MAX_PARALLELISM).tolist()


def owner_of(key: int, parallelism: int) -> int:
    return subtask_of(GROUPS[key], MAX_PARALLELISM, parallelism)


@dataclass
class Job:
    """Subtasks with windows, and what they should hold. ``ended``: the last window that has fired here."""

    store: SegmentStore
    parallelism: int
    states: list[ColumnarWindowState] = field(default_factory=list)
    model: Content = field(default_factory=dict)
    ended: int = -1
    memory: WindowMemory = IN_MEMORY

    def __post_init__(self) -> None:
        self.states = [state(index, self.parallelism, self.memory) for index in range(self.parallelism)]

    def add(self, more: Content) -> None:
        add(self.model, more)
        for index, owner in enumerate(self.states):
            mine = {entry: value for entry, value in more.items() if owner_of(entry[1], self.parallelism) == index}
            if mine:
                owner.add(rows_of(mine))

    def fire(self, last: int) -> None:
        self.ended = max(last, self.ended)
        fired = [part for owner in self.states for part in owner.take(last)]
        assert content_of(fired) == {entry: value for entry, value in self.model.items() if entry[0] <= last}
        self.model = {entry: value for entry, value in self.model.items() if entry[0] > last}

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> list[FrozenWindows]:
        frozen = [owner.freeze(checkpoint_id, options) for owner in self.states]
        return [found for found in frozen if isinstance(found, FrozenWindows)]

    def snapshots(self, checkpoint_id: int, options: CheckpointOptions = SHARED) -> dict[int, OperatorSnapshot]:
        """All of it, confirmed at once."""
        found = {i: frozen.write(self.store) for i, frozen in enumerate(self.freeze(checkpoint_id, options))}
        self.confirmed(checkpoint_id)
        return found

    def settle(self, now: bool) -> None:
        for owner in self.states if now else ():
            owner.settle()

    def confirmed(self, checkpoint_id: int) -> None:
        for owner in self.states:
            owner.confirmed(checkpoint_id)


def restored(
    store: Store,
    snapshots: dict[int, OperatorSnapshot],
    old: int,
    parallelism: int,
    checkpoint_id: int | None,
    memory: WindowMemory = IN_MEMORY,
) -> Job:
    job = Job(store, parallelism, memory=memory)
    plan = OperatorPlan(operator_state(snapshots, old), parallelism, MAX_PARALLELISM)
    for index, owner in enumerate(job.states):
        owner.restore(plan.of(index), store, checkpoint_id)
    return job


def operator_state(snapshots: dict[int, OperatorSnapshot], parallelism: int) -> OperatorState:
    return OperatorState(OperatorId("a" * 32), "windows", "op", parallelism, MAX_PARALLELISM, snapshots)


def content(store: Store, snapshots: dict[int, OperatorSnapshot], old: int, parallelism: int) -> Content:
    """What a job at this parallelism would fire at the end of time."""
    job = restored(store, snapshots, old, parallelism, None)
    return content_of(part for owner in job.states for part in owner.take(1 << 40))


def some(rng: random.Random, after: int, count: int, keys: int = 300) -> Content:
    found: Content = {}
    for _ in range(count):
        value = rng.randrange(-100, 100)
        add(found, {(after + rng.randrange(1, 6), rng.randrange(keys)): (1, value, value)})
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "INBOX_ROWS", 64)
    monkeypatch.setattr(buckets, "INBOX_ROWS", 64)
    monkeypatch.setattr(restored_windows, "HELD_BYTES", 2000)
    monkeypatch.setattr(stored, "FEW", 1)
    monkeypatch.setattr(stored, "FEWEST_ROWS", 0)
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 4000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("budget", "is_lazy", "has_parts"),
    [(b, lazy, parts) for lazy, parts in ((False, False), (True, False), (True, True)) for b in (0, 32_000)],
    ids=["", "disk", "lazy", "lazy-disk", "unread", "unread-disk"],
)
@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_restores_to_what_a_whole_snapshot_holds(
    seed: int, budget: int, is_lazy: bool, has_parts: bool, tmp_path: Path
) -> None:
    """``budget``: with memory for a fifth of the state, the rest is on disk: when windows fire, in frozen states, after a restore and a rescale.
    ``is_lazy``: what is restored stays in its files; the expected content is always read from them at once.
    ``has_parts``: windows fire before the files were read."""
    rng = random.Random(seed)
    store = a_store(rng.choice([0, 3000]), seed if is_lazy else 0, has_parts)
    memory, most_on_disk = WindowMemory(budget, str(tmp_path), 0 if is_lazy else EAGER_BYTES), 0
    job = Job(store, rng.randint(1, 3), memory=memory)
    kept: tuple[dict[int, OperatorSnapshot], int, Content, int] | None = None
    """The last confirmed checkpoint: snapshots, parallelism, content, and what had fired."""
    pending: list[tuple[int, list[FrozenWindows], Content, int]] = []
    kinds: Counter[str] = Counter()
    for number in range(1, 40):
        for _ in range(rng.randint(0, 3)):
            job.add(some(rng, job.ended, rng.choice([1, 20, 400])))
            most_on_disk = max(most_on_disk, *(owner.bytes_on_disk for owner in job.states))
        if rng.random() < 0.4:
            job.fire(job.ended + rng.randint(0, 2))
        job.settle(has_parts and rng.random() < 0.1)
        what = rng.random()
        if what < 0.6 and len(pending) < 3:
            pending.append((number, job.freeze(number, SHARED), dict(job.model), job.ended))
        elif what < 0.7:
            frozen = job.freeze(number, SAVEPOINT)
            savepoint = {i: part.write(store) for i, part in enumerate(frozen)}
            assert {s.level for part in savepoint.values() for s in part.keyed} <= {0}
            assert content(store, savepoint, job.parallelism, rng.randint(1, 4)) == job.model
        elif what < 0.8 and kept is not None:
            snapshots, old, expected, ended = kept
            job = restored(store, snapshots, old, rng.randint(1, 4), number, memory)
            job.model, job.ended = dict(expected), rng.choice([ended, ended - 1])
            pending = []
            continue
        if pending and rng.random() < 0.8:
            checkpoint_id, frozen, expected, ended = pending.pop(0)
            if rng.random() < 0.2:
                for part, owner in zip(frozen, job.states, strict=True):
                    part.release()
                    owner.aborted(checkpoint_id)
                continue
            snapshots = {i: part.write(store) for i, part in enumerate(frozen)}
            for parallelism in (job.parallelism, rng.randint(1, 4)):
                assert content(store, snapshots, job.parallelism, parallelism) == expected
            kinds.update("delta" if s.level else "whole" for part in snapshots.values() for s in part.keyed)
            job.confirmed(checkpoint_id)
            kept = (snapshots, job.parallelism, expected, ended)
    assert kinds["whole"]
    assert (most_on_disk > 0) == (budget > 0 or is_lazy)
    SEEN.update(kinds)


def a_store(inline_bytes: int, seed: int, has_parts: bool) -> Store:
    kind = PartsStore if has_parts else Store
    return kind(inline_bytes, maps=seed % 3 > 0, compresses=seed % 3 > 1)


SEEN: Counter[str] = Counter()


def test_the_sequences_had_many_deltas() -> None:
    if SEEN:  # the sequences ran in this process
        assert SEEN["delta"] > SEEN["whole"] // 10


def grown(store: Store, keys: int = 20_000) -> Job:
    job = Job(store, 1)
    job.add({(window, key): (1, key, key) for window in (0, 1) for key in range(keys)})
    return job


def test_a_checkpoint_writes_what_was_added() -> None:
    store = Store()
    job = grown(store)
    job.snapshots(1)
    whole, sizes = store.written_bytes, []
    for number in range(2, 12):
        job.add({(1, key): (1, 1, 1) for key in range(number * 100, number * 100 + 200)})
        before = store.written_bytes
        last = job.snapshots(number)
        sizes.append(store.written_bytes - before)
    assert max(sizes) < 0.05 * whole
    assert sorted({s.level for s in last[0].keyed}) == list(range(11))
    assert content(store, last, 1, 2) == job.model


def test_what_did_not_change_is_named_again_and_nothing_is_written() -> None:
    store = Store()
    job = grown(store)
    first = job.snapshots(1)
    before = store.written_bytes
    assert job.snapshots(2) == first
    assert store.written_bytes == before


def test_windows_that_fired_without_a_new_row_are_gone_after_a_rescale() -> None:
    store = Store()
    job = grown(store)
    job.snapshots(1)
    whole = store.written_bytes
    job.add({(0, 5): (1, 1, 1), (2, 5): (1, 1, 1)})
    job.fire(0)
    snapshots = job.snapshots(2)
    assert store.written_bytes - whole < 0.01 * whole
    assert content(store, snapshots, 1, 3) == job.model
    again = restored(store, snapshots, 1, 2, 2)
    again.model, again.ended = dict(job.model), 0
    named = again.snapshots(3)
    assert content(store, named, 2, 3) == job.model, "also by who only names the files again"


def test_files_hold_little_more_than_what_is_there() -> None:
    store, rng = Store(), random.Random(3)
    job = grown(store, 2000)
    for number in range(1, 100):
        job.add(some(rng, job.ended + 1, 200, 2000))
        if number % 5 == 0:
            job.fire(job.ended + 1)
        snapshots = job.snapshots(number)
        stored = sum(s.offsets[-1] - s.offsets[0] for s in snapshots[0].keyed)
        assert stored <= 2 * job.states[0].rows
    assert len({s.level for s in snapshots[0].keyed}) < 64


def test_what_is_kept_for_a_delta_is_bounded_by_the_state() -> None:
    appended, rows = Appended(), rows_of({(0, key): (1, 1, 1) for key in range(100)})
    appended.begin()
    for state_rows in range(1000, 1500, 100):
        appended.add(rows, state_rows)
        assert appended.since(0) is not None
    assert appended.kept_bytes == 5 * rows.nbytes
    appended.add(rows, 1150)
    assert (appended.since(0), appended.kept_bytes) == (None, 0)
    appended.add(rows, 1 << 20)
    assert appended.kept_bytes == 0, "until the next freeze"
    epoch = appended.freeze(is_incremental=True)
    appended.add(rows, 1 << 20)
    assert appended.since(epoch) == (rows,)


def test_without_incremental_checkpoints_nothing_is_kept() -> None:
    job = grown(Store(), 100)
    alone = replace(SHARED, shared_location="")
    for number in range(1, 4):
        snapshots = job.snapshots(number, alone)
        job.add({(1, 1): (1, 1, 1)})
        assert {s.level for s in snapshots[0].keyed} == {0}
        assert not any(s.handle.is_shared for s in snapshots[0].keyed)
        assert job.states[0]._appended.kept_bytes == 0


@pytest.mark.usefixtures("small")
def test_with_little_memory_what_was_added_is_kept_up_to_a_quarter_of_it(tmp_path: Path) -> None:
    """Beyond that, the next checkpoint is whole, and the one after it a delta again."""
    store, memory = Store(), WindowMemory(400_000, str(tmp_path))
    job = Job(store, 1, memory=memory)
    for at in range(0, 20_000, 1000):
        job.add({(1, key): (1, key, key) for key in range(at, at + 1000)})
    assert job.states[0].bytes_on_disk > 400_000
    levels = []
    for number, added in enumerate([1000, 1000, 4000, 1000], 1):
        job.snapshots(2 * number)
        for at in range(0, added, 1000):
            job.add({(1, key): (1, 1, 1) for key in range(at, at + 1000)})
            assert job.states[0].bytes_kept <= 100_000
        snapshots = job.snapshots(2 * number + 1)
        levels.append(max(segment.level for segment in snapshots[0].keyed))
        assert content(store, snapshots, 1, 2) == job.model
    assert levels[0] == 1
    assert levels[2] == 0, "all of it, since more came than may be kept"
    assert levels[3] == 1


def test_a_delta_that_says_nothing_sensible_is_refused() -> None:
    store = Store()
    job = grown(store, 100)
    job.snapshots(1)
    job.add({(1, 1): (1, 1, 1)})
    job.fire(0)
    snapshots = job.snapshots(2)
    delta = next(s for s in snapshots[0].keyed if s.level)
    table = pa.ipc.open_file(store.files[delta.handle.path]).read_all()
    for told in ('"soon"', "99999999999999999999"):
        metadata = {
            b"tidegate": table.schema.metadata[b"tidegate"].replace(b'"fired_ms": 10', b'"fired_ms": ' + told.encode())
        }
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
            writer.write_table(table.replace_schema_metadata(metadata))
        store.files[delta.handle.path] = sink.getvalue().to_pybytes()
        with pytest.raises(CorruptData, match=f"{delta.handle.path}: 'fired_ms' is"):
            content(store, snapshots, 1, 1)
