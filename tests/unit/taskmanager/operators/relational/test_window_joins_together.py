"""Window joins give what a plain reference gives, row by row: from memory, from state, by bytes and by tuples, and from the state of versions before."""

from __future__ import annotations

import random
from ast import literal_eval
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore
from tests.unit.taskmanager.operators.relational.subtasks import MAX_PARALLELISM, Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, join
from tests.unit.taskmanager.operators.relational.test_state_by_entries import WINDOWED, checkpoint, window_join
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.checkpoint import RestoredOperator
from tidegate.model.errors import InternalError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.plan import nodes
from tidegate.plan.expressions import RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import WindowAttachedWindowing
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, Timer
from tidegate.taskmanager.operators.relational import held_rows, row_blocks
from tidegate.taskmanager.operators.relational import window_join as module
from tidegate.taskmanager.operators.relational.relational_operator import listed

TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
NONE = (None,) * len(WINDOWED.fields)
Fed = Sequence[tuple[int, Sequence[Change]]]


def joined(join_type: str, *, has_condition: bool, has_key: bool, is_rowtime: bool = True) -> nodes.WindowJoin1:
    """With the condition that the left value is less than the right one."""
    node = window_join()
    width = len(WINDOWED.fields)
    refs = tuple(RexInputRef(input_index=at, type=WINDOWED.fields[1].type) for at in (1, width + 1))
    condition = RexCall(type=LogicalType(TypeRoot.BOOLEAN), operands=refs, internal_name="$<$1")
    keys = (0,) if has_key else ()
    spec = msgspec.structs.replace(
        join("INNER", has_condition=False).join_spec,
        join_type=join_type,
        left_keys=keys,
        right_keys=keys,
        filter_nulls=(True,) * len(keys),
        non_equi_condition=condition if has_condition else None,
    )
    right = (
        () if join_type in ("SEMI", "ANTI") else tuple(Field(f"{field.name}0", field.type) for field in WINDOWED.fields)
    )
    windowings = [
        msgspec.structs.replace(found, is_rowtime=is_rowtime) for found in (node.left_windowing, node.right_windowing)
    ]
    return msgspec.structs.replace(
        node,
        join_spec=spec,
        output_type=LogicalType(TypeRoot.ROW, fields=(*WINDOWED.fields, *right)),
        left_windowing=windowings[0],
        right_windowing=windowings[1],
    )


