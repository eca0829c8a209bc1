"""What grows without bound for a key is entries: a checkpoint after one more row writes a few of them, however many rows the key has; and
savepoints that hold the one value of versions before are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Running
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks, fold
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, LEFT, RIGHT, call, in_order, join
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import (
    BIGINT,
    INT,
    ROWS,
    STRING,
    TIME,
    window_aggregate,
)
from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.functions.sql.rows import Change
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.keygroups import KeyGroupRange
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall, CurrentRow, UnboundedPreceding
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import (
    ConstantRange,
    ContextResolvedTable,
    IntervalBounds,
    IntervalJoinSpec,
    OverGroup,
    OverSpec,
    PartitionSpec,
    ResolvedCatalogTable,
    ResolvedSchema,
    Retract,
    SortField,
    SortSpec,
    StateMetadata,
    TableSink,
    TumblingWindow,
    WindowAttachedWindowing,
)
from tidegate.taskmanager.keyed_state.heap.backend import KeyedStateBackend
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, Timer
from tidegate.taskmanager.operators.relational import kept_counts

ROWS_OF_KEY = 20_000
MOST_BYTES = 8_000
"""Bytes that a checkpoint may write after one row: a file of Arrow's with some rows."""


@pytest.fixture(autouse=True)
def _few_counts_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_counts, "MOST_IN_ACCUMULATOR", 64)


@dataclass
class Case:
    """``row``: the rows that the key is filled with, by number; ``more``: the changes, by input, whose checkpoint is looked at."""

    node: Any
    types: Sequence[LogicalType]
    keys: Sequence[Sequence[int]]
    row: Callable[[int], tuple[Any, ...]]
    more: Sequence[tuple[int, Change]]


def upsert(upsert_key: tuple[int, ...] | None) -> nodes.Sink2:
    table = ContextResolvedTable("`c`.`d`.`t`", ResolvedCatalogTable(ResolvedSchema(())))
    return nodes.Sink2(
        id=1,
        output_type=LEFT,
        description="Sink",
        dynamic_table_sink=TableSink(table),
        input_changelog_mode=("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
        require_upsert_materialize=True,
        input_upsert_key=upsert_key,
    )


def interval_join() -> nodes.IntervalJoin1:
    bounds = IntervalBounds(
        is_event_time=True, left_lower_bound=-2_000, left_upper_bound=5_000, left_time_index=2, right_time_index=2
    )
    spec = msgspec.structs.replace(join("FULL", has_condition=False).join_spec, join_type="FULL")
    more = (Field("k0", STRING), Field("v0", INT), Field("t0", TIME))
    return nodes.IntervalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, *more)),
        description="IntervalJoin",
        interval_join_spec=IntervalJoinSpec(join_spec=spec, window_bounds=bounds),
    )


def temporal_join() -> nodes.TemporalJoin1:
    more = (Field("k0", STRING), Field("v0", INT), Field("t0", TIME))
    return nodes.TemporalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, *more)),
        description="TemporalJoin",
        join_spec=msgspec.structs.replace(join("LEFT", has_condition=False).join_spec, join_type="LEFT"),
        is_temporal_function_join=False,
        left_time_attribute_index=2,
        right_time_attribute_index=2,
    )


def over(*, is_rows: bool = True) -> nodes.OverAggregate1:
    group = OverGroup(
        order_by=SortSpec((SortField(2, True, False),)),
        is_rows=is_rows,
        lower_bound=UnboundedPreceding(),
        upper_bound=CurrentRow(),
        agg_calls=(call("$COUNT$1", BIGINT),),
    )
    return nodes.OverAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("n", BIGINT))),
        description="OverAggregate",
        over_spec=OverSpec(partition=PartitionSpec((0,)), groups=(group,), constants=(), original_input_fields=3),
    )


WINDOWED = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("window_start", TIME), Field("window_end", TIME)))


