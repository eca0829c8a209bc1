"""Tables of Python objects: incremental snapshots restore to what was frozen, whatever goes on while they are written."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.keyed_state.columns.test_keyed import SHARED, Store
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import TimeWindow
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, SnapshotType
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.heap import snapshot as heap_snapshot
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.state.files import segment_streams

OWNED = KeyGroupRange(2, 9)
Model = dict[tuple[int, Any], Any]


class State:
    """Three states of one backend, and what they should hold."""

    def __init__(
        self, restored: OperatorSnapshot | None = None, store: Store | None = None, restored_id: int | None = None
    ) -> None:
        self.backend = KeyedStateBackend("op", OWNED, Types.STRING(), restored_checkpoint_id=restored_id)
        if restored is not None:
            assert store is not None
            self.backend.restore(RestoredOperator(keyed=restored.keyed), store)
        self.tables = {
            "value": self.backend.table("value", "value", Types.LONG()),
            "list": self.backend.table("list", "list", Types.LIST(Types.LONG())),
            "window": self.backend.table("window", "reducing", Types.PICKLED_BYTE_ARRAY()),
            "timers": self.backend.table("timers", "timers", None),
        }

    def change(self, rng: random.Random) -> None:
        name, key = rng.choice(list(self.tables)), f"k{rng.randrange(60)}"
        group = OWNED.start + sum(map(ord, key)) % OWNED.size
        space: Any = {
            "window": TimeWindow(rng.randrange(3), 9),
            "timers": (rng.randrange(4), None),
        }.get(name)
        table = self.tables[name]
        if rng.random() < 0.3:
            table.delete(group, (key, space))
        elif name == "list":
            found = table.read(group, (key, space)) or []
            found.append(rng.randrange(100))
            table.write(group, (key, space), found)
        else:
            table.write(group, (key, space), True if name == "timers" else rng.randrange(1000))

    def content(self) -> dict[str, Model]:
        return {
            name: {(group, entry): repr(value) for group, entry, value in table.entries()}
            for name, table in self.tables.items()
        }


@pytest.mark.parametrize("seed", range(8))
def test_increments_restore_to_what_was_frozen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_snapshot, "PIECE_ENTRIES", 20)
    monkeypatch.setattr(segment_streams, "FILE_BYTES", (64 << 20, 500)[seed % 2])
    rng = random.Random(seed)
    live = State()

    def meanwhile() -> None:
        if rng.random() < 0.2:
            live.change(rng)
            live.backend.merge_some()

    store, levels = Store(meanwhile), set()
    for _ in range(400):
        live.change(rng)
    for checkpoint_id in range(1, 40):
        expected = live.content()
        options = SHARED
        if rng.random() < 0.1:
            options = CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)
        frozen = live.backend.freeze(checkpoint_id, options)
        for _ in range(rng.choice([0, 10])):
            live.change(rng)
        snapshot = frozen.write(store)
        frozen.release()
        levels |= {segment.level for segment in snapshot.keyed}
        assert State(snapshot, store).content() == expected
        if options is SHARED and rng.random() < 0.7:
            live.backend.confirmed(checkpoint_id)
        elif rng.random() < 0.5:
            live.backend.aborted(checkpoint_id)
        for _ in range(rng.choice([0, 3, 15, 100])):
            live.change(rng)
    assert len(levels) > 3


def test_state_that_nobody_asks_for_is_written_again_without_its_levels() -> None:
    live, store, rng = State(), Store(), random.Random(1)
    for checkpoint_id in (1, 2, 3):
        for _ in range(400 if checkpoint_id == 1 else 20):
            live.change(rng)
        expected = live.content()
        frozen = live.backend.freeze(checkpoint_id, SHARED)
        snapshot = frozen.write(store)
        frozen.release()
        live.backend.confirmed(checkpoint_id)
    assert {segment.level for segment in snapshot.keyed} > {0}
    silent = KeyedStateBackend("op", OWNED, Types.STRING())
    silent.restore(RestoredOperator(keyed=snapshot.keyed), store)
    again = silent.freeze(4, SHARED).write(store)
    assert {segment.level for segment in again.keyed} == {0}
    assert State(again, store).content() == expected


@pytest.mark.parametrize(("gone", "batches"), [([], 1), ([3], 2)])
def test_changes_of_all_key_groups_are_one_batch_unless_entries_were_removed(gone: list[int], batches: int) -> None:
    live, store = State(), Store()
    table = live.tables["value"]
    for number in range(160):
        table.write(OWNED.start + number % OWNED.size, (f"k{number}", None), number)
    live.backend.freeze(1, SHARED).write(store)
    live.backend.confirmed(1)
    for number in range(OWNED.size):
        if number in gone:
            table.delete(OWNED.start + number, (f"k{number}", None))
        else:
            table.write(OWNED.start + number, (f"k{number}", None), -number)
    expected = live.content()
    snapshot = live.backend.freeze(2, SHARED).write(store)
    (delta,) = [segment for segment in snapshot.keyed if segment.level]
    assert pa.ipc.open_file(pa.py_buffer(store.read(delta.handle))).num_record_batches == batches
    assert State(snapshot, store).content() == expected


def test_state_that_did_not_change_is_named_again() -> None:
    live, store, rng = State(), Store(), random.Random(2)
    for _ in range(200):
        live.change(rng)
    first = live.backend.freeze(1, SHARED).write(store)
    live.backend.confirmed(1)
    files = len(store.files)
    assert live.backend.freeze(2, SHARED).write(store) == first
    assert len(store.files) == files


def test_the_first_snapshot_after_a_restore_builds_upon_it() -> None:
    live, store, rng = State(), Store(), random.Random(3)
    snapshot, files = OperatorSnapshot(), set[str]()
    for checkpoint_id in range(1, 8):
        for _ in range(600 if checkpoint_id == 1 else 12):
            live.change(rng)
        frozen = live.backend.freeze(checkpoint_id, SHARED)
        snapshot = frozen.write(store)
        frozen.release()
        live.backend.confirmed(checkpoint_id)
        if checkpoint_id % 2 == 0:
            live = State(snapshot, store, checkpoint_id)
        assert State(snapshot, store).content() == live.content()
        assert checkpoint_id == 1 or {s.handle.path for s in snapshot.keyed} & files, "something is named again"
        files = {s.handle.path for s in snapshot.keyed}
