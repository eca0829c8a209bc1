"""The backend on disk against the one in memory: the same answers, the same snapshots, each restored by the other one."""

from __future__ import annotations

import datetime
import decimal
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running, restored_of, start
from tests.unit.taskmanager.operators.keyed_kit import MeanAggregate, keyed
from tidegate.common.row import Row
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.interfaces import KeyedContext, KeyedProcessFunction, RuntimeContext
from tidegate.functions.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, SnapshotType
from tidegate.model.errors import InvalidJob, SchemaMismatch, StorageError
from tidegate.model.keygroups import key_group, subtask_of
from tidegate.model.program import OperatorSpec
from tidegate.records.keys import hash_key
from tidegate.taskmanager.keyed_state.rocksdb import changes as rocksdb_changes
from tidegate.taskmanager.keyed_state.rocksdb import columns as rocksdb_columns
from tidegate.taskmanager.state.files import segment_streams

HASHMAP = {"state.backend.type": "hashmap"}
ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
SHARED = CheckpointOptions("chk", shared_location="shared")
MAX_PARALLELISM = 8
TEXTS = ["a", "b", "", "ü", "a\0", "a\xff", "k1", "k2", "k3", "k4", "k5", "k6"]
NUMBERS = [0, 1, -1, 255, 256, 2**31, -(2**63), 2**63 - 1, 7, 8]
ANYTHING = [
    *TEXTS, 5, 2**70, -(2**70), 1.5, -0.0, float("inf"), None, b"", b"a", ("a", 1), ("a", ("b", None)), (), True,
    datetime.date(2026, 11, 21), datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC), decimal.Decimal("1.50"),
    frozenset({"x", "y"}),
]  # fmt: skip
KEYS: dict[str, tuple[TypeInformation | None, list[Any]]] = {
    "texts": (Types.STRING(), TEXTS),
    "numbers": (Types.LONG(), NUMBERS),
    "anything": (None, ANYTHING),
}


class States(KeyedProcessFunction):
    """A record is (key, what to do with the states)."""

    def __init__(self, value_type: TypeInformation | None = None) -> None:
        self._type = value_type or Types.LONG()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", self._type))
        self.anything = runtime_context.get_state(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.DOUBLE()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", MeanAggregate(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any]:
        return [value[1](self)]


def everything(states: States) -> Any:
    return (
        states.value.value(),
        states.anything.value(),
        list(states.list.get()),
        dict(sorted(states.map.items())),
        sorted(states.map.keys()),
        states.map.is_empty(),
        states.map.contains("x"),
        states.map.get("y"),
        states.sum.get(),
        states.mean.get(),
    )


def acts(rng: random.Random) -> Callable[[States], Any]:
    n = rng.randrange(-5, 100)
    letter = rng.choice("xyz")
    choices: list[Callable[[States], Any]] = [
        lambda s: s.value.update(n),
        lambda s: s.anything.update({"n": [n, letter]}),
        lambda s: s.list.add(str(n)),
        lambda s: s.list.add_all([letter, str(n)]),
        lambda s: s.list.update([letter] if n > 10 else []),
        lambda s: s.map.put(letter, n / 4),
        lambda s: s.map.put_all({"x": 1.0, letter: 2.0}),
        lambda s: s.map.remove(letter),
        lambda s: s.sum.add(n),
        lambda s: s.mean.add(("k", n)),
        lambda s: (s.value.clear(), s.list.clear(), s.map.clear(), s.sum.clear(), s.mean.clear()),
        lambda s: s.anything.clear(),
    ]
    return rng.choice(choices)


class Subtasks:
    """All subtasks of the operator, on one backend."""

    def __init__(
        self,
        backend: dict[str, str],
        parallelism: int = 1,
        snapshots: list[OperatorSnapshot] | None = None,
        key_type: TypeInformation | None = None,
    ) -> None:
        restored = restored_of(snapshots) if snapshots is not None else None
        self.running: list[Running] = [
            start(keyed(key_type=key_type, func=States()), i, parallelism, restored, backend, MAX_PARALLELISM)
            for i in range(parallelism)
        ]

    def act(self, key: Any, act: Callable[[States], Any]) -> Any:
        group = key_group(hash_key(key), MAX_PARALLELISM)
        one = self.running[subtask_of(group, MAX_PARALLELISM, len(self.running))]
        one.feed([(key, act)])
        return one.out.values()[-1]

    def snapshot(self, checkpoint_id: int, options: CheckpointOptions = SHARED) -> list[OperatorSnapshot]:
        for one in self.running:
            one.operator.context.checkpoint_options = options
        return [one.snapshot(checkpoint_id) for one in self.running]

    def close(self) -> None:
        for one in self.running:
            one.operator.close()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KEYS)
