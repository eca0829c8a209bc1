"""Columnar keyed state: what is frozen never changes, whatever is written meanwhile; what is written is what was frozen."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.table.reserved import RowMemory
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, SnapshotType, StateHandle
from tidegate.model.errors import CorruptData, NoResourceAvailable, SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.keyed_state.columns.snapshot import FrozenColumnarState
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState
from tidegate.taskmanager.state.files import segment_streams

MAX_PARALLELISM = 16
OWNED = KeyGroupRange(0, 15)
KEYS = [pa.field("k", pa.int64())]
VALUES = [pa.field("total", pa.int64(), nullable=False), pa.field("least", pa.float64())]
SHARED = CheckpointOptions("chk", shared_location="shared")
memory = RowMemory()
Content = dict[int, tuple[int, float | None]]


class Store:
    """Files in memory; ``between`` is called whenever a part was taken."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.written_bytes = 0
        self.compresses = False
        self.between = between

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        held = []
        for part in parts:
            held.append(bytes(part))
            self.between()
        name, content = f"{len(self.files)}-{is_shared}", b"".join(held)
        self.files[name] = content
        self.written_bytes += len(content)
        return StateHandle(len(content), xxhash.xxh3_64_hexdigest(content), path=name, is_shared=is_shared)

    def read(self, handle: StateHandle) -> memoryview:
        self.reads.append(handle.path)
        return memoryview(self.files[handle.path])


def state(keys: Sequence[pa.Field] = KEYS, owned: KeyGroupRange = OWNED, capacity: int = 1 << 16) -> ColumnarKeyedState:
    return ColumnarKeyedState("op", keys, VALUES, owned, MAX_PARALLELISM, memory=replace(memory, capacity=capacity))


def write(to: ColumnarKeyedState, model: Content, changes: Mapping[int, tuple[int, float | None]]) -> None:
    model.update(changes)
    located = to.rows.locate([pa.array(list(changes), pa.int64())])
    totals = np.array([total for total, _ in changes.values()], np.int64)
    nulls = np.array([least is None for _, least in changes.values()], np.bool_)
    leasts = np.array([least or 0.0 for _, least in changes.values()], np.float64)
    to.rows.put(located, [(totals, None), (leasts, nulls)])


def content(of: ColumnarKeyedState, model: Content) -> Content:
    """Of the keys in ``model``, as the state has them now."""
    located = of.rows.locate([pa.array(list(model), pa.int64())])
    assert not located.is_new.any()
    (totals, _), (leasts, nulls) = of.rows.values.take(located.slots)
    assert nulls is not None
    return {
        key: (total, None if null else least)
        for key, total, least, null in zip(model, totals.tolist(), leasts.tolist(), nulls.tolist(), strict=True)
    }


def restored(store: Store, *snapshots: OperatorSnapshot, owned: KeyGroupRange = OWNED) -> ColumnarKeyedState:
    found = state(owned=owned)
    keyed = tuple(segment for snapshot in snapshots for segment in snapshot.keyed)
    found.restore(RestoredOperator(keyed=keyed), store)
    return found


def some(rng: random.Random, count: int, keys: int = 3000) -> Content:
    return {rng.randrange(keys): (rng.randrange(1 << 40), rng.choice([None, rng.random()])) for _ in range(count)}


@pytest.fixture(autouse=True, params=[0, 20_000], ids=["in memory", "mostly in a file"])
def budget_and_small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules[__name__], "memory", RowMemory(request.param, str(tmp_path)))
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.snapshot.PIECE_ROWS", 64)
    monkeypatch.setattr("tidegate.columnar.table.values.FOLD_ROWS", 50)