def changes_of_inputs(seed: int, count: int) -> list[tuple[int, list[Change]]]:
    """Batches of an input each, with rows of windows that have fired among them."""
    rng = random.Random(seed)
    keys = [*(f"k{number}" for number in range(25)), None]
    found = []
    for number in range(count):
        rows: list[Change] = []
        for _ in range(rng.randrange(1, 60)):
            start = 10_000 * max(0, number // 3 - rng.choice((0, 0, 0, 1, 2)))
            rows.append((INSERT, (rng.choice(keys), rng.choice((1, 2, 3, None)), start + 5, start, start + 10_000)))
        found.append((rng.randrange(2), rows))
    return found


class Reference:
    """Flink's window join, one row after another."""

    def __init__(self, node: nodes.WindowJoin1, shift: TimeShift | None = None) -> None:
        self._node, self._due = node, (shift or TimeShift()).due
        self._rows: tuple[list[Row], list[Row]] = ([], [])
        self._now = -1 << 62
        self.emitted: list[Change] = []

    def feed(self, changes: Sequence[Change], index: int) -> None:
        self._rows[index].extend(row for _, row in changes if self._due(row[4] - 1) > self._now)

    def watermark(self, ms: int) -> None:
        self._now = ms
        found = {(self._due(row[4] - 1), row[3], row[4]) for side in self._rows for row in side}
        for _due, *span in sorted(window for window in found if window[0] <= ms):
            left, right = ([row for row in side if [row[3], row[4]] == span] for side in self._rows)
            self.emitted += [(INSERT, row) for row in self._joined(left, right)]
        for side in self._rows:
            side[:] = [row for row in side if self._due(row[4] - 1) > ms]

    def _joined(self, left: list[Row], right: list[Row]) -> list[Row]:
        kind, made = self._node.join_spec.join_type, []
        alone = set(range(len(right)))
        for row in left:
            places = [at for at, other in enumerate(right) if self._joins(row, other)]
            alone -= set(places)
            if kind in ("SEMI", "ANTI"):
                made += [row] if bool(places) == (kind == "SEMI") else []
            else:
                made += [row + right[at] for at in places]
                made += [row + NONE] if not places and kind in ("LEFT", "FULL") else []
        return made + ([NONE + right[at] for at in sorted(alone)] if kind in ("RIGHT", "FULL") else [])

    def _joins(self, left: Row, right: Row) -> bool:
        spec = self._node.join_spec
        if any(left[a] is None or left[a] != right[b] for a, b in zip(spec.left_keys, spec.right_keys, strict=True)):
            return False
        return spec.non_equi_condition is None or (
            left[1] is not None and right[1] is not None and bool(left[1] < right[1])
        )


def expected(node: nodes.WindowJoin1, batches: Fed) -> list[str]:
    reference = Reference(node)
    for number, (index, changes) in enumerate(batches):
        reference.feed(changes, index)
        if number % 3 == 2:
            reference.watermark(10_000 * (number // 3) - 1)
    reference.watermark(END_OF_TIME)
    return list(map(repr, reference.emitted))


def emitted(node: nodes.WindowJoin1, batches: Fed, backend: str, rescales: Sequence[int] = ()) -> list[str]:
    keys = [list(node.join_spec.left_keys), list(node.join_spec.right_keys)]
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], keys, 1, {"state.backend.type": backend})
    left = list(rescales)
    for number, (index, changes) in enumerate(batches):
        subtasks.feed(changes, index)
        if number % 3 == 2:
            subtasks.watermark(10_000 * (number // 3) - 1)
            if left:
                subtasks.rescale(left.pop(0))
                subtasks.watermark(10_000 * (number // 3) - 1)
    subtasks.watermark(END_OF_TIME)
    found = list(map(repr, subtasks.changes))
    for running in subtasks.running:
        assert isinstance(running.operator, module.WindowJoin)
        assert running.operator._backend.entry_keys("state") == []
    subtasks.close()
    return found


def by_key(changes: Sequence[str]) -> list[str]:
    """What was emitted by key, each key's in its order."""
    rows = [literal_eval(change)[1] for change in changes]
    return [repr(row) for row in sorted(rows, key=lambda row: repr(row[0] if row[3] is not None else row[5]))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("has_condition", [False, True])
@pytest.mark.parametrize("join_type", TYPES)
def test_keys_join_together_as_each_does(join_type: str, has_condition: bool, backend: str) -> None:
    node = joined(join_type, has_condition=has_condition, has_key=True)
    batches = changes_of_inputs(1, 20)
    found = expected(node, batches)
    assert len(found) > 20
    assert emitted(node, batches, backend) == found
    assert sorted(emitted(node, batches, backend, (2, 3, 2))) == sorted(found)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows_for_bytes", [1, 3, 1 << 30])
@pytest.mark.parametrize("has_key", [True, False])
def test_rows_that_are_in_state_join_in_their_order(
    has_key: bool, rows_for_bytes: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows are in state, and some in memory."""
    monkeypatch.setattr(module, "MOST_HELD_ROWS", 40)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(row_blocks, "ROWS_FOR_BYTES", rows_for_bytes)
    node, batches = joined("FULL", has_condition=True, has_key=has_key), changes_of_inputs(3, 20)
    found = emitted(node, batches, backend)
    assert by_key(found) == by_key(expected(node, batches))
    assert has_key or found == expected(node, batches)


@pytest.mark.parametrize("join_type", TYPES)
def test_a_join_by_the_window_alone_gives_what_rows_give(join_type: str) -> None:
    node, batches = joined(join_type, has_condition=True, has_key=False), changes_of_inputs(2, 15)
    found = expected(node, batches)
    assert found
    assert emitted(node, batches, "hashmap") == found
    assert emitted(node, batches, "hashmap", (1, 1, 1)) == found


def test_a_join_of_sessions_has_windows_of_different_keys_that_end_together() -> None:
    """And two windows of one key, of which the earlier one is the first."""
    node = joined("FULL", has_condition=False, has_key=True)
    assert isinstance(node.left_windowing, WindowAttachedWindowing)
    rows: list[Change] = [
        (INSERT, (key, number, 5, start, 10_000))
        for number, (key, start) in enumerate((("a", 7_000), ("b", 2_000), ("a", 1_000), ("c", 7_000)))
    ]
    batches = [(0, rows), (1, rows[:3]), (1, rows[1:2])]
    assert emitted(node, batches, "hashmap") == expected(node, batches)
    assert len(expected(node, batches)) == 5


def test_many_small_batches_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_rows, "MOST_PARTS", 3)
    node, batches = joined("FULL", has_condition=False, has_key=True), changes_of_inputs(4, 20)
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], [[0], [0]], 1)
    reference = Reference(node)
    for number, (index, changes) in enumerate(batches):
        subtasks.watermark(10_000 * (number // 3) - 10_001)
        for change in changes:
            subtasks.feed([change], index)
            subtasks.watermark(10_000 * (number // 3) - 10_001)
        reference.watermark(10_000 * (number // 3) - 10_001)
        reference.feed(changes, index)
    subtasks.watermark(END_OF_TIME)
    reference.watermark(END_OF_TIME)
    assert subtasks.changes == reference.emitted
    subtasks.close()


def test_keys_of_lists_join_by_their_values() -> None:
    """They have no numbers by arrays."""
    node = joined("INNER", has_condition=False, has_key=True)
    lists = LogicalType(TypeRoot.ARRAY, children=(WINDOWED.fields[1].type,))
    kind = LogicalType(TypeRoot.ROW, fields=(Field("k", lists), *WINDOWED.fields[1:]))
    both = LogicalType(TypeRoot.ROW, fields=(*kind.fields, *(Field(f"{f.name}0", f.type) for f in kind.fields)))
    node = msgspec.structs.replace(node, output_type=both)
    subtasks = Subtasks(node, [kind, kind], [[0], [0]], 1)
    subtasks.feed([(INSERT, ((1, 2), 1, 5, 0, 10_000)), (INSERT, ((2,), 2, 5, 0, 10_000))])
    subtasks.feed([(INSERT, ((1, 2), 3, 5, 0, 10_000))], 1)
    assert subtasks.watermark(END_OF_TIME) == [(INSERT, ((1, 2), 1, 5, 0, 10_000, (1, 2), 3, 5, 0, 10_000))]
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_by_processing_time_rows_wait_for_the_clock(backend: str) -> None:
    node = joined("FULL", has_condition=False, has_key=True, is_rowtime=False)
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], [[0], [0]], 1, {"state.backend.type": backend})
    early, late = ("a", 1, 5, 0, 10_000), ("a", 1, 15_000, 10_000, 20_000)
    subtasks.feed([(INSERT, early), (INSERT, late)])
    subtasks.feed([(INSERT, early)], 1)
    assert subtasks.watermark(50_000) == []
    assert subtasks.advance(9_998) == []
    assert subtasks.advance(9_999) == [(INSERT, early + early)]
    subtasks.rescale(2)
    assert subtasks.advance(30_000) == [(INSERT, late + NONE)]
    subtasks.close()


def test_windows_of_local_time_fire_when_it_is_over() -> None:
    """With the hour that is there twice, and the one that is not there."""
    local = LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3, kind=TimeKind.ROWTIME)
    node = joined("FULL", has_condition=False, has_key=True)
    windowing = msgspec.structs.replace(node.left_windowing, time_attribute_type=local)
    node = msgspec.structs.replace(node, left_windowing=windowing, right_windowing=windowing)
    zone, hour = "Europe/Berlin", 3_600_000
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], [[0], [0]], 1, time_zone=zone)
    reference = Reference(node, TimeShift(zone))
    for day in (1_711_843_200_000, 1_729_987_200_000):  # the last Sundays of March and October 2024
        for start in range(day - 2 * hour, day + 5 * hour, hour):
            rows: list[Change] = [(INSERT, (key, 1, 5, start, start + hour)) for key in ("a", "b")]
            for index in (0, 1):
                subtasks.feed(rows[index:], index)
                reference.feed(rows[index:], index)
        for ms in range(day - 4 * hour, day + 6 * hour, hour // 2):
            subtasks.watermark(ms - 1)
            reference.watermark(ms - 1)
            assert subtasks.changes == reference.emitted
    assert len(reference.emitted) == 28
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_adds_the_rows_that_came_since(backend: str) -> None:
    configuration = {"state.backend.type": backend, "execution.checkpointing.incremental": "true"}
    node = joined("INNER", has_condition=False, has_key=True)
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], [[0], [0]], 1, configuration)
    rows: list[Change] = [(INSERT, (f"k{i}", i, 5, 0, 10_000)) for i in range(5_000)]
    subtasks.feed(rows)
    whole, _ = checkpoint(subtasks.running[0], 1)
    subtasks.feed(rows[:1], 1)
    written, snapshot = checkpoint(subtasks.running[0], 2)
    assert 0 < written < 10_000 < whole
    subtasks.restart(RestoredOperator(keyed=snapshot.keyed))
    subtasks.feed(rows[1:2], 1)
    assert sorted(subtasks.watermark(END_OF_TIME)) == [(INSERT, row + row) for _, row in rows[:2]]
    subtasks.close()


def by_entries(rows: Sequence[Sequence[Row]]) -> list[tuple[Any, Any]]:
    """Rows of a key as versions before kept them, each by itself."""
    found: list[tuple[Any, Any]] = [((10_000,), ((0, 10_000),))]
    for index, side in enumerate(rows):
        found += [(name, value) for name, value, _ in listed((0, 10_000, index), side)]
    return found


def as_one(rows: Sequence[Sequence[Row]]) -> list[tuple[Any, Any]]:
    """Rows of a key as the first versions kept them."""
    return [(None, {(0, 10_000): [list(side) for side in rows]})]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("entries_of", [by_entries, as_one])
@pytest.mark.parametrize("has_key", [True, False])
def test_rows_that_versions_before_stored_by_key_join_with_new_ones(
    has_key: bool, entries_of: Callable[[Sequence[Sequence[Row]]], list[tuple[Any, Any]]], backend: str
) -> None:
    node = joined("FULL", has_condition=False, has_key=has_key)
    keys = [[0], [0]] if has_key else [[], []]
    before = KeyedStateBackend("op", KeyGroupRange(0, MAX_PARALLELISM - 1))
    stored: tuple[list[Change], list[Change]] = ([], [])
    for name in ("a", "b") if has_key else ("a",):
        group = int(key_groups(hash_columns([pa.array([name])]), MAX_PARALLELISM)[0]) if has_key else 0
        rows = [[(name, number, 5, 0, 10_000) for number in numbers] for numbers in ((1, 2), (3,))]
        for entry, value in entries_of(rows):
            before.table("state", "value", Types.PICKLED_BYTE_ARRAY()).write(
                group, (name if has_key else (), entry), value
            )
        before.timers(EVENT_TIMERS).add(Timer(9_999, name if has_key else (), group, None))
        for side, made in zip(stored, rows, strict=True):
            side.extend((INSERT, row) for row in made)
    frozen = before.freeze(1)
    snapshot = frozen.write(MemoryStore())
    frozen.release()
    more: list[Change] = [(INSERT, (name, 4, 5, 0, 10_000)) for name in ("a", "c")]
    reference = Reference(node)
    for index, side in enumerate(stored):
        reference.feed(side, index)
        reference.feed(more, index)
    reference.watermark(END_OF_TIME)
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], keys, 1, {"state.backend.type": backend})
    subtasks.restart(RestoredOperator(keyed=snapshot.keyed))
    for index in (0, 1):
        subtasks.feed(more, index)
    subtasks.rescale(2 if has_key else 1)
    subtasks.rescale(1)
    assert subtasks.watermark(9_998) == []
    assert sorted(map(repr, subtasks.watermark(END_OF_TIME))) == sorted(map(repr, reference.emitted))
    running = subtasks.running[0].operator
    assert isinstance(running, module.WindowJoin)
    assert running._backend.entry_keys("state") == []
    subtasks.close()


def test_a_row_of_another_subtask_is_an_error() -> None:
    node = joined("INNER", has_condition=False, has_key=True)
    subtasks = Subtasks(node, [WINDOWED, WINDOWED], [[0], [0]], 2)
    columns = [pa.array([f"k{number}" for number in range(20)])]
    data = pa.RecordBatch.from_arrays(
        [*columns, *(pa.array([1] * 20, pa.int64()).cast(field.type) for field in list(subtasks.schemas[0])[1:])],
        schema=subtasks.schemas[0],
    )
    subtasks.running[0].operator.process(ArrowBatch(data), 0)
    with pytest.raises(InternalError, match="came to the subtask of key groups 0 to 63"):
        subtasks.watermark(0)
    subtasks.close()
