"""Savepoints that are made from tables, and changed; what a backend restores of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.own import own_signing
from tidegate.columnar.keys.hashing import key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from tidegate.functions.time_domain import TimeDomain
from tidegate.jobmanager.machines.restore.state_assignment import OperatorPlan
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.errors import Misuse, NotSigned, SchemaMismatch
from tidegate.model.keygroups import range_of, subtask_of
from tidegate.records.canonical.forms import canonical_key
from tidegate.records.keys import hash_keys
from tidegate.state_processor import OperatorIdentifier, OperatorTransformation, SavepointReader, SavepointWriter
from tidegate.state_reader import open_checkpoint
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.segments import open_segment_source
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.state.files.segments import read_element_table

COUNTS, OTHER = OperatorIdentifier.for_uid("counts"), OperatorIdentifier.for_uid("other")
COUNT = ValueStateDescriptor("count", Types.LONG())
ROWS = 10_000


def tables() -> Iterator[pa.Table]:
    """Keys in no order of their groups, in several tables."""
    for first in range(0, ROWS, 3_000):
        keys = list(range(first, min(ROWS, first + 3_000)))
        yield pa.table({"account": keys, "balance": [key * 2 for key in keys]})


def bootstrapped(path: Path, max_parallelism: int = 128) -> Path:
    counts = OperatorTransformation.bootstrap_with(tables()).key_by("account", Types.LONG()).transform(COUNT, "balance")
    timers = OperatorTransformation.bootstrap_with(pa.table({"account": [1, 2], "timestamp": [1_000, 2_000]}))
    last = ListStateDescriptor("last", Types.STRING())
    elements = OperatorTransformation.bootstrap_with(pa.table({"element": ["a", "b"]})).list_state(last)
    writer = SavepointWriter.new_savepoint(max_parallelism)
    writer.with_operator(COUNTS, counts, timers.key_by("account", Types.LONG()).timers(TimeDomain.EVENT_TIME), elements)
    writer.write(str(path))
    return path


def of_two_subtasks(path: Path) -> Path:
    """A savepoint of the same state, as an operator with two subtasks takes it: each has the segments of its own key
    groups, and the second has list state too."""
    location, manifest = CheckpointStorage().read_checkpoint(str(path))
    (operator,) = manifest.operators
    (whole,) = operator.subtasks.values()
    split: dict[int, OperatorSnapshot] = {}
    for subtask in range(2):
        own = [s for s in whole.keyed if subtask_of(s.key_groups.start, 128, 2) == subtask]
        split[subtask] = OperatorSnapshot(keyed=tuple(own), operator=whole.operator)
    taken = replace(operator, parallelism=2, subtasks=split)
    assert CheckpointStorage().write_manifest(location, replace(manifest, operators=(taken,))).error is None
    return path


def elements_of(path: Path, parallelism: int) -> list[list[Any]]:
    """The elements of the list state ``last`` that each subtask gets when the savepoint is restored."""
    checkpoint = open_checkpoint(str(path))
    plan = OperatorPlan(checkpoint.operators[0].described, parallelism, 128)
    found: list[list[Any]] = []
    for subtask in range(parallelism):
        dealt = plan.of(subtask)
        slices = [
            read_element_table(open_segment_source(str(path)), handle, first, end).column("element").to_pylist()
            for handle, (first, end) in zip(dealt.operator, dealt.slices, strict=True)
        ]
        found.append([element for part in slices for element in part])
    return found


def restored(path: Path, descriptor: StateDescriptor, keys: list[Any], key_type: Any, **options: Any) -> list[Any]:
    """The values that two subtasks restore, each of its keys, from what the JobManager assigns them."""
    kind, identifier, maximum = options.get("kind", "hashmap"), options.get("operator", COUNTS), 128
    (operator,) = [o for o in open_checkpoint(str(path)).operators if o.described.operator_id == identifier.operator_id]
    plan = OperatorPlan(operator.described, 2, maximum)
    found: dict[Any, Any] = {}
    for subtask in range(2):
        place = BackendPlace({"state.backend.type": kind}, str(path.parent), 0, subtask, None, lambda: 0)
        owned = range_of(subtask, maximum, 2)
        backend = open_keyed_backend(place, "op", owned, key_type)
        backend.restore(plan.of(subtask), open_segment_source(str(path)))
        handle: Any = StateStore(backend).of(descriptor)
        for key, group in zip(keys, key_groups(hash_keys(keys), maximum).tolist(), strict=True):
            if owned.start <= group <= owned.end:
                backend.set_current(canonical_key(key), group)
                found[key] = handle.value() if isinstance(descriptor, ValueStateDescriptor) else list(handle.get())
        backend.close()
    return [found[key] for key in keys]


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_a_new_savepoint_is_restored_by_every_subtask(kind: str, tmp_path: Path) -> None:
    path = bootstrapped(tmp_path / "made")
    keys = [0, 1, 4711, ROWS - 1, ROWS]
    assert restored(path, COUNT, keys, Types.LONG(), kind=kind) == [0, 2, 9422, 2 * (ROWS - 1), None]


def test_what_was_written_is_read_in_batches_of_bounded_size(tmp_path: Path) -> None:
    reader = SavepointReader.read(str(bootstrapped(tmp_path / "made")))
    assert reader.get_operators() == [COUNTS]
    assert reader.get_state_names(COUNTS) == ["_timers.event", "count", "last"]
    batches = list(reader.read_keyed_state(COUNTS, "count"))
    table = pa.concat_tables(batches)
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == {
        k: 2 * k for k in range(ROWS)
    }
    groups = table["key_group"].to_pylist()
    assert groups == sorted(groups) == key_groups(hash_keys(table["key"].to_pylist()), 128).tolist()
    timers = pa.concat_tables(reader.read_timers(COUNTS))
    assert sorted(timers["timestamp"].to_pylist()) == [1_000, 2_000]
    assert list(reader.read_timers(COUNTS, TimeDomain.PROCESSING_TIME)) == []
    (elements,) = reader.read_list_state(COUNTS, "last")
    assert elements["element"].to_pylist() == ["a", "b"]


def test_a_state_is_changed_and_everything_else_stays(tmp_path: Path) -> None:
    path = bootstrapped(tmp_path / "made")
    reader = SavepointReader.read(str(path))

    def doubled() -> Iterator[pa.Table]:
        for batch in reader.read_keyed_state(COUNTS, "count"):
            kept = batch.filter(pc.less(batch["key"], 5_000))
            yield kept.set_column(kept.schema.get_field_index("value"), "value", pc.multiply(kept["value"], 10))

    changed = OperatorTransformation.bootstrap_with(doubled()).like(reader, COUNTS, "count")
    SavepointWriter.from_existing_savepoint(str(path)).with_state(COUNTS, changed).write(str(tmp_path / "changed"))
    assert restored(tmp_path / "changed", COUNT, [1, 4_999, 5_000], Types.LONG()) == [20, 99_980, None]
    after = SavepointReader.read(str(tmp_path / "changed"))
    assert after.get_state_names(COUNTS) == ["_timers.event", "count", "last"]
    (elements,) = after.read_list_state(COUNTS, "last")
    assert elements["element"].to_pylist() == ["a", "b"]
    assert restored(path, COUNT, [1], Types.LONG()) == [2], "the old one is as it was"


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_every_subtask_of_an_operator_restores_its_part_of_what_was_written(kind: str, tmp_path: Path) -> None:
    path = of_two_subtasks(bootstrapped(tmp_path / "made"))
    reader, writer = SavepointReader.read(str(path)), SavepointWriter.from_existing_savepoint(str(path))
    for name in reader.get_state_names(COUNTS):
        tables = reader.checkpoint.tables_of(reader.state(COUNTS, name), type_names=False)
        writer.with_state(COUNTS, OperatorTransformation.bootstrap_with(tables).like(reader, COUNTS, name))
    writer.write(str(tmp_path / "again"))
    keys = list(range(ROWS))
    assert restored(tmp_path / "again", COUNT, keys, Types.LONG(), kind=kind) == [2 * key for key in keys]
    timers = pa.concat_tables(SavepointReader.read(str(tmp_path / "again")).read_timers(COUNTS))
    assert sorted(timers["timestamp"].to_pylist()) == [1_000, 2_000]


def test_elements_stay_with_their_subtask_and_new_ones_are_dealt_evenly(tmp_path: Path) -> None:
    path = of_two_subtasks(bootstrapped(tmp_path / "made"))
    reader = SavepointReader.read(str(path))
    assert elements_of(path, 2) == [["a", "b"], ["a", "b"]]

    def changed(table: pa.Table, name: str) -> list[list[Any]]:
        like = OperatorTransformation.bootstrap_with(table).like(reader, COUNTS, "last")
        SavepointWriter.from_existing_savepoint(str(path)).with_state(COUNTS, like).write(str(tmp_path / name))
        return elements_of(tmp_path / name, 2)

    (first, second) = reader.read_list_state(COUNTS, "last")
    assert changed(pa.concat_tables([first.slice(1), second]), "kept") == [["b"], ["a", "b"]]
    assert changed(pa.table({"element": ["c", "d", "e"]}), "dealt") == [["c", "d"], ["e"]]
    with pytest.raises(Misuse, match="names subtask 2, but the operator has parallelism 2"):
        changed(pa.table({"subtask": [2], "element": ["c"]}), "wrong")


def test_copies_of_broadcast_state_are_written_once(tmp_path: Path) -> None:
    rules = MapStateDescriptor("last", Types.STRING(), Types.LONG())
    broadcast = OperatorTransformation.bootstrap_with(pa.table({"key": ["a"], "value": [1]})).broadcast_state(rules)
    SavepointWriter.new_savepoint().with_operator(COUNTS, broadcast).write(str(tmp_path / "made"))
    path = of_two_subtasks(tmp_path / "made")
    reader, writer = SavepointReader.read(str(path)), SavepointWriter.from_existing_savepoint(str(path))
    tables = list(reader.checkpoint.tables_of(reader.state(COUNTS, "last"), type_names=False))
    assert [table["subtask"].to_pylist() for table in tables] == [[0], [1]]
    writer.with_state(COUNTS, OperatorTransformation.bootstrap_with(tables).like(reader, COUNTS, "last"))
    writer.write(str(tmp_path / "again"))
    assert elements_of(tmp_path / "again", 2) == [[{"key": "a", "value": 1}]] * 2


def test_operators_get_another_name_and_go(tmp_path: Path) -> None:
    path = bootstrapped(tmp_path / "made")
    writer = SavepointWriter.from_existing_savepoint(str(path)).change_operator_identifier(COUNTS, OTHER)
    writer.write(str(tmp_path / "renamed"))
    for file in path.iterdir():
        file.unlink()
    assert SavepointReader.read(str(tmp_path / "renamed")).get_operators() == [OTHER]
    assert restored(tmp_path / "renamed", COUNT, [7], Types.LONG(), operator=OTHER) == [14], (
        "it needs nothing of the old one"
    )
    SavepointWriter.from_existing_savepoint(str(tmp_path / "renamed")).remove_operator(OTHER).write(
        str(tmp_path / "empty")
    )
    assert SavepointReader.read(str(tmp_path / "empty")).get_operators() == []


def test_a_state_is_added_beside_others(tmp_path: Path) -> None:
    path = bootstrapped(tmp_path / "made")
    names = ListStateDescriptor("names", Types.STRING())
    added = OperatorTransformation.bootstrap_with(pa.table({"k": [3, 4], "value": [["a"], ["b", "c"]]}))
    writer = SavepointWriter.from_existing_savepoint(str(path))
    writer.with_state(COUNTS, added.key_by("k", Types.LONG()).transform(names)).write(str(tmp_path / "more"))
    assert restored(tmp_path / "more", names, [3, 4, 5], Types.LONG()) == [["a"], ["b", "c"], []]
    assert restored(tmp_path / "more", COUNT, [3], Types.LONG()) == [6]


def test_keys_of_several_fields_and_without_a_type(tmp_path: Path) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    keys = [("a", 1), ("b", 2), ("c", 3)]
    table = pa.table({"key": pa.array([{"f0": a, "f1": b} for a, b in keys]), "value": [1, 2, 3]})
    typed = OperatorTransformation.bootstrap_with(table).key_by("key", pair).transform(COUNT)
    untyped_table = pa.table({"key": ["x", "y"], "value": [7, 8]})
    untyped = (
        OperatorTransformation.bootstrap_with(untyped_table).key_by("key", Types.PICKLED_BYTE_ARRAY()).transform(COUNT)
    )
    SavepointWriter.new_savepoint().with_operator(COUNTS, typed).with_operator(OTHER, untyped).write(
        str(tmp_path / "made")
    )
    assert restored(tmp_path / "made", COUNT, keys, pair) == [1, 2, 3]
    assert restored(tmp_path / "made", COUNT, ["x", "y"], None, operator=OTHER) == [7, 8]
    reader = SavepointReader.read(str(tmp_path / "made"))
    again = [
        OperatorTransformation.bootstrap_with(reader.read_keyed_state(which, "count")).like(reader, which, "count")
        for which in (COUNTS, OTHER)
    ]
    writer = SavepointWriter.new_savepoint().with_operator(COUNTS, again[0]).with_operator(OTHER, again[1])
    writer.write(str(tmp_path / "again"))
    assert restored(tmp_path / "again", COUNT, keys, pair) == [1, 2, 3]
    assert restored(tmp_path / "again", COUNT, ["x", "y"], None, operator=OTHER) == [7, 8]


def test_broadcast_and_union_state(tmp_path: Path) -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    broadcast = OperatorTransformation.bootstrap_with(pa.table({"key": ["a"], "value": [1]})).broadcast_state(rules)
    union = OperatorTransformation.bootstrap_with(pa.table({"element": [5]})).union_state(
        ListStateDescriptor("u", Types.LONG())
    )
    SavepointWriter.new_savepoint().with_operator(COUNTS, broadcast, union).write(str(tmp_path / "made"))
    reader = SavepointReader.read(str(tmp_path / "made"))
    (table,) = reader.read_broadcast_state(COUNTS, "rules")
    assert table["element"].to_pylist() == [{"key": "a", "value": 1}]
    (table,) = reader.read_union_state(COUNTS, "u")
    assert table["element"].to_pylist() == [5]
    with pytest.raises(Misuse, match="is BROADCAST, not UNION"):
        reader.read_union_state(COUNTS, "rules")
    with pytest.raises(Misuse, match="is not keyed"):
        reader.read_keyed_state(COUNTS, "u")


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = bootstrapped(tmp_path / "made")
    reader, writer = SavepointReader.read(str(path)), SavepointWriter.from_existing_savepoint(str(path))
    with pytest.raises(Misuse, match=r"no operator 'other' in .*; it has 'counts'"):
        reader.read_keyed_state(OTHER, "count")
    with pytest.raises(Misuse, match="no state 'total'"):
        reader.read_keyed_state(COUNTS, "total")
    for change in (writer.remove_operator, lambda of: writer.change_operator_identifier(of, COUNTS), writer.with_state):
        with pytest.raises(Misuse, match="there is no operator 'other' in the savepoint; it has 'counts'"):
            change(OTHER)
    with pytest.raises(Misuse, match="there is an operator 'counts' already"):
        writer.with_operator(COUNTS)
    with pytest.raises(Misuse, match="is not empty"):
        writer.write(str(path))
    with pytest.raises(Misuse, match="not an operator id"):
        OperatorIdentifier.for_uid_hash("counts")


@pytest.mark.parametrize(
    ("table", "error", "text"),
    [
        (pa.table({"key": [1, 2, 1], "value": [1, 2, 3]}), Misuse, r"there are several rows for {'key': 1}"),
        (
            pa.table({"key": ["a"], "value": [1]}),
            SchemaMismatch,
            "column 'key' of the table is of type string, and the state takes int64",
        ),
        (pa.table({"key": [1], "total": [1]}), SchemaMismatch, "and the state needs 'value' too"),
        (
            pa.table({"key": [1], "value": [1.5]}),
            SchemaMismatch,
            "column 'value' of the table is of type double, and the state takes int64",
        ),
    ],
)
def test_tables_that_do_not_fit_leave_nothing_behind(
    table: pa.Table, error: type[Exception], text: str, tmp_path: Path
) -> None:
    wrong = OperatorTransformation.bootstrap_with(table).key_by("key", Types.LONG()).transform(COUNT)
    writer = SavepointWriter.new_savepoint().with_operator(COUNTS, wrong)
    with pytest.raises(error, match=text):
        writer.write(str(tmp_path / "made"), temporary_directory=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_signed_where_the_configuration_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bootstrapped(tmp_path / "made")
    signing = CheckpointStorage(signing=own_signing())
    with pytest.raises(NotSigned):
        signing.read_checkpoint(str(path))
    monkeypatch.setenv("TIDEGATE_SECURITY_SIGNING_MANIFESTS", "true")
    SavepointWriter.from_existing_savepoint(str(path)).write(str(tmp_path / "copy"))
    _, manifest = signing.read_checkpoint(str(tmp_path / "copy"))
    before = CheckpointStorage().read_checkpoint(str(path))[1]
    assert [operator.operator_id for operator in manifest.operators] == [o.operator_id for o in before.operators]
    assert restored(tmp_path / "copy", COUNT, [1, 5_000], Types.LONG()) == [2, 10_000]