def window_join() -> nodes.WindowJoin1:
    windowing = WindowAttachedWindowing(
        window=TumblingWindow(size="PT10S"),
        time_attribute_type=TIME,
        window_start=3,
        window_end=4,
        is_rowtime=True,
    )
    more = tuple(Field(f"{field.name}0", field.type) for field in WINDOWED.fields)
    return nodes.WindowJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*WINDOWED.fields, *more)),
        description="WindowJoin",
        join_spec=msgspec.structs.replace(join("INNER", has_condition=False).join_spec, join_type="INNER"),
        left_windowing=windowing,
        right_windowing=windowing,
    )


def aggregate(*calls: AggregateCall, ttl_ms: int = 0) -> nodes.GroupAggregate1:
    """Returns the aggregate of rows that may go, by ``k``, which emits one change for each batch."""
    names = [Field(f"a{i}", made.type) for i, made in enumerate(calls)]
    return nodes.GroupAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(ROWS.fields[0], *names)),
        description="GroupAggregate",
        grouping=(0,),
        agg_calls=calls,
        agg_call_need_retractions=(True,) * len(calls),
        generate_update_before=True,
        need_retraction=True,
        configuration={"table.exec.mini-batch.enabled": "true"},
        state=(StateMetadata(index=0, ttl=f"{ttl_ms} ms", name="groupAggregateState"),),
    )


DISTINCT, EXTREMES = call("$COUNT$1", BIGINT, 1, distinct=True), (call("$MIN$1", INT, 1), call("$MAX$1", INT, 1))

CASES = {
    "distinct values": Case(
        aggregate(DISTINCT), [ROWS], [[0]], lambda i: ("a", i, 5), [(0, (0, ("a", -1, 5))), (0, (3, ("a", 7, 5)))]
    ),
    "MIN and MAX of rows that go": Case(
        aggregate(*EXTREMES),
        [ROWS],
        [[0]],
        lambda i: ("a", i, 5),
        [(0, (0, ("a", -1, 5))), (0, (3, ("a", -1, 5)))],
    ),
    "join without keys": Case(
        join("INNER", has_keys=False), [LEFT, RIGHT], [[], []], lambda i: (i, "p"), [(0, (0, (-1, "p")))]
    ),
    "outer join of one key": Case(
        join("FULL"), [LEFT, RIGHT], [[0], [0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (3, (1, "p7")))]
    ),
    "anti join of one key": Case(
        join("ANTI", has_condition=False), [LEFT, RIGHT], [[0], [0]], lambda i: (1, f"p{i}"), [(0, (3, (1, "p7")))]
    ),
    "interval join": Case(
        interval_join(), [ROWS, ROWS], [[0], [0]], lambda i: ("a", i, 1_000 * i), [(0, (0, ("a", 1, 5_000)))]
    ),
    "interval join at one time": Case(
        interval_join(), [ROWS, ROWS], [[0], [0]], lambda i: ("a", i, 5_000), [(0, (0, ("a", 1, 5_000)))]
    ),
    "temporal join of rows that wait": Case(
        temporal_join(), [ROWS, ROWS], [[0], [0]], lambda i: ("a", i, i), [(1, (0, ("a", 1, 5)))]
    ),
    "OVER of rows that wait": Case(over(), [ROWS], [[0]], lambda i: ("a", i, i), [(0, (0, ("a", 1, 5)))]),
    "OVER of rows of one time": Case(over(), [ROWS], [[0]], lambda i: ("a", i, 5), [(0, (0, ("a", 1, 5)))]),
    "windows of one key": Case(
        window_aggregate(TumblingWindow(size="PT10S")),
        [ROWS],
        [[0]],
        lambda i: ("a", 1, 10_000 * i),
        [(0, (0, ("a", 1, 5)))],
    ),
    "window join": Case(
        window_join(),
        [WINDOWED, WINDOWED],
        [[0], [0]],
        lambda i: ("a", i, 5, 0, 10_000),
        [(0, (0, ("a", 1, 5, 0, 10_000)))],
    ),
    "upserts of one key": Case(
        upsert(None), [LEFT], [[0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (3, (1, "p7")))]
    ),
    "upserts with a key of their own": Case(
        upsert((1,)), [LEFT], [[0]], lambda i: (1, f"p{i}"), [(0, (0, (1, "q"))), (0, (2, (1, "p7")))]
    ),
}