@pytest.mark.parametrize("seed", range(6))
def test_overlapping_snapshots_hold_what_was_frozen_while_everything_changes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(segment_streams, "FILE_BYTES", 4000)
    rng = random.Random(seed)
    live, model = state(), Content()
    waiting: list[tuple[FrozenColumnarState, Content]] = []
    decided = 0

    def meanwhile() -> None:
        if rng.random() < 0.03:
            write(live, model, some(rng, rng.choice([1, 40])))
        if rng.random() < 0.003 and len(waiting) < 3:
            freeze()

    def freeze() -> None:
        nonlocal decided
        decided += 1
        options = CheckpointOptions("chk", shared_location=rng.choice(["", "shared", "shared"]))
        waiting.append((live.freeze(decided, options), dict(model)))
        ids.append(decided)

    ids: list[int] = []
    store = Store(meanwhile)
    for _ in range(6):
        write(live, model, some(rng, rng.choice([1, 100, 1500])))
        freeze()
        while waiting:
            frozen, expected = waiting[0]
            if rng.random() < 0.1:  # the write was canceled
                frozen.release()
            else:
                snapshot = frozen.write(store)
                assert content(restored(store, snapshot), expected) == expected
                assert len(restored(store, snapshot).rows) == len(expected)
                frozen.release()
                if rng.random() < 0.7:
                    live.increments.confirmed(ids[0])
            waiting.pop(0)
            ids.pop(0)
            assert content(live, model) == model
    for _ in range(400):
        write(live, model, some(rng, 1))
    assert live.rows.values.overlay_rows == 0, "everything is merged in the end, some rows at a time"
    assert content(live, model) == model


def test_without_a_snapshot_there_is_no_overlay() -> None:
    live, model = state(), Content()
    write(live, model, some(random.Random(1), 500))
    frozen = live.freeze(1, None)
    write(live, model, some(random.Random(2), 500))
    assert live.rows.values.overlay_rows > 0
    frozen.release()
    while live.rows.values.overlay_rows:
        write(live, model, {5: (5, None)})
    assert content(live, model) == model


def test_a_group_is_merged_as_soon_as_it_is_written() -> None:
    live, model = state(), Content()
    write(live, model, {key: (key, None) for key in range(2000)})
    overlays: list[int] = []

    def meanwhile() -> None:
        write(live, model, dict.fromkeys(range(2000), (7, 0.5)))
        overlays.append(live.rows.values.overlay_rows)

    frozen = live.freeze(1, None)
    frozen.write(Store(meanwhile))
    assert overlays[0] > 1500
    assert overlays[-1] == 0, "before the snapshot is released"


def test_increments_are_small_and_a_rescaled_restore_reads_them() -> None:
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(20_000)})
    first = live.freeze(1, SHARED)
    first.write(store)
    first.release()
    live.increments.confirmed(1)
    full, sizes = store.written_bytes, []
    for checkpoint_id in range(2, 12):
        write(live, model, dict.fromkeys(range(checkpoint_id * 100, checkpoint_id * 100 + 200), (checkpoint_id, 1.0)))
        frozen, before = live.freeze(checkpoint_id, SHARED), store.written_bytes
        snapshot = frozen.write(store)
        frozen.release()
        live.increments.confirmed(checkpoint_id)
        sizes.append(store.written_bytes - before)
    assert max(sizes) < 0.12 * full
    halves = [restored(store, snapshot, owned=owned) for owned in (KeyGroupRange(0, 6), KeyGroupRange(7, 15))]
    assert sum(len(half.rows) for half in halves) == len(model)
    whole = restored(store, snapshot)
    assert content(whole, model) == model
    again = whole.freeze(12, CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)).write(store)
    assert {s.level for s in again.keyed} == {0}
    assert not any(s.handle.is_shared for s in again.keyed)


def test_large_state_is_several_files_that_share_no_key_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 10_000)
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(5000)})
    snapshot = live.freeze(1, SHARED).write(store)
    assert len(snapshot.keyed) == len(store.files) > 4
    ranges = [segment.key_groups for segment in snapshot.keyed]
    assert ranges[0].start == OWNED.start
    assert ranges[-1].end == OWNED.end
    assert all(left.end + 1 == right.start for left, right in itertools.pairwise(ranges))
    group_bytes = 2 * store.written_bytes / OWNED.size
    assert all(len(content) < 10_000 + group_bytes for content in store.files.values())
    assert content(restored(store, snapshot), model) == model


def test_a_key_group_that_is_larger_than_a_file_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 1)
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(5000)})
    snapshot = live.freeze(1, SHARED).write(store)
    assert [segment.key_groups for segment in snapshot.keyed] == [KeyGroupRange(g, g) for g in range(OWNED.size)]
    assert content(restored(store, snapshot), model) == model


