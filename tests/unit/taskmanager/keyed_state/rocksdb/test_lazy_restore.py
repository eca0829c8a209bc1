"""State that is used before it is loaded, against the same state loaded at once: the same answers, the same snapshots."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.checkpoint import (
    CheckpointOptions,
    OperatorSnapshot,
    RestoredOperator,
    SnapshotType,
    StateHandle,
)
from tidegate.model.errors import CorruptData
from tidegate.model.keygroups import KeyGroupRange
from tidegate.records.canonical.forms import canonical_key
from tidegate.store.segments import FileSegmentSource, open_segment_source, open_segment_store
from tidegate.store.verified_file import BLOCK_BYTES
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.rocksdb import changes as rocksdb_changes
from tidegate.taskmanager.keyed_state.rocksdb import columns as rocksdb_columns
from tidegate.taskmanager.keyed_state.rocksdb import restored_rows, unloaded
from tidegate.taskmanager.keyed_state.rocksdb.backend import RocksKeyedBackend
from tidegate.taskmanager.keyed_state.rocksdb.keys import place
from tidegate.taskmanager.keyed_state.ttl import Ttl
from tidegate.taskmanager.state.files import segment_streams
from tidegate.taskmanager.state.ports import SegmentSource

ALL = KeyGroupRange(2, 9)
HALVES = (KeyGroupRange(2, 5), KeyGroupRange(6, 9))
TTL_MS = 1000
LETTERS = "uvwxyz"
KEYS: dict[str, tuple[TypeInformation | None, list[Any], list[Any]]] = {
    "numbers": (Types.LONG(), [-(2**63), -1, 0, 1, 255, 256, 2**40, 2**63 - 1, *range(1000, 1030)], [None]),
    "texts": (Types.STRING(), ["", "a", "ab", "b", "ü", "a\0", *(f"key {i}" for i in range(30))], [None]),
    "windows": (Types.LONG(), list(range(-6, 6)), [TimeWindow(0, 10), TimeWindow(-5, 5), TimeWindow(5, 15)]),
    "counts": (Types.STRING(), list("abcdefgh"), [CountWindow(0), CountWindow(3), CountWindow(-1)]),
    "tuples": (Types.TUPLE([Types.STRING(), Types.LONG()]), [(a, b) for a in "abc" for b in range(-3, 6)], [None]),
    "anything": (
        None,
        ["a", 1, ("a", 1), None, 2.5, b"x", frozenset({"y", "z"}), 2**70, complex(1, 2), complex(2, 1), ("a", complex(3, 4)), *range(20, 40)],
        [None],
    ),
}  # fmt: skip


class WholeFiles:
    """A source that cannot read parts of files, so what is restored from it is loaded at once."""

    def __init__(self, source: FileSegmentSource) -> None:
        self._source = source

    def read(self, handle: StateHandle) -> memoryview:
        return self._source.read(handle)


class States:
    """The states of one subtask, of each kind with and without a time-to-live."""

    def __init__(
        self, kind: str, directory: Path, owned: KeyGroupRange = ALL, restored: tuple[OperatorSnapshot, SegmentSource, int] | None = None
    ) -> None:  # fmt: skip
        self.now_ms = 0
        texts = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
        place = BackendPlace(
            texts, str(directory), 0, 0, None if restored is None else restored[2], lambda: self.now_ms
        )
        found = open_keyed_backend(place, "op", owned, KEYS[kind][0])
        assert isinstance(found, RocksKeyedBackend)
        self.backend, self.owned, self.kind = found, owned, kind
        if restored is not None:
            found.restore(RestoredOperator(keyed=restored[0].keyed), restored[1])
        ttl = Ttl(TTL_MS, in_full_snapshot=True)
        self.values = found.table("value", "value", Types.LONG())
        self.objects = found.table("object", "value", Types.PICKLED_BYTE_ARRAY(), ttl)
        self.lists = found.list_cells("list", Types.LIST(Types.STRING()))
        self.maps = found.map_cells("map", Types.MAP(Types.STRING(), Types.LONG()))
        self.stamped_maps = found.map_cells("stamped", Types.MAP(Types.STRING(), Types.LONG()), ttl)
        self.sweeps = [found.sweep("object"), found.sweep("stamped")]

    def act(self, rng: random.Random, group: int, entry: Entry) -> None:
        """``rng`` decides; those of two backends in the same state decide the same."""
        n, letter, stamp = rng.randrange(100), rng.choice(LETTERS), self.now_ms - rng.randrange(TTL_MS)
        choices: list[Any] = [
            lambda: self.values.write(group, entry, n),
            lambda: self.values.write(group, entry, (self.values.read(group, entry) or 0) + 1),
            lambda: self.values.write_all([group], [entry], [n]),
            lambda: self.values.delete(group, entry),
            lambda: self.objects.write(group, entry, ({"n": n}, stamp)),
            lambda: self.objects.delete(group, entry),
            lambda: self.lists.extend(group, entry, [letter, str(n)]),
            lambda: self.lists.replace(group, entry, [letter] * (n % 3)),
            lambda: self.maps.put_all(group, entry, {letter: n}),
            lambda: self.maps.remove(group, entry, [letter, "u"]),
            lambda: self.maps.clear(group, entry),
            lambda: self.stamped_maps.put_all(group, entry, {letter: (n, stamp)}),
            lambda: self.stamped_maps.remove(group, entry, [letter]),
        ]
        rng.choice(choices)()

    def look(self, group: int, entry: Entry) -> Any:
        """All that a function sees of an entry; what has expired is as good as gone."""
        value = self.objects.read(group, entry)
        last = self.now_ms - TTL_MS
        return (
            *self.values.peek_all([group], [entry]),
            self.values.read(group, entry),
            value if value is not None and value[1] > last else None,
            self.lists.read(group, entry),
            self.lists.is_empty(group, entry),
            self.maps.read(group, entry),
            self.maps.is_empty(group, entry),
            [self.maps.get(group, entry, letter) for letter in LETTERS],
            self.maps.contains(group, entry, "u"),
            {key: pair for key, pair in self.stamped_maps.read(group, entry).items() if pair[1] > last},
        )

    def everything(self) -> Any:
        entries = sorted(self.values.entries(), key=repr)
        names = ("value", "list", "map")
        return entries, [sorted(self.backend.entry_keys(name), key=repr) for name in names]

    def sweep(self) -> None:
        for sweep in self.sweeps:
            sweep(40, self.now_ms)


def keys_of(kind: str) -> list[tuple[int, Entry]]:
    _, keys, spaces = KEYS[kind]
    return [(2 + index % ALL.size, (canonical_key(key), space)) for index, key in enumerate(keys) for space in spaces]


class Checkpoints:
    """Directories of checkpoints; those of older ones may go away."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "shared").mkdir(parents=True)
        self._attempt = 0

    def take(
        self, states: States, checkpoint_id: int, options: CheckpointOptions, inline_bytes: int
    ) -> OperatorSnapshot:
        self._attempt += 1
        place = self.place(checkpoint_id)
        place.mkdir(exist_ok=True)
        shared = str(self.directory / "shared") if options.shared_location else ""
        options = replace(options, location=str(place), shared_location=shared)
        store = open_segment_store(str(place), f"a{self._attempt}", checkpoint_id, inline_bytes, shared_location=shared)
        frozen = states.backend.freeze(checkpoint_id, options)
        try:
            states.backend.load_some()  # what is loaded meanwhile does not belong to it
            return frozen.write(store)
        finally:
            frozen.release()

    def source(self, checkpoint_id: int) -> FileSegmentSource:
        return open_segment_source(str(self.place(checkpoint_id)))

    def place(self, checkpoint_id: int) -> Path:
        return self.directory / f"chk-{checkpoint_id}"

    def forget(self) -> None:
        """All files are deleted: those that are held open stay."""
        shutil.rmtree(self.directory)
        (self.directory / "shared").mkdir(parents=True)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_changes, "SPILL_AT", 8)
    monkeypatch.setattr(rocksdb_columns, "BATCH_ENTRIES", 3)
    monkeypatch.setattr(segment_streams, "FILE_BYTES", 400)
    monkeypatch.setattr(restored_rows, "STEP_ROWS", 2)
    monkeypatch.setattr(restored_rows, "_PACKED_ROWS", 2)
    monkeypatch.setattr(unloaded, "STEP_ROWS", 2)