def checkpoint(running: Running, number: int) -> tuple[int, OperatorSnapshot]:
    """Returns how many bytes it has written, and the snapshot. The next one builds upon it."""
    store = MemoryStore()
    running.operator.prepare_snapshot(number)
    running.operator.context.checkpoint_options = CheckpointOptions(
        location="/l", shared_location="/s", oldest_base_id=1
    )
    frozen = running.operator.freeze(number)
    assert frozen is not None
    found = frozen.write(store)
    frozen.release()
    running.operator.notify_checkpoint_complete(number)
    return sum(map(len, store.contents)), found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_after_one_row_writes_some_entries(name: str, backend: str) -> None:
    case, count = CASES[name], ROWS_OF_KEY if backend == "hashmap" else 2_000
    configuration = {"state.backend.type": backend, "execution.checkpointing.incremental": "true"}
    subtasks = Subtasks(case.node, case.types, case.keys, 1, configuration)
    (running,) = subtasks.running
    subtasks.feed([(0, case.row(i)) for i in range(count)])
    whole, _ = checkpoint(running, 1)
    for index, change in case.more:
        subtasks.feed([change], index)
    written, _ = checkpoint(running, 2)
    assert 0 < written < MOST_BYTES < whole, (written, whole)
    subtasks.close()


def _held(*rows: Any) -> dict[Any, list[Any]]:
    return {row: [row, count, matches, 0] for row, count, matches in rows}


P, Q = (1, "p"), (1, "q")
A, B = ("a", 1, 5_000), ("a", 2, 6_000)
MANY = range(100)
BEFORE: dict[str, tuple[Any, dict[str, Any], Sequence[tuple[int, Change]], Sequence[tuple[int, Change]]]] = {
    "distinct values": (
        "a",
        {"state": [101, [[{(i,): 1 + (i == 3) for i in MANY}, [100]]]]},
        [(0, (0, ("a", i, 5))) for i in (*MANY, 3)],
        [(0, (3, ("a", 3, 5))), (0, (0, ("a", 7, 5))), (0, (3, ("a", 3, 5))), (0, (0, ("a", 100, 5)))],
    ),
    "MIN and MAX of rows that go": (
        "a",
        {"state": [100, [[0, dict.fromkeys(MANY, 1)], [99, dict.fromkeys(MANY, 1)]]]},
        [(0, (0, ("a", i, 5))) for i in MANY],
        [(0, (3, ("a", i, 5))) for i in (0, 99, 50, 1, *range(2, 50))],
    ),
    "outer join of one key": (
        1,
        {"left": _held((P, 2, 1), (Q, 1, 0)), "right": _held((Q, 1, 2))},
        [(0, (0, P)), (0, (0, P)), (0, (0, Q)), (1, (0, Q))],
        [(0, (3, P)), (0, (3, P)), (1, (0, P)), (1, (3, Q))],
    ),
    "interval join": (
        "a",
        {"state": [[[5_000, A, True], [20_000, ("a", 2, 20_000), False]], [[5_500, ("a", 9, 5_500), True]]]},
        [(0, (0, A)), (1, (0, ("a", 9, 5_500))), (0, (0, ("a", 2, 20_000)))],
        [(1, (0, ("a", 8, 5_600)))],
    ),
    "temporal join of rows that wait": (
        "a",
        {
            "state": [
                [(5_000, 0, A), (3_000, 0, ("a", 3, 3_000))],
                {1_000: (0, ("a", 7, 1_000)), 4_000: (3, ("a", 7, 4_000))},
            ]
        },
        [(0, (0, A)), (0, (0, ("a", 3, 3_000))), (1, (0, ("a", 7, 1_000))), (1, (3, ("a", 7, 4_000)))],
        [(0, (0, ("a", 4, 3_500))), (1, (0, ("a", 8, 4_500)))],
    ),
    "OVER of rows that wait": (
        "a",
        {"state": [{5_000: [A], 6_000: [B, B]}, [0, [[0]]], []]},
        [(0, (0, A)), (0, (0, B)), (0, (0, B))],
        [],
    ),
    "windows of one key": (
        "a",
        {"state": [("a",), {(0, 10_000): [2, [[2], [3, 2]]]}]},
        [(0, (0, A)), (0, (0, B))],
        [(0, (0, ("a", 7, 7_000))), (0, (0, ("a", 7, 17_000)))],
    ),
    "window join": (
        "a",
        {"state": {(0, 10_000): [[(*A, 0, 10_000)], [(*B, 0, 10_000)]]}},
        [(0, (0, (*A, 0, 10_000))), (1, (0, (*B, 0, 10_000)))],
        [(0, (0, (*B, 0, 10_000)))],
    ),
    "upserts of one key": (
        1,
        {"state": [P, Q, P]},
        [(0, (0, P)), (0, (0, Q)), (0, (0, P))],
        [(0, (3, P)), (0, (3, P)), (0, (0, P)), (0, (3, P)), (0, (3, Q))],
    ),
    "upserts with a key of their own": (
        1,
        {"state": [P, Q]},
        [(0, (0, P)), (0, (0, Q))],
        [(0, (2, P)), (0, (3, Q)), (0, (3, P))],
    ),
}


