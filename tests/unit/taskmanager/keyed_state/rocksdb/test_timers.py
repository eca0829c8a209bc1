"""Timers in RocksDB against those on the heap: the same answers, the same snapshots, each restored by the other one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.keyed_state.columns.test_keyed import SHARED, Store
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, SnapshotType, StateHandle
from tidegate.model.errors import InvalidJob
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.records.canonical.forms import canonical_key
from tidegate.store.verified_file import VerifiedContent
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.rocksdb import changes as rocksdb_changes
from tidegate.taskmanager.keyed_state.rocksdb import columns as rocksdb_columns
from tidegate.taskmanager.keyed_state.rocksdb import unloaded_timers
from tidegate.taskmanager.keyed_state.rocksdb.timers import RocksTimers
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, Timer, TimerSet
from tidegate.taskmanager.state.files import segment_streams
from tidegate.taskmanager.state.files.segments import read_keyed

ALL = KeyGroupRange(2, 9)
HALVES = (KeyGroupRange(2, 5), KeyGroupRange(6, 9))
SAVEPOINT = CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)
HASHMAP = {"state.backend.type": "hashmap"}
ON_HEAP = {"state.backend.type": "rocksdb", "state.backend.rocksdb.timer-service.factory": "HEAP"}
KEYS: dict[str, tuple[TypeInformation, list[Any]]] = {
    "texts": (Types.STRING(), [f"k{i}" for i in range(30)]),
    "numbers": (Types.LONG(), [-(2**63), -1, 0, 1, 2**40, *range(100, 125)]),
    "anything": (Types.PICKLED_BYTE_ARRAY(), ["a", 1, ("a", 1), None, 2.5, b"x", frozenset({"y"})]),
}
NAMESPACES: dict[str, list[Any]] = {
    "texts": [None],
    "numbers": [TimeWindow(0, 10), TimeWindow(5, 15), TimeWindow(-5, 5)],
    "anything": [None, CountWindow(3), "session"],
}
TIMES = [MIN_TIMESTAMP, -5, -1, 0, 1, 2, 255, 256, 2**40, 2**63 - 1, *range(1000, 1040)]
Due = tuple[int, int, str, str]


def on_disk(cached: int) -> dict[str, str]:
    return {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.rocksdb.timer-service.cache-size": str(cached),
    }


class OpenStore(Store):
    """Its files can be read in parts, so timers stay there."""

    def open(self, handle: StateHandle, directory: str = "") -> VerifiedContent:
        return VerifiedContent(self.read(handle))


class Timers:
    """The event-time timers of one subtask."""

    def __init__(
        self,
        texts: dict[str, str],
        directory: Path,
        kind: str,
        owned: KeyGroupRange = ALL,
        restored: tuple[OperatorSnapshot, Store, int] | None = None,
    ) -> None:
        place = BackendPlace(texts, str(directory), 0, 0, restored[2] if restored else None, lambda: 0)
        self.backend: KeyedBackend = open_keyed_backend(place, "op", owned, KEYS[kind][0])
        if restored is not None:
            self.backend.restore(RestoredOperator(keyed=restored[0].keyed), restored[1])
        self.timers: TimerSet = self.backend.timers(EVENT_TIMERS)

    def due(self, time_ms: int) -> list[Due]:
        """In the order of their time, and of what they are where that is the same."""
        found = []
        while (timer := self.timers.poll(time_ms)) is not None:
            found.append(told(timer))
        assert [due[0] for due in found] == sorted(due[0] for due in found)
        return sorted(found)

    def snapshot(self, checkpoint_id: int, store: Store, options: CheckpointOptions = SHARED) -> OperatorSnapshot:
        frozen = self.backend.freeze(checkpoint_id, options)
        if self.backend.loads_later:
            self.backend.load_some()  # what is loaded meanwhile does not belong to it
        written = frozen.write(store)
        frozen.release()
        return written

    def check(self) -> None:
        if isinstance(self.timers, RocksTimers):
            self.timers.check_invariants()


def told(timer: Timer) -> Due:
    return timer.timestamp, timer.group, repr(timer.key), repr(timer.namespace)


def some_timer(rng: random.Random, kind: str, owned: KeyGroupRange = ALL) -> Timer:
    key = canonical_key(rng.choice(KEYS[kind][1]))
    group = ALL.start + sum(repr(key).encode()) % ALL.size
    if not owned.start <= group <= owned.end:
        return some_timer(rng, kind, owned)
    return Timer(rng.choice(TIMES), key, group, rng.choice(NAMESPACES[kind]))


def rows_of(snapshot: OperatorSnapshot, store: Store) -> tuple[pa.Schema | None, list[tuple[Any, ...]]]:
    """Columns and rows of a snapshot of one level; rows of a key group are in no order."""
    schema, rows = None, list[tuple[Any, ...]]()
    for segment in snapshot.keyed:
        assert (segment.state_name, segment.level) == (EVENT_TIMERS, 0)
        groups, data = read_keyed(store, segment, ALL)
        schema = data.schema
        rows += [(group, *row.values()) for group, row in zip(groups.tolist(), data.to_pylist(), strict=True)]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    return schema, sorted(rows, key=repr)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_changes, "SPILL_AT", 16)
    monkeypatch.setattr(rocksdb_columns, "BATCH_ENTRIES", 20)
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 600)


def act(rng: random.Random, other: random.Random, kind: str, disk: Timers, heap: Timers) -> None:
    """Registers and deletes some timers in both."""
    for _ in range(rng.choice([0, 5, 10, 60, 400])):
        timer = some_timer(rng, kind)
        if disk.backend.rows_to_load and other.random() < 0.1:
            disk.backend.load_some()
        if rng.random() < 0.35:
            disk.timers.remove(timer)
            heap.timers.remove(timer)
        else:
            disk.timers.add(timer)
            heap.timers.add(timer)
        if rng.random() < 0.2:
            assert disk.timers.first_timestamp() == heap.timers.first_timestamp()


@pytest.mark.parametrize("cached", [1, 2, 5, 128])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [Store, OpenStore])
def test_timers_on_disk_are_those_on_the_heap(
    kind: str, cached: int, seed: int, make: type[Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unloaded_timers, "STEP_TIMERS", 2)
    rng, other = random.Random(f"{kind} {cached} {seed}"), random.Random(seed)
    disk, heap = Timers(on_disk(cached), tmp_path, kind), Timers(HASHMAP, tmp_path, kind)
    store, levels, restores, left = make(), set[int](), 0, 0
    for checkpoint_id in range(1, 40):
        act(rng, other, kind, disk, heap)
        disk.check()
        if rng.random() < 0.5:
            time_ms = rng.choice(TIMES)
            assert disk.due(time_ms) == heap.due(time_ms)
            disk.check()
        if rng.random() < 0.2:
            assert rows_of(disk.snapshot(checkpoint_id, store, SAVEPOINT), store) == rows_of(
                heap.snapshot(checkpoint_id, store, SAVEPOINT), store
            )
            continue
        first, second = disk.snapshot(checkpoint_id, store), heap.snapshot(checkpoint_id, store)
        levels |= {segment.level for segment in first.keyed}
        if rng.random() < 0.7:
            disk.backend.confirmed(checkpoint_id)
            heap.backend.confirmed(checkpoint_id)
            if rng.random() < 0.25:
                restores += 1
                disk.backend.close()
                if rng.random() < 0.3:
                    first, second = second, first
                disk = Timers(on_disk(cached), tmp_path, kind, restored=(first, store, checkpoint_id))
                heap = Timers(HASHMAP, tmp_path, kind, restored=(second, store, checkpoint_id))
                disk.check()
                left += disk.backend.rows_to_load
                if other.random() < 0.3:
                    assert disk.timers.last_timestamp() == heap.timers.last_timestamp()
        elif rng.random() < 0.5:
            disk.backend.aborted(checkpoint_id)
            heap.backend.aborted(checkpoint_id)
    assert disk.due(2**63 - 1) == heap.due(2**63 - 1)
    assert disk.timers.first_timestamp() is heap.timers.first_timestamp() is None
    assert disk.timers.last_timestamp() == MIN_TIMESTAMP
    assert restores > 1
    assert len(levels) > 1, "some were written as what had changed"
    assert left == 0 or make is OpenStore
    assert left > 0 or make is Store or kind == "anything" or cached > 2
    disk.backend.close()


@pytest.mark.parametrize("texts", [HASHMAP, on_disk(3)], ids=["hashmap", "disk"])
@pytest.mark.parametrize("kind", KEYS)
def test_timers_of_one_time_come_together_in_the_order_in_which_they_come_alone(
    kind: str, texts: dict[str, str], tmp_path: Path
) -> None:
    """Timers that are added together are those that are added one by one, and a removed one that is added again is one timer."""
    rng, store = random.Random(kind), Store()
    alone, together = Timers(texts, tmp_path, kind), Timers(texts, tmp_path, kind)
    for _ in range(20):
        added = [some_timer(rng, kind) for _ in range(20)]
        by_time: dict[int, list[Timer]] = {}
        for timer in added:
            by_time.setdefault(timer.timestamp, []).append(Timer(timer.timestamp, timer.key, timer.group, None))
        for timestamp, timers in by_time.items():
            for timer in timers:
                alone.timers.add(timer)
            together.timers.add_all(timestamp, [timer.key for timer in timers], [timer.group for timer in timers])
        for timer in rng.sample(added, 5):
            gone = Timer(timer.timestamp, timer.key, timer.group, None)
            for one in (alone, together):
                one.timers.remove(gone)
                if timer.timestamp % 2:
                    one.timers.add(gone)
        assert rows_of(alone.snapshot(1, store, SAVEPOINT), store) == rows_of(
            together.snapshot(1, store, SAVEPOINT), store
        )
        time_ms = rng.choice(TIMES)
        found: list[Due] = []
        while (due := together.timers.poll_all(time_ms)) is not None:
            assert due.keys
            found += [told(Timer(due.timestamp, *place, None)) for place in zip(due.keys, due.groups, strict=True)]
        one_by_one: list[Due] = []
        while (first := alone.timers.poll(time_ms)) is not None:
            one_by_one.append(told(first))
        assert found == one_by_one
        assert together.timers.first_timestamp() == alone.timers.first_timestamp()
    alone.backend.close()
    together.backend.close()


@pytest.mark.parametrize("texts", [HASHMAP, ON_HEAP, on_disk(3)], ids=["hashmap", "heap", "disk"])
@pytest.mark.parametrize("kind", KEYS)
def test_timers_are_dealt_to_two_subtasks_and_back(kind: str, texts: dict[str, str], tmp_path: Path) -> None:
    rng, store = random.Random(kind), Store()
    one = Timers(on_disk(3), tmp_path, kind)
    expected = set()
    for _ in range(300):
        timer = some_timer(rng, kind)
        one.timers.add(timer)
        expected.add(told(timer))
    whole = one.snapshot(1, store)
    halves = [Timers(texts, tmp_path, kind, half, (whole, store, 1)) for half in HALVES]
    assert all(part.timers.last_timestamp() > MIN_TIMESTAMP for part in halves)
    parts = [part.snapshot(2, store) for part in halves]
    joined = OperatorSnapshot(keyed=tuple(segment for part in parts for segment in part.keyed))
    again = Timers(on_disk(3), tmp_path, kind, restored=(joined, store, 2))
    again.check()
    assert again.due(2**63 - 1) == sorted(expected)
    assert sorted(due for part in halves for due in part.due(2**63 - 1)) == sorted(expected)
    for timers in (one, again, *halves):
        timers.backend.close()


def test_a_snapshot_holds_what_was_there_when_it_was_frozen(tmp_path: Path) -> None:
    timers, store, rng = Timers(on_disk(4), tmp_path, "texts"), Store(), random.Random(1)
    for _ in range(200):
        timers.timers.add(some_timer(rng, "texts"))
    before = Timers(HASHMAP, tmp_path, "texts", restored=(timers.snapshot(1, store, SAVEPOINT), store, 1)).due(
        2**63 - 1
    )
    frozen = timers.backend.freeze(2, SAVEPOINT)
    assert timers.due(2**63 - 1) == before
    timers.timers.add(Timer(7, "later", ALL.start, None))
    after = Timers(HASHMAP, tmp_path, "texts", restored=(frozen.write(store), store, 2))
    frozen.release()
    assert after.due(2**63 - 1) == before
    timers.backend.close()


def test_one_that_is_registered_again_writes_nothing_and_fires_once(tmp_path: Path) -> None:
    timers = Timers(on_disk(2), tmp_path, "texts")
    for _ in range(3):
        for at_ms in (5, 1, 9, 7):  # beyond what is in memory, too
            timers.timers.add(Timer(at_ms, "k", ALL.start, None))
    assert [due[0] for due in timers.due(100)] == [1, 5, 7, 9]
    timers.backend.close()


def test_a_time_of_more_than_64_bits_is_refused(tmp_path: Path) -> None:
    timers = Timers(on_disk(2), tmp_path, "texts")
    with pytest.raises(InvalidJob, match="operator 'op': a timer at 9223372036854775808 is out of range"):
        timers.timers.add(Timer(2**63, "k", ALL.start, None))
    timers.backend.close()