def test_a_rescaled_restore_reads_only_files_with_key_groups_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 1)
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(5000)})
    snapshot = live.freeze(1, SHARED).write(store)
    found = [len(restored(store, snapshot, owned=owned).rows) for owned in (KeyGroupRange(0, 6), KeyGroupRange(7, 15))]
    assert sum(found) == len(model)
    assert store.reads == [segment.handle.path for segment in snapshot.keyed], "each of them once"


def test_increments_build_upon_several_files_and_a_restore_reads_each_file_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 10_000)
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(5000)})
    for checkpoint_id in range(1, 20):
        frozen, before = live.freeze(checkpoint_id, SHARED), store.written_bytes
        snapshot = frozen.write(store)
        frozen.release()
        live.increments.confirmed(checkpoint_id)
        if checkpoint_id == 1:
            whole = store.written_bytes
        else:
            assert store.written_bytes - before < 0.3 * whole
        expected = dict(model)
        write(live, model, dict.fromkeys(range(checkpoint_id * 50, checkpoint_id * 50 + 50), (checkpoint_id, 1.0)))
    assert len({segment.handle.path for segment in snapshot.keyed if segment.level == 0}) > 4
    store.reads.clear()
    assert content(restored(store, snapshot), expected) == expected
    assert sorted(store.reads) == sorted({segment.handle.path for segment in snapshot.keyed})
    whole_again = live.freeze(20, CheckpointOptions("chk", SnapshotType.SAVEPOINT, is_full=True)).write(store)
    assert {segment.level for segment in whole_again.keyed} == {0}
    assert len(whole_again.keyed) > 4
    assert content(restored(store, whole_again), model) == model


def test_nothing_changed_nothing_is_written() -> None:
    live, model, store = state(), Content(), Store()
    write(live, model, some(random.Random(3), 1000))
    for checkpoint_id in (1, 2):
        frozen = live.freeze(checkpoint_id, SHARED)
        snapshot = frozen.write(store)
        frozen.release()
        live.increments.confirmed(checkpoint_id)
    assert len(store.files) == 1
    assert content(restored(store, snapshot), model) == model


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.string(), ["", "a", "b", None, "aa", "Aa", "BB", "x" * 300, "ä", "\0", "a\0"]),
        (pa.binary(), [b"", b"a", None, b"\0", b"\0\0"]),
        (pa.float64(), [0.0, 1.5, None, float("nan"), float("inf")]),
        (pa.int8(), [0, -1, 127, None]),
        (pa.uint64(), [0, 1, 2**64 - 1, None]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("us", "UTC"), [0, 1, -1, None]),
        (pa.date32(), [0, 1, None]),
    ],
    ids=str,
)
def test_keys_of_many_types(kind: pa.DataType, keys: list[object]) -> None:
    live = state([pa.field("a", kind), pa.field("b", pa.int32())])
    first = pa.array(keys, kind)
    second = pa.array([7] * len(keys), pa.int32())
    located = live.rows.locate([first, second])
    assert located.is_new.all()
    assert len(set(located.slots.tolist())) == len(keys)
    order = pa.array(np.random.default_rng(5).permutation(len(keys)))
    again = live.rows.locate([first.take(order), second.take(order)])
    assert not again.is_new.any()
    assert again.slots.tolist() == located.slots[np.asarray(order)].tolist()
    assert str(live.rows.table.keys_of(located.slots)[0].to_pylist()) == str(first.to_pylist())
    others = live.rows.locate([first, pa.array([8] * len(keys), pa.int32())])
    assert others.is_new.all()


def test_nan_is_one_key_and_the_zeros_are_two() -> None:
    live = state([pa.field("a", pa.float64())])
    live.rows.locate([pa.array([0.0, float("nan")])])
    assert live.rows.locate([pa.array([-0.0, -float("nan"), 0.0])]).is_new.tolist() == [True, False, False]