TIMERS = {"window join": 9_999}
"""When the key has a timer of event time, of operators whose timers are other ones now."""


def savepoint_of_before(
    key: Any, states: dict[str, Any], group: int, snapshot: OperatorSnapshot, timer_ms: int | None
) -> RestoredOperator:
    """Returns the one value of the key in each state, and the timers of a snapshot, or the one at ``timer_ms``."""
    backend = KeyedStateBackend("op", KeyGroupRange(0, 127))
    for name, value in states.items():
        backend.table(name, "value", Types.PICKLED_BYTE_ARRAY()).write(group, (key, None), value)
    if timer_ms is not None:
        backend.timers(EVENT_TIMERS).add(Timer(timer_ms, key, group, None))
    frozen = backend.freeze(1)
    written = frozen.write(MemoryStore())
    frozen.release()
    if timer_ms is not None:
        return RestoredOperator(keyed=written.keyed)
    timers = tuple(segment for segment in snapshot.keyed if segment.state_name.startswith("_timers"))
    return RestoredOperator(keyed=(*written.keyed, *timers))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BEFORE)
def test_one_value_of_a_key_from_a_savepoint_of_before_becomes_entries(name: str, backend: str) -> None:
    key, states, first, then = BEFORE[name]
    case = CASES[name]
    taken = Subtasks(case.node, case.types, case.keys, 1, {"state.backend.type": backend})
    for index, change in first:
        taken.feed([change], index)
    snapshot = taken.running[0].snapshot()
    group = int(key_groups(hash_columns([pa.array([key], pa.string() if key == "a" else pa.int32())]), 128)[0])
    restored = Subtasks(case.node, case.types, case.keys, 1, {"state.backend.type": backend})
    restored.restart(savepoint_of_before(key, states, group, snapshot, TIMERS.get(name)))
    for index, change in then:
        assert in_order(restored.feed([change], index)) == in_order(taken.feed([change], index))
    assert in_order(restored.watermark(END_OF_TIME)) == in_order(taken.watermark(END_OF_TIME))
    taken.close()
    restored.close()


