"""Columnar keyed state that is used before it is loaded, against the same state loaded at once: the same rows, in snapshots too."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.keyed_state.columns.test_keyed import KEYS, MAX_PARALLELISM, VALUES, some
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.columnar.table.fixed_width import to_column
from tidegate.columnar.table.reserved import RowMemory
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, SegmentHandle, SnapshotType
from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.store.verified_file import VerifiedFile
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState, Expiry
from tidegate.taskmanager.keyed_state.ttl import Ttl

TTL_MS = 1000
KINDS = [*(field.type for field in VALUES), pa.int64()]
"""The last one is of the time of the last write, where rows expire."""
EVERYTHING = 1 << 62
Found = dict[int, tuple[Any, ...]]


class Clock:
    ms = 0


def loaded(state: ColumnarKeyedState) -> ColumnarKeyedState:
    while state.restoring is not None and not state.restoring.is_done:
        load_some(state)
    return state


def load_some(state: ColumnarKeyedState) -> None:
    assert state.restoring is not None
    state.restoring.load_some()


class Subtasks:
    """The state of an operator in all of its subtasks. Checkpoints are in files below ``directory``."""

    def __init__(self, directory: Path, *, is_lazy: bool, expires: bool, budget: int = 0) -> None:
        self.directory = directory
        self.is_lazy, self.expires, self.budget = is_lazy, expires, budget
        self.clock = Clock()
        (directory / "shared").mkdir(parents=True)
        self.states: list[ColumnarKeyedState] = []
        self.begin(1, None)

    def begin(self, parallelism: int, snapshot: tuple[OperatorSnapshot, int] | None) -> None:
        now = self.clock
        expiry = Expiry(Ttl(TTL_MS, in_full_snapshot=True, sweep_size=3), lambda: now.ms) if self.expires else None
        memory, eager_bytes = RowMemory(self.budget, str(self.directory), 1 << 16), 0 if self.is_lazy else EVERYTHING
        for state in self.states:
            state.close()
        self.states = []
        for index in range(parallelism):
            owned = range_of(index, MAX_PARALLELISM, parallelism)
            state = ColumnarKeyedState("op", KEYS, VALUES, owned, MAX_PARALLELISM, expiry, memory, eager_bytes)
            if snapshot is not None:
                source = open_segment_source(str(self.directory / f"chk-{snapshot[1]}"))
                state.restore(RestoredOperator(keyed=snapshot[0].keyed), source, snapshot[1])
            self.states.append(state)

    def write(self, changes: dict[int, tuple[int, float | None]]) -> list[tuple[Any, ...]]:
        """Adds to keys, and returns what they have then."""
        keys = pa.array(sorted(changes), pa.int64())
        groups = key_groups(hash_columns([keys]), MAX_PARALLELISM).astype(np.intp)
        found: list[tuple[Any, ...]] = []
        for index, state in enumerate(self.states):
            owned = range_of(index, MAX_PARALLELISM, len(self.states))
            mine = np.flatnonzero((groups >= owned.start) & (groups <= owned.end))
            if not len(mine):
                continue
            need(state, groups[mine] - owned.start)
            located = state.rows.locate([keys.take(pa.array(mine))])
            (totals, _), (leasts, nulls) = state.take(located)[:2]
            assert nulls is not None
            added = [changes[key] for key in keys.take(pa.array(mine)).to_pylist()]
            totals = totals + np.array([total for total, _ in added], np.int64)
            values = np.array([least or 0.0 for _, least in added])
            nulls = nulls & np.array([least is None for _, least in added], np.bool_)
            state.put(located, [(totals, None), (leasts + values, nulls)])
            state.sweep(len(mine))
            found += zip(totals.tolist(), (leasts + values).tolist(), nulls.tolist(), strict=True)
        return found

    def freeze(self, options: CheckpointOptions, checkpoint_id: int) -> Callable[[], OperatorSnapshot]:
        frozen = [state.freeze(checkpoint_id, options) for state in self.states]
        location = self.directory / f"chk-{checkpoint_id}"
        location.mkdir()

        def write() -> OperatorSnapshot:
            keyed: list[SegmentHandle] = []
            for index, one in enumerate(frozen):
                shared = str(self.directory / "shared") if options.shared_location else ""
                store = open_segment_store(str(location), f"a{index}", checkpoint_id, 200, shared_location=shared)
                keyed += one.write(store).keyed
                one.release()
            return OperatorSnapshot(keyed=tuple(keyed))

        return write

    def confirm(self, checkpoint_id: int) -> None:
        for state in self.states:
            state.increments.confirmed(checkpoint_id)

    def content(self) -> Found:
        """All of it is loaded then."""
        found: Found = {}
        for state in self.states:
            rows = loaded(state).rows
            slots = rows.table.slots()
            columns = rows.values.take(slots)
            parts = [
                to_column(values, kind, nulls).to_pylist()
                for (values, nulls), kind in zip(columns, KINDS, strict=False)
            ]
            rows_of = zip(rows.table.keys_of(slots)[0].to_pylist(), *parts, strict=True)
            found |= {row[0]: row[1:] for row in rows_of if not self.expires or row[-1] > self.clock.ms - TTL_MS}
        return found


def need(state: ColumnarKeyedState, groups: Iterable[int]) -> None:
    if state.restoring is not None:
        for group in sorted({int(group) for group in groups}):
            if state.restoring.is_left[group]:
                state.restoring.waits(group, 1)
        while any(state.restoring.is_left[group] for group in groups):
            load_some(state)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.snapshot.PIECE_ROWS", 64)
    monkeypatch.setattr("tidegate.columnar.table.values.FOLD_ROWS", 50)
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.restored_groups.STEP_ROWS", 48)
    monkeypatch.setattr("tidegate.taskmanager.state.files.segment_streams.FILE_BYTES", 6000)


@pytest.mark.parametrize("expires", [False, True], ids=["forever", "expiring"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_loaded_while_it_is_used_is_what_is_loaded_at_once(seed: int, expires: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    budget = rng.choice([0, 20_000])
    lazy = Subtasks(tmp_path / "lazy", is_lazy=True, expires=expires, budget=budget)
    eager = Subtasks(tmp_path / "eager", is_lazy=False, expires=expires)
    taken: list[OperatorSnapshot] = []

    def act() -> None:
        changes = some(rng, rng.choice([1, 5, 60, 900]))
        assert lazy.write(changes) == eager.write(changes)
        for both in (lazy, eager):
            both.clock.ms += step_ms
        for state in lazy.states:
            for _ in range(rng.choice([0, 0, 1, 4])):
                if state.restoring is not None and not state.restoring.is_done:
                    load_some(state)

    for number in range(1, 26):
        step_ms = rng.choice([0, 0, 10, 200, TTL_MS // 2])
        act()
        kinds = [SnapshotType.CHECKPOINT] * 3 + [SnapshotType.SAVEPOINT]
        kind, is_full = rng.choice(kinds), rng.random() < 0.2
        shared = rng.choice(["", "shared", "shared", "shared"]) if kind is SnapshotType.CHECKPOINT else ""
        options = CheckpointOptions("chk", kind, is_full=is_full, shared_location=shared)
        writes = [both.freeze(options, number) for both in (lazy, eager)]
        for _ in range(rng.choice([0, 1, 3])):
            act()
        taken = [write() for write in writes]
        if rng.random() < 0.8 and kind is SnapshotType.CHECKPOINT:
            lazy.confirm(number)
            eager.confirm(number)
        if rng.random() < 0.4:
            parallelism = rng.choice([1, 2, 3])
            for both, snapshot in zip((lazy, eager), taken, strict=True):
                both.begin(parallelism, (snapshot, number))
            assert all(state.restoring is not None for state in lazy.states if state.keys)
            assert all(state.restoring is None for state in eager.states)
    assert any(state.restoring is not None for state in lazy.states) or not taken
    assert lazy.content() == eager.content()


def filled(directory: Path, keys: int = 3000, *, expires: bool = False) -> Subtasks:
    found = Subtasks(directory, is_lazy=True, expires=expires)
    found.write({key: (key, None) for key in range(keys)})
    return found


SHARED = CheckpointOptions("chk", shared_location="shared")


def test_a_checkpoint_before_everything_is_loaded_names_the_restored_files_again(tmp_path: Path) -> None:
    running = filled(tmp_path / "state")
    first = running.freeze(SHARED, 1)()
    running.confirm(1)
    running.write(dict.fromkeys(range(90), (1, 0.5)))
    second = running.freeze(SHARED, 2)()
    running.begin(2, (second, 2))
    before = {path.name for path in (tmp_path / "state" / "shared").iterdir()}
    third = running.freeze(SHARED, 3)()
    assert {path.name for path in (tmp_path / "state" / "shared").iterdir()} == before
    assert {s.handle for s in third.keyed} == {s.handle for s in second.keyed} > {s.handle for s in first.keyed}
    running.confirm(3)
    running.write({5: (7, None)})
    left = [state.restoring.rows_left for state in running.states if state.restoring is not None]
    assert len(left) == 2
    assert sum(left) > 2500, "one key group was loaded"
    fourth = running.freeze(SHARED, 4)()
    more = {s.handle for s in fourth.keyed} - {s.handle for s in third.keyed}
    assert [handle.size_bytes < 2000 for handle in more] == [True]
    expected = {key: (key + (key < 90) + 7 * (key == 5), 0.5 if key < 90 else None) for key in range(3000)}
    running.begin(3, (fourth, 4))
    assert running.content() == expected


def test_a_savepoint_before_everything_is_loaded_has_files_of_its_own(tmp_path: Path) -> None:
    running = filled(tmp_path / "state")
    first = running.freeze(SHARED, 1)()
    running.confirm(1)
    running.write(dict.fromkeys(range(90), (1, 0.5)))
    second = running.freeze(SHARED, 2)()
    running.begin(1, (second, 2))
    running.write({5: (7, None)})
    third = running.freeze(CheckpointOptions("chk", SnapshotType.SAVEPOINT), 3)()
    assert {s.handle.path for s in first.keyed} & {s.handle.path for s in third.keyed} == set()
    assert {s.level for s in third.keyed} == {0}
    assert sum(s.offsets[-1] - s.offsets[0] for s in third.keyed) == 3000
    running.begin(2, (third, 3))
    expected = {key: (key + (key < 90) + 7 * (key == 5), 0.5 if key < 90 else None) for key in range(3000)}
    assert running.content() == expected


def test_what_has_all_expired_leaves_nothing_to_write(tmp_path: Path) -> None:
    running = filled(tmp_path / "state", 300, expires=True)
    running.clock.ms += TTL_MS
    assert running.freeze(SHARED, 1)().keyed == ()
    first = running.freeze(replace(SHARED, is_full=True), 2)()
    assert first.keyed == ()


def test_each_byte_is_read_once_by_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.store.verified_file.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr("tidegate.taskmanager.state.files.segment_streams.FILE_BYTES", 1 << 30)
    monkeypatch.setattr("tidegate.taskmanager.keyed_state.columns.snapshot.PIECE_ROWS", 16)
    reads: Counter[tuple[int, int]] = Counter()
    files: list[VerifiedFile] = []
    read = VerifiedFile._read

    def counted(file: VerifiedFile, blocks: range) -> None:
        if file not in files:
            files.append(file)
        reads.update((files.index(file), block) for block in blocks)
        read(file, blocks)

    monkeypatch.setattr(VerifiedFile, "_read", counted)
    running = filled(tmp_path / "state")
    first = running.freeze(SHARED, 1)()
    blocks = sum(-(-s.handle.size_bytes // 1024) for s in first.keyed)
    assert blocks > 100
    running.begin(3, (first, 1))
    opened = sum(reads.values())
    assert opened <= 3 * 16, "before a record comes: where the batches are"
    assert len(running.content()) == 3000
    assert set(reads.values()) == {1}
    assert sum(reads.values()) < blocks + 3 * 24, "and little of what others own"


def content_of(running: Subtasks, snapshot: OperatorSnapshot) -> Found:
    running.begin(1, (snapshot, 1))
    return running.content()


@pytest.mark.parametrize("damage", ["a block", "the end", "no file"])
def test_damage_is_one_clear_error(damage: str, tmp_path: Path) -> None:
    running = filled(tmp_path / "state")
    first = running.freeze(SHARED, 1)()
    path = Path(first.keyed[0].handle.path)
    content = bytearray(path.read_bytes())
    if damage == "a block":
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
    elif damage == "the end":
        path.write_bytes(content[:-9])
    else:
        path.unlink()
    with pytest.raises((CorruptData, StorageError), match=re.escape(path.name)):
        content_of(running, first)


def test_state_of_other_columns_is_read_at_once(tmp_path: Path) -> None:
    running = filled(tmp_path / "state")
    first = running.freeze(SHARED, 1)()
    more = [*VALUES, pa.field("most", pa.float64())]
    owned = KeyGroupRange(0, MAX_PARALLELISM - 1)
    state = ColumnarKeyedState("op", KEYS, more, owned, MAX_PARALLELISM, eager_bytes=0)
    state.restore(RestoredOperator(keyed=first.keyed), open_segment_source(str(tmp_path / "state" / "chk-1")), 1)
    assert state.restoring is None
    assert len(state.rows) == 3000


def test_compressed_files_are_read_at_once(tmp_path: Path) -> None:
    running = filled(tmp_path / "state")
    (tmp_path / "state" / "chk-1").mkdir()
    frozen = running.states[0].freeze(1, SHARED)
    store = open_segment_store(str(tmp_path / "state" / "chk-1"), "a", 1, 0, compresses=True)
    running.begin(1, (frozen.write(store), 1))
    assert running.states[0].restoring is None
    assert len(running.content()) == 3000