def test_many_texts() -> None:
    live = state([pa.field("a", pa.string())])
    texts = pa.array([f"key-{i % 977}-{i}" for i in range(20_000)])
    located = live.rows.locate([texts])
    assert live.rows.table.keys_of(located.slots)[0].equals(texts)
    assert live.rows.locate([texts]).slots.tolist() == located.slots.tolist()


def test_a_key_that_has_no_fixed_form_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="'a' is of type list"):
        state([pa.field("a", pa.list_(pa.int64()))])


def test_more_keys_than_memory_is_told() -> None:
    live = state(capacity=1 << 12)
    with pytest.raises(NoResourceAvailable, match="does not fit into this machine's memory"):
        live.rows.locate([pa.array(range(1 << 13))])


def test_other_aggregates_or_damage_are_refused_at_restore() -> None:
    live, store = state(), Store()
    write(live, Content(), {1: (1, None)})
    snapshot = live.freeze(1, None).write(store)
    other = ColumnarKeyedState("op", KEYS, [pa.field("total", pa.string())], OWNED, MAX_PARALLELISM, memory=memory)
    with pytest.raises(SchemaMismatch, match=r"value\.total"):
        other.restore(RestoredOperator(keyed=snapshot.keyed), store)
    store.files = {name: content[:-9] for name, content in store.files.items()}
    with pytest.raises(CorruptData, match="not a readable Arrow file"):
        restored(store, snapshot)


def test_the_first_snapshot_after_a_restore_builds_upon_it() -> None:
    live, model, store = state(), Content(), Store()
    write(live, model, {key: (key, None) for key in range(3000)})
    snapshots = []
    for checkpoint_id in (1, 2):
        write(live, model, dict.fromkeys(range(20 * checkpoint_id), (checkpoint_id, 0.5)))
        frozen = live.freeze(checkpoint_id, SHARED)
        snapshots.append(frozen.write(store))
        frozen.release()
        live.increments.confirmed(checkpoint_id)
    whole = store.written_bytes
    for owned in (OWNED, KeyGroupRange(0, 8)):
        again = state(owned=owned)
        again.restore(RestoredOperator(keyed=snapshots[-1].keyed), store, 2)
        kept: Content = {key: value for key, value in model.items() if not is_elsewhere(again, key)}
        changes = dict.fromkeys(list(kept)[:30], (7, None))
        expected = dict(kept)
        write(again, expected, changes)
        before = store.written_bytes
        snapshot = again.freeze(3, SHARED).write(store)
        assert store.written_bytes - before < 0.2 * whole
        assert content(restored(store, snapshot, owned=owned), expected) == expected
        assert len(restored(store, snapshot, owned=owned).rows) == len(expected)


def is_elsewhere(of: ColumnarKeyedState, key: int) -> bool:
    """Whether a key is of other key groups."""
    group = int(key_groups(hash_columns([pa.array([key])]), MAX_PARALLELISM)[0])
    return group > of._owned.end


def test_compressed_files_are_smaller_and_restore_alike() -> None:
    sizes = []
    for compresses in (False, True):
        live, model, store = state(), Content(), Store()
        store.compresses = compresses
        write(live, model, dict.fromkeys(range(5000), (0, None)))
        snapshot = live.freeze(1, SHARED).write(store)
        sizes.append(store.written_bytes)
        assert content(restored(store, snapshot), model) == model
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("owned", [OWNED, KeyGroupRange(3, 9), KeyGroupRange(5, 5)])
def test_all_slots_are_those_of_all_keys_each_once(owned: KeyGroupRange) -> None:
    rng = np.random.default_rng(11)
    held, seen = state(owned=owned), set[int]()
    assert held.rows.table.slots().tolist() == []
    for _ in range(40):
        keys = rng.integers(0, 20_000, rng.integers(1, 900))
        groups = key_groups(hash_columns([pa.array(keys)]), MAX_PARALLELISM)
        mine = np.unique(keys[(groups >= owned.start) & (groups <= owned.end)])
        held.rows.locate([pa.array(mine)])
        seen.update(mine.tolist())
        (found,) = held.rows.table.keys_of(held.rows.table.slots())
        assert len(found) == len(held.rows)
        assert set(found.to_pylist()) == seen