@pytest.mark.parametrize("join_type", ["INNER", "FULL", "SEMI"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_versions_before_stored_beside_their_names_are_read(backend: str, join_type: str) -> None:
    node = join(join_type, has_condition=False)
    configuration = {"state.backend.type": backend}
    taken, restored = (Subtasks(node, [LEFT, RIGHT], [[0], [0]], 1, configuration) for _ in range(2))
    taken.feed([(0, P), (0, P), (0, Q)])
    taken.feed([(0, Q)], 1)
    group = int(key_groups(hash_columns([pa.array([1], pa.int32())]), 128)[0])
    before = KeyedStateBackend("op", KeyGroupRange(0, 127))
    matches = 1 if join_type == "FULL" else 0
    for name, rows in {"left": [(P, 2, 1), (Q, 1, 1)], "right": [(Q, 1, 3 * matches)]}.items():
        entries = before.entries_by_key(name, Types.PICKLED_BYTE_ARRAY())
        for row, *counts in rows:
            entries.write(group, (1, row), (row, *counts))
    restored.restart(RestoredOperator(keyed=before.freeze(1).write(MemoryStore()).keyed))
    for index, change in [(0, (3, P)), (0, (0, Q)), (1, (0, P)), (1, (3, Q)), (0, (3, Q)), (1, (3, P)), (0, (0, P))]:
        assert in_order(restored.feed([change], index)) == in_order(taken.feed([change], index))
    taken.close()
    restored.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_that_is_its_name_is_written_once(backend: str) -> None:
    subtasks = Subtasks(
        join("INNER", has_condition=False), [LEFT, RIGHT], [[0], [0]], 1, {"state.backend.type": backend}
    )
    text = "a text that is found again"
    subtasks.feed([(0, (number, text)) for number in range(500)])
    found = subtasks.running[0].snapshot()
    written = b"".join(segment.handle.data or b"" for segment in found.keyed)
    assert 500 <= written.count(text.encode()) < 600
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_with_nan_are_found_again_and_zeros_of_different_signs_are_different_rows(backend: str) -> None:
    kind = LogicalType(TypeRoot.ROW, fields=(Field("a", INT), Field("x", LogicalType(TypeRoot.DOUBLE))))
    node = msgspec.structs.replace(
        join("INNER", has_condition=False),
        output_type=LogicalType(TypeRoot.ROW, fields=(*kind.fields, *RIGHT.fields)),
    )
    subtasks = Subtasks(node, [kind, RIGHT], [[0], [0]], 1, {"state.backend.type": backend})
    subtasks.feed([(0, (1, float("nan"))), (0, (1, 0.0)), (0, (1, -0.0))])
    subtasks.rescale(1)
    subtasks.feed([(3, (1, float("nan"))), (3, (1, 0.0))])
    assert [str(row) for _, row in subtasks.feed([(0, (1, "p"))], 1)] == ["(1, -0.0, 1, 'p')"]
    subtasks.close()


def test_nan_is_larger_than_all_numbers_and_a_row_with_it_is_found_again() -> None:
    row_kind = LogicalType(TypeRoot.ROW, fields=(Field("a", INT), Field("x", LogicalType(TypeRoot.DOUBLE))))
    node = nodes.Rank1(
        id=1,
        output_type=row_kind,
        description="Rank",
        rank_type="ROW_NUMBER",
        partition=PartitionSpec((0,)),
        order_by=SortSpec((SortField(1, True, False),)),
        rank_range=ConstantRange(1, 2),
        rank_strategy=Retract(),
        generate_update_before=True,
        output_row_number=False,
    )
    subtasks = Subtasks(node, [row_kind], [[0]], 1)
    rows = [(1, float("nan")), (1, float("inf")), (1, 3.0), (1, float("-inf"))]
    subtasks.feed([(0, row) for row in rows])
    assert fold([(kind, (str(row),)) for kind, row in subtasks.changes]) == [("(1, 3.0)",), ("(1, -inf)",)]
    subtasks.feed([(3, (1, 3.0)), (3, (1, float("nan"))), (3, (1, float("inf")))])
    assert fold([(kind, (str(row),)) for kind, row in subtasks.changes]) == [("(1, -inf)",)]
    subtasks.close()


def counted(subtasks: Subtasks, *changes: tuple[int, int]) -> Any:
    """Feeds values of one key with their kinds; returns what is shown last."""
    return subtasks.feed([(kind, ("a", value, 5)) for kind, value in changes])[-1][1][1:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_entries_of_counts_go_with_their_accumulator_and_live_as_long_as_it(backend: str) -> None:
    node = aggregate(DISTINCT, *EXTREMES, ttl_ms=100)
    subtasks = Subtasks(node, [ROWS], [[0]], 1, {"state.backend.type": backend})
    assert counted(subtasks, *((0, i) for i in MANY)) == (100, 0, 99)
    for now_ms in (60, 120, 210):  # of values that do not come again all are remembered
        subtasks.set_clock(now_ms)
        assert counted(subtasks, (0, 200)) == (101, 0, 200)
    subtasks.rescale(2)
    subtasks.set_clock(300)
    assert counted(subtasks, (0, 5), (3, 0), (3, 200), (3, 200), (3, 200)) == (99, 1, 99)
    subtasks.set_clock(400)  # expired, though its entries live
    assert counted(subtasks, *((0, i) for i in range(50))) == (50, 0, 49)
    assert counted(subtasks, *((0, i) for i in range(100, 150))) == (100, 0, 149)
    assert counted(subtasks, (0, 60)) == (101, 0, 149)
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_entries_of_counts_are_gone_when_no_row_is_left(backend: str) -> None:
    subtasks = Subtasks(aggregate(DISTINCT), [ROWS], [[0]], 1, {"state.backend.type": backend})
    for _ in range(2):
        subtasks.feed([(0, ("a", i, 5)) for i in MANY])
        subtasks.rescale(2)
        assert subtasks.feed([(3, ("a", i, 5)) for i in MANY]) == [(3, ("a", 100))]
        assert not any(running.snapshot().keyed for running in subtasks.running)
    subtasks.close()


def states_of(subtasks: Subtasks) -> set[str]:
    return {segment.state_name for running in subtasks.running for segment in running.snapshot().keyed}


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_of_few_rows_stand_in_their_accumulator_again(backend: str) -> None:
    subtasks = Subtasks(aggregate(DISTINCT, *EXTREMES), [ROWS], [[0]], 1, {"state.backend.type": backend})
    counted(subtasks, *((0, i) for i in MANY))
    assert states_of(subtasks) == {"state", "counts-0", "counts-1", "counts-2"}
    assert counted(subtasks, *((3, i) for i in range(70))) == (30, 70, 99)
    assert states_of(subtasks) == {"state"}
    subtasks.rescale(2)
    assert counted(subtasks, (3, 70), (3, 99)) == (28, 71, 98)
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_python_finds_equal_and_unequal_are_counted_as_java_does(backend: str) -> None:
    """NaN is one value, zeros of different signs are two, in entries as in an accumulator."""
    kind = LogicalType(TypeRoot.ROW, fields=(ROWS.fields[0], Field("x", LogicalType(TypeRoot.DOUBLE))))
    node = aggregate(call("$COUNT$1", BIGINT, 1, distinct=True), call("$MAX$1", kind.fields[1].type, 1))
    subtasks = Subtasks(node, [kind], [[0]], 1, {"state.backend.type": backend})
    odd = (float("nan"), 0.0, -0.0, float("inf"))
    found = [str(row) for _, row in subtasks.feed([(0, ("a", x)) for x in (*odd, *map(float, range(1, 100)))])]
    assert found[-1] == "('a', 103, nan)"
    subtasks.rescale(1)
    found = [str(row) for _, row in subtasks.feed([(0, ("a", x)) for x in odd])]
    assert found[-1] == "('a', 103, nan)"  # a row with NaN is an update of itself
    found = [str(row) for _, row in subtasks.feed([(3, ("a", x)) for x in (*odd, *odd)])]
    assert found[-1] == "('a', 99, 99.0)"
    subtasks.close()