def test_it_answers_as_the_backend_in_memory_and_each_restores_what_the_other_wrote(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # everything that is done in large pieces is done in small ones
        monkeypatch.setattr(rocksdb_changes, "SPILL_AT", 3)
        monkeypatch.setattr(segment_streams, "FILE_BYTES", 1)
        monkeypatch.setattr(rocksdb_columns, "BATCH_ENTRIES", 2)
    rng = random.Random(f"{kind} {seed}")
    key_type, keys = KEYS[kind]
    memory, disk = Subtasks(HASHMAP, key_type=key_type), Subtasks(ROCKSDB, key_type=key_type)
    for checkpoint_id in range(1, 13):
        for _ in range(rng.choice([1, 5, 40])):
            key, act = rng.choice(keys), acts(rng)
            assert memory.act(key, act) == disk.act(key, act)
            assert memory.act(key, everything) == disk.act(key, everything)
        written = disk.snapshot(checkpoint_id, replace(SHARED, is_full=rng.random() < 0.1))
        for one in disk.running:
            if rng.random() < 0.7:
                one.operator.notify_checkpoint_complete(checkpoint_id)
            else:
                one.operator.notify_checkpoint_aborted(checkpoint_id)
        if rng.random() < 0.4:
            other = Subtasks(rng.choice([HASHMAP, ROCKSDB]), rng.choice([1, 2, 3]), written, key_type)
            for key in keys:
                assert other.act(key, everything) == memory.act(key, everything), (checkpoint_id, key)
            if rng.random() < 0.5:
                again = Subtasks(ROCKSDB, rng.choice([1, 2]), other.snapshot(1), key_type)
                for key in keys:
                    assert again.act(key, everything) == memory.act(key, everything)
                disk.close()
                disk = again
                memory = Subtasks(HASHMAP, 1, memory.snapshot(1), key_type)
            other.close()
    disk.close()


def test_an_incremental_snapshot_holds_what_changed_and_names_the_rest_again() -> None:
    disk = Subtasks(ROCKSDB)
    for i in range(1000):
        disk.act(f"k{i}", lambda s: s.value.update(1))
    (first,) = disk.snapshot(1)
    disk.running[0].operator.notify_checkpoint_complete(1)
    disk.act("k7", lambda s: s.value.update(2))
    disk.act("k8", lambda s: s.value.clear())
    (second,) = disk.snapshot(2)
    handles = {segment.handle.checksum for segment in first.keyed}
    new = [segment for segment in second.keyed if segment.handle.checksum not in handles]
    assert [segment.level for segment in new] == [1]
    assert sum(segment.handle.size_bytes for segment in new) < first.size_bytes / 4
    for backend in (HASHMAP, ROCKSDB):
        other = Subtasks(backend, 2, [second])
        assert [other.act(f"k{i}", lambda s: s.value.value()) for i in (6, 7, 8)] == [1, 2, None]
        other.close()
    again = Subtasks(ROCKSDB, 1, [second])
    again.act("k9", lambda s: s.value.update(3))
    (third,) = again.snapshot(3)
    known = {segment.handle.checksum for segment in second.keyed}
    assert [segment.level for segment in third.keyed if segment.handle.checksum not in known] == [2]
    assert [again.act(f"k{i}", lambda s: s.value.value()) for i in (6, 7, 8, 9)] == [1, 2, None, 3]
    again.close()
    (savepoint,) = disk.snapshot(3, CheckpointOptions("sp", snapshot_type=SnapshotType.SAVEPOINT))
    assert {segment.level for segment in savepoint.keyed} == {0}
    disk.close()


def test_what_is_written_while_a_snapshot_is_under_way_stays_out_of_it() -> None:
    disk = Subtasks(ROCKSDB)
    operator = disk.running[0].operator
    disk.act("a", lambda s: (s.value.update(1), s.list.add("x"), s.map.put("x", 1.0)))
    frozen = operator.freeze(1)
    disk.act("a", lambda s: (s.value.update(2), s.list.add("y"), s.map.put("y", 1.0)))
    disk.act("b", lambda s: s.value.update(3))
    assert frozen is not None
    written = frozen.write(MemoryStore())
    frozen.release()
    other = Subtasks(HASHMAP, 1, [written])
    assert other.act("a", everything)[:4] == (1, None, ["x"], {"x": 1.0})
    assert other.act("b", everything)[0] is None
    disk.close()


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        return None


def test_state_that_nobody_asks_for_is_written_again_also_when_its_files_are_gone() -> None:
    disk = Subtasks(ROCKSDB)
    disk.act("a", lambda s: (s.value.update(1), s.list.add("x")))
    (written,) = disk.snapshot(1)
    idle = start(keyed(func=Nothing()), 0, 1, restored_of([written]), ROCKSDB, MAX_PARALLELISM)
    idle.snapshot(2)
    idle.operator.context.restore.segments.read = None  # type: ignore[union-attr,method-assign]
    again = Subtasks(ROCKSDB, 1, [idle.snapshot(3)])
    assert again.act("a", everything)[:3] == (1, None, ["x"])
    for one in (disk, again):
        one.close()


def test_named_fields_evolve_at_a_restore() -> None:
    old = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
    new = Types.ROW_NAMED(["n", "city"], [Types.LONG(), Types.STRING()], {"city": "?"})
    for before, after in ((HASHMAP, ROCKSDB), (ROCKSDB, HASHMAP), (ROCKSDB, ROCKSDB)):
        one = start(keyed(func=States(old)), configuration=before)
        one.feed([("a", lambda s: s.value.update(Row(name="x", n=1)))])
        snapshot = restored_of([one.snapshot()])
        other = start(keyed(func=States(new)), restored=snapshot, configuration=after)
        other.feed([("a", lambda s: s.value.value())])
        assert other.out.values()[-1] == Row(n=1, city="?")
        with pytest.raises(
            SchemaMismatch, match="state 'value' cannot be restored: value: stored as .* declares int64"
        ):
            start(keyed(func=States(Types.LONG())), restored=snapshot, configuration=after)


def test_reduce_and_windows_keep_their_state_in_it() -> None:

    def of(kind: str, **options: Any) -> OperatorSpec:
        return keyed(kind, **options)

    for backend in (HASHMAP, ROCKSDB):
        one = start(of("keyed_reduce", func=lambda a, b: (a[0], a[1] + b[1])), configuration=backend)
        one.feed([("a", 1), ("b", 5), ("a", 2)])
        again = start(
            of("keyed_reduce", func=lambda a, b: (a[0], a[1] + b[1])),
            restored=restored_of([one.snapshot()]),
            configuration=ROCKSDB,
        )
        again.feed([("a", 3)])
        assert again.out.values() == [("a", 6)]


def test_a_value_that_does_not_fit_its_type_is_told_at_the_snapshot() -> None:
    for value in (2**40, "text", 1.5):
        one = start(keyed(func=States(Types.INT())), configuration=ROCKSDB)
        one.feed([("a", lambda s, value=value: s.value.update(value)), ("b", lambda s: s.value.update(1))])
        with pytest.raises(SchemaMismatch, match="state 'value': .* does not fit type Integer"):
            one.snapshot()
        one.operator.close()


def test_it_lives_in_the_directory_of_the_attempt_and_dies_with_it(tmp_path: Path) -> None:
    configuration = {**ROCKSDB, "state.backend.rocksdb.localdir": str(tmp_path / "local")}
    one = start(keyed(func=States()), configuration=configuration)
    one.feed([("a", lambda s: s.value.update(1))])
    assert list((tmp_path / "local").iterdir())
    one.operator.close()
    assert not list((tmp_path / "local").iterdir())


def test_a_damaged_file_of_the_database_is_told_by_name_and_no_snapshot_leaves_rows_out(tmp_path: Path) -> None:
    configuration = {**ROCKSDB, "state.backend.rocksdb.localdir": str(tmp_path)}
    one = start(keyed(func=States()), configuration=configuration)
    one.feed([(f"k{i}", lambda s: s.anything.update(random.Random(1).randbytes(4000))) for i in range(300)])
    frozen_before = one.operator.freeze(1)
    (database,) = tmp_path.glob("rocksdb-*")
    backend: Any = one.operator._backend  # type: ignore[attr-defined]
    backend._database._db.flush()
    damaged = 0
    for file in database.rglob("*.sst"):
        with file.open("r+b") as content:
            damaged += content.seek(file.stat().st_size // 2)
            content.write(bytes(4000))
    assert damaged
    frozen_after = one.operator.freeze(2)
    assert frozen_before is not None
    assert frozen_after is not None
    with pytest.raises(StorageError, match=str(database)):
        frozen_after.write(MemoryStore())
    with pytest.raises(StorageError, match=str(database)):
        one.feed([(f"k{i}", lambda s: s.anything.value()) for i in range(300)])
    assert frozen_before.write(MemoryStore()).keyed, "what was in memory then is pinned"
    one.operator.close()


def test_without_rocksdict_the_job_is_refused_with_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(InvalidJob, match=r"pip install 'tidegate\[rocksdb\]'"):
        start(keyed(func=States()), configuration=ROCKSDB)