CHECKPOINT = CheckpointOptions("", shared_location="yes")
FULL = CheckpointOptions("")
SAVEPOINT = CheckpointOptions("", SnapshotType.SAVEPOINT, is_full=True)


class Both:
    """The same state twice: used before it is loaded, and loaded at once."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._kind, self._directory = kind, directory
        self._checkpoints = [Checkpoints(directory / name) for name in ("lazy", "eager")]
        self._keys = keys_of(kind)
        self.lazy, self.eager = States(kind, directory), States(kind, directory)

    def act(self, rng: random.Random) -> None:
        group, entry = rng.choice(self._keys)
        decision = rng.random()
        for states in (self.lazy, self.eager):
            states.act(random.Random(decision), group, entry)
        if rng.random() < 0.3:
            self.compare(*rng.choice(self._keys))
        if rng.random() < 0.05:
            self.lazy.backend.load_some()
        if rng.random() < 0.05:
            self.lazy.now_ms = self.eager.now_ms = self.lazy.now_ms + rng.randrange(200)
            self.lazy.sweep()

    def compare(self, group: int, entry: Entry) -> None:
        assert self.lazy.look(group, entry) == self.eager.look(group, entry)

    def compare_all(self) -> None:
        for group, entry in self._keys:
            self.compare(group, entry)

    def checkpoint(self, checkpoint_id: int, rng: random.Random) -> tuple[CheckpointOptions, list[OperatorSnapshot]]:
        options, inline = rng.choice([CHECKPOINT] * 4 + [FULL, SAVEPOINT]), rng.choice([0, 0, 700])
        is_aborted = options.snapshot_type.is_savepoint or rng.random() < 0.2
        found = []
        for states, directory in zip((self.lazy, self.eager), self._checkpoints, strict=True):
            found.append(directory.take(states, checkpoint_id, options, inline if states is self.lazy else 0))
            (states.backend.aborted if is_aborted else states.backend.confirmed)(checkpoint_id)
        return options, found

    def restore(self, checkpoint_id: int, snapshots: list[OperatorSnapshot], *, are_files_deleted: bool) -> None:
        now_ms = self.lazy.now_ms
        self.close()
        first, second = (directory.source(checkpoint_id) for directory in self._checkpoints)
        self.lazy = States(self._kind, self._directory, ALL, (snapshots[0], first, checkpoint_id))
        self.eager = States(self._kind, self._directory, ALL, (snapshots[1], WholeFiles(second), checkpoint_id))
        self.lazy.now_ms = self.eager.now_ms = now_ms
        assert self.eager.backend.rows_to_load == 0
        if are_files_deleted:
            for directory in self._checkpoints:
                directory.forget()

    def close(self) -> None:
        self.lazy.backend.close()
        self.eager.backend.close()


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KEYS)
def test_state_that_is_not_loaded_yet_is_the_same_as_if_it_were(kind: str, seed: int, tmp_path: Path) -> None:
    rng, both = random.Random(f"{kind} {seed}"), Both(kind, tmp_path)
    restores, left_unloaded, levels = 0, 0, set[int]()
    for checkpoint_id in range(1, 31):
        for _ in range(rng.choice([1, 4, 20, 60])):
            both.act(rng)
        if rng.random() < 0.1:
            assert both.lazy.everything() == both.eager.everything()
        left_unloaded += both.lazy.backend.rows_to_load > 0
        options, snapshots = both.checkpoint(checkpoint_id, rng)
        levels |= {segment.level for segment in snapshots[0].keyed}
        if rng.random() < 0.5:
            restores += 1
            both.restore(checkpoint_id, snapshots, are_files_deleted=options is not CHECKPOINT and rng.random() < 0.5)
    both.compare_all()
    while both.lazy.backend.rows_to_load:
        both.lazy.backend.load_some()
    both.compare_all()
    assert both.lazy.everything() == both.eager.everything()
    assert (restores > 4, left_unloaded > 4, len(levels) > 1) == (True, True, True)
    both.close()


def restored(
    tmp_path: Path, values: dict[int, int], later: dict[int, int | None] | None = None
) -> tuple[OperatorSnapshot, Checkpoints]:
    """A checkpoint of numbers, and one that builds upon it."""
    checkpoints, states = Checkpoints(tmp_path / "checkpoints"), States("numbers", tmp_path)
    for key, value in values.items():
        states.values.write(2 + key % ALL.size, (key, None), value)
    found = checkpoints.take(states, 1, CHECKPOINT, 0)
    states.backend.confirmed(1)
    if later is not None:
        for key, changed in later.items():
            if changed is None:
                states.values.delete(2 + key % ALL.size, (key, None))
            else:
                states.values.write(2 + key % ALL.size, (key, None), changed)
        found = checkpoints.take(states, 2, CHECKPOINT, 0)
    states.backend.close()
    return found, checkpoints


def value_or_damage(states: States, key: int) -> Any:
    try:
        return states.values.read(2 + key % ALL.size, (key, None))
    except CorruptData as damage:
        return str(damage)


def files_of(snapshot: OperatorSnapshot, level: int = 0) -> list[Path]:
    return [Path(s.handle.path) for s in snapshot.keyed if s.level == level and s.state_name == "value"]


def test_each_owner_reads_the_blocks_that_it_needs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, checkpoints = restored(tmp_path, {key: key for key in range(60_000)})
    whole = States("numbers", tmp_path, ALL, (snapshot, checkpoints.source(1), 1))
    assert whole.backend.rows_to_load == 60_000
    read: list[tuple[int, int]] = []
    pread = os.pread

    def recorded(descriptor: int, size_bytes: int, at: int) -> bytes:
        read.append((descriptor, at))
        return pread(descriptor, size_bytes, at)

    monkeypatch.setattr(os, "pread", recorded)
    assert whole.values.read(6, (804, None)) == 804
    size_bytes = sum(path.stat().st_size for path in files_of(snapshot))
    assert 0 < len(read) * BLOCK_BYTES < size_bytes / 2
    for half in HALVES:
        read.clear()
        states = States("numbers", tmp_path, half, (snapshot, checkpoints.source(1), 1))
        while states.backend.rows_to_load:
            states.backend.load_some()
        assert [value for _, _, value in states.values.entries()] != []
        assert len(read) == len(set(read)), "no block is read twice"
        states.backend.close()
    assert sorted(value for _, _, value in whole.values.entries()) == list(range(60_000))
    whole.backend.close()


@pytest.mark.parametrize("level", [0, 1])
def test_a_damaged_block_is_refused_by_name_where_it_is_needed_and_never_decoded(level: int, tmp_path: Path) -> None:
    snapshot, checkpoints = restored(
        tmp_path, {key: key for key in range(240_000)}, {key: -key for key in range(0, 240_000, 4)}
    )
    path = max(files_of(snapshot, level), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4 if level == 0 else len(content) // 2] ^= 1  # what is in front was rewritten
    path.write_bytes(content)
    states = States("numbers", tmp_path, ALL, (snapshot, checkpoints.source(2), 2))
    found = {key: value_or_damage(states, key) for key in range(1, 240_000, 97)}
    damaged = [key for key, value in found.items() if isinstance(value, str)]
    assert 0 < len(damaged) < len(found)
    assert all(path.name in str(found[key]) for key in damaged)
    assert all(found[key] == (key if key % 4 else -key) for key in found if key not in damaged)
    with pytest.raises(CorruptData, match=path.name):
        states.values.entries().__next__()
    frozen = states.backend.freeze(3, CheckpointOptions(str(checkpoints.place(2)), is_full=True))
    with pytest.raises(CorruptData, match=path.name):
        frozen.write(open_segment_store(str(checkpoints.place(2)), "b", 3, 0))
    frozen.release()
    states.backend.close()


def test_a_missing_file_is_refused_when_the_state_is_asked_for(tmp_path: Path) -> None:
    snapshot, checkpoints = restored(tmp_path, {1: 1})
    files_of(snapshot)[0].unlink()
    with pytest.raises(CorruptData, match="is missing"):
        States("numbers", tmp_path, ALL, (snapshot, checkpoints.source(1), 1))


def test_key_groups_that_are_asked_for_are_loaded_first(tmp_path: Path) -> None:
    snapshot, checkpoints = restored(tmp_path, {key: key for key in range(800)})
    states = States("numbers", tmp_path, ALL, (snapshot, checkpoints.source(1), 1))
    assert states.values.read(7, (5, None)) == 5
    states.backend.load_some()
    found = {group for group in range(2, 10) if next(states.backend._database.rows(place(0, group)), None)}
    assert found == {7}
    assert states.backend.rows_to_load == 700
    states.backend.close()


def test_what_is_written_and_deleted_before_it_is_loaded_stays_so(tmp_path: Path) -> None:
    snapshot, checkpoints = restored(tmp_path, {key: key for key in range(80)}, {9: 90, 10: None})
    states = States("numbers", tmp_path, ALL, (snapshot, checkpoints.source(2), 2))
    states.values.write(2, (8, None), -8)
    states.values.delete(2, (16, None))
    states.values.write(2, (24, None), 1)
    states.values.delete(2, (24, None))
    expected = {key: key for key in range(80)} | {8: -8, 9: 90}
    for gone in (10, 16, 24):
        del expected[gone]
    assert {key: states.values.read(2 + key % 8, (key, None)) for key in expected} == expected
    assert [states.values.read(2 + gone % 8, (gone, None)) for gone in (10, 16, 24, 1000)] == [None] * 4
    third = checkpoints.take(states, 3, CHECKPOINT, 0)
    assert states.backend.rows_to_load
    assert {s.level for s in third.keyed} == {0, 1, 2}, "it builds upon the files that are not loaded"
    again = States("numbers", tmp_path, ALL, (third, checkpoints.source(3), 3))
    for one in (states, again):
        assert {key: value for _, (key, _), value in one.values.entries()} == expected
        one.backend.close()
