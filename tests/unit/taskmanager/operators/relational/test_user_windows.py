"""Windows with aggregate functions of users, and windows of numbers of rows: the same results however their state is written and dealt, few bytes in a
checkpoint after one row, and savepoints of versions before."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, call
from tests.unit.taskmanager.operators.relational.test_state_by_entries import MOST_BYTES, checkpoint
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import (
    BIGINT,
    INT,
    ROWS,
    TIME,
    run,
    shuffled_rows,
    window_aggregate,
)
from tidegate.functions.sql.rows import Row
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import (
    GroupWindow,
    HoppingWindow,
    NamedWindowProperty,
    SessionGroupWindow,
    SessionWindow,
    SlidingGroupWindow,
    TimeField,
    TumblingGroupWindow,
    TumblingWindow,
    Window,
    WindowEnd,
    WindowReference,
    WindowStart,
)
from tidegate.table import AggregateFunction
from tidegate.table._execution.python_aggregates import PythonAggregates
from tidegate.table.udf import udaf
from tidegate.taskmanager.operators.relational import making
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate

_REFERENCE = WindowReference("w$", TIME)
_TIME = TimeField("t", 2, 0, TIME)
_PROCTIME = TimeField("p", 3, 0, LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3, kind=TimeKind.PROCTIME))
TUMBLE = TumblingGroupWindow(_REFERENCE, _TIME, True, "PT10S")
HOP = SlidingGroupWindow(_REFERENCE, _TIME, True, "PT15S", "PT10S")
SESSION = SessionGroupWindow(_REFERENCE, _TIME, "PT1.5S")


class Sum(AggregateFunction):
    """The sum of values that are there; null without one."""

    def create_accumulator(self) -> list[list[int]]:
        return [[]]

    def accumulate(self, accumulator: list[list[int]], *args: Any) -> None:
        if args[0] is not None:
            accumulator[0].append(args[0])

    def retract(self, accumulator: list[list[int]], *args: Any) -> None:
        accumulator[0].remove(args[0])

    def merge(self, accumulator: list[list[int]], accumulators: Iterable[list[list[int]]]) -> None:
        for other in accumulators:
            if accumulator[0]:
                accumulator[0].extend(other[0])
            else:
                accumulator[0] = other[0]  # which belongs to the other one too

    def get_value(self, accumulator: list[list[int]]) -> int | None:
        return sum(accumulator[0]) if accumulator[0] else None


def _total(values: Any) -> Any:
    return values.sum(min_count=1)


def functions() -> PythonAggregates:
    return PythonAggregates(
        {
            "total": udaf(Sum(), result_type="INT", accumulator_type="ARRAY<ARRAY<INT>>"),
            "rows": udaf(len, result_type="BIGINT", func_type="pandas"),
            "series": udaf(_total, result_type="INT", func_type="pandas"),
            "texts": udaf(lambda values: " ".join(map(str, values)), result_type="STRING", func_type="pandas"),
        }
    )


GENERAL = (call("$COUNT$1", BIGINT), call("total", INT, 1))
PANDAS = (call("rows", BIGINT, 1), call("series", INT, 1))
BUILT_IN = (call("$COUNT$1", BIGINT), call("$SUM$1", INT, 1))


def grouped(window: GroupWindow, calls: Sequence[Any], *, retracts: bool = False) -> Any:
    """The node of a window of GROUP BY with the bounds of windows of time behind the aggregates."""
    is_of_rows = not isinstance(window, SessionGroupWindow) and not window.is_time_window
    bounds = () if is_of_rows else (Field("ws", TIME), Field("we", TIME))
    given: dict[str, Any] = {
        "id": 1,
        "output_type": LogicalType(
            TypeRoot.ROW, fields=(ROWS.fields[0], Field("n", calls[0].type), Field("s", calls[1].type), *bounds)
        ),
        "description": "GroupWindowAggregate",
        "grouping": (0,),
        "agg_calls": calls,
        "window": window,
        "named_window_properties": ()
        if is_of_rows
        else (
            NamedWindowProperty("ws", WindowStart(_REFERENCE)),
            NamedWindowProperty("we", WindowEnd(_REFERENCE)),
        ),
        "need_retraction": retracts,
    }
    if calls is BUILT_IN:
        return nodes.GroupWindowAggregate1(**given)
    return nodes.PythonGroupWindowAggregate1(**given, generate_update_before=False)


def subtasks_of(node: Any, backend: str, configuration: Mapping[str, str] | None = None) -> Subtasks:
    rows = ROWS
    if node.window not in (TUMBLE, HOP, SESSION):
        rows = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("p", _PROCTIME.field_type)))
    options = {"state.backend.type": backend, **(configuration or {})}
    return Subtasks(node, [rows], [[0]], 1, options, functions=functions())


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("window", "same", "calls"),
    [
        (HOP, HoppingWindow(size="PT15S", slide="PT10S"), GENERAL),
        (HOP, HoppingWindow(size="PT15S", slide="PT10S"), PANDAS),
        (TUMBLE, TumblingWindow(size="PT10S"), PANDAS),
        (SESSION, SessionWindow(gap="PT1.5S"), GENERAL),
        (SESSION, SessionWindow(gap="PT1.5S"), PANDAS),
    ],
)
def test_panes_and_rows_of_windows_give_what_accumulators_by_window_give(
    window: GroupWindow, same: Window, calls: Sequence[Any], backend: str
) -> None:
    for seed in range(2):
        rows = shuffled_rows(seed)
        inputs = [0] * len(rows)
        wanted = run(Subtasks(window_aggregate(same), [ROWS], [[0]], 1), rows, inputs)
        assert len(wanted) > 10
        found = run(subtasks_of(grouped(window, calls), backend), rows, inputs)
        assert in_order(found) == in_order(wanted)


def of_rows(size: int, slide: int) -> GroupWindow:
    if size == slide:
        return TumblingGroupWindow(_REFERENCE, _PROCTIME, False, size)
    return SlidingGroupWindow(_REFERENCE, _PROCTIME, False, size, slide)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [GENERAL, PANDAS, BUILT_IN])
@pytest.mark.parametrize(("size", "slide"), [(3, 3), (5, 2), (2, 5), (1, 1), (4, 1)])
def test_windows_of_rows_are_emitted_when_they_are_full(
    size: int, slide: int, calls: Sequence[Any], backend: str
) -> None:
    rng = random.Random(size)
    rows = [(rng.choice(("a", "b", None)), rng.choice((1, 2, None)), at, None) for at in range(60)]
    subtasks = subtasks_of(grouped(of_rows(size, slide), calls), backend)
    for at, row in enumerate(rows):
        came = [found for _, found in subtasks.feed([(0, row)])]
        of_key = [value for key, value, *_ in rows[: at + 1] if key == row[0]]
        is_full = len(of_key) >= size and (len(of_key) - size) % slide == 0
        inside = of_key[len(of_key) - size :]
        counted = size if calls[0].arg_list == () or calls is PANDAS else len(inside)
        there = [value for value in inside if value is not None]
        assert came == ([(row[0], counted, sum(there) if there else None)] if is_full else [])
        if at in (20, 40):
            subtasks.rescale(3 if at == 20 else 1)
    assert subtasks.watermark(END_OF_TIME) == []
    subtasks.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", [TUMBLE, HOP, SESSION, of_rows(30_000, 30_000), of_rows(30_000, 7)])
def test_a_checkpoint_after_one_row_writes_that_row_of_a_window(window: GroupWindow, backend: str) -> None:
    count = 20_000 if backend == "hashmap" else 2_000
    subtasks = subtasks_of(grouped(window, PANDAS), backend, {"execution.checkpointing.incremental": "true"})
    (running,) = subtasks.running
    more = (None,) if window not in (TUMBLE, HOP, SESSION) else ()
    subtasks.feed([(0, ("a", i, 10 + i % 900, *more)) for i in range(count)])
    whole, _ = checkpoint(running, 1)
    subtasks.feed([(0, ("a", 1, 30, *more))])
    written, _ = checkpoint(running, 2)
    assert 0 < written < MOST_BYTES < whole, (written, whole)
    subtasks.close()


def by_window(*args: Any, size: int = 0, slide: int = 0, emits_empty: bool = False, **given: Any) -> WindowAggregate:
    """The operator of versions before, which kept an accumulator for each window."""
    return WindowAggregate(*args, **{"attached": None, "merges": False, **given})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    ("window", "same", "calls"),
    [
        (HOP, HoppingWindow(size="PT15S", slide="PT10S"), GENERAL),
        (HOP, HoppingWindow(size="PT15S", slide="PT10S"), PANDAS),
        (TUMBLE, TumblingWindow(size="PT10S"), PANDAS),
        (SESSION, SessionWindow(gap="PT1.5S"), PANDAS),
    ],
)
def test_windows_of_a_savepoint_of_before_go_on(
    window: GroupWindow,
    same: Window,
    calls: Sequence[Any],
    parallelism: int,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = shuffled_rows(5)
    wanted = run(Subtasks(window_aggregate(same), [ROWS], [[0]], 1), rows, [0] * len(rows))
    with monkeypatch.context() as before:
        before.setattr(making, "PanedWindowAggregate", by_window)
        before.setattr(making, "WindowRowsAggregate", by_window)
        subtasks = subtasks_of(grouped(window, calls), backend)
        feed(subtasks, rows[:30])
        snapshots = [running.snapshot() for running in subtasks.running]
    assert any(segment.state_name == "state" for segment in snapshots[0].keyed)
    subtasks.rescale(parallelism)
    feed(subtasks, rows[30:], max(row[2] for row in rows[:30]))
    subtasks.rescale(1)
    subtasks.watermark(END_OF_TIME)
    assert in_order(subtasks.changes) == in_order(wanted)
    assert not any(segment.state_name == "state" for segment in subtasks.running[0].snapshot().keyed)
    subtasks.close()


def feed(subtasks: Subtasks, rows: Sequence[Row], latest: int = 0) -> None:
    for row in rows:
        subtasks.feed([(0, row)])
        latest = max(latest, row[2])
        subtasks.watermark(latest - 4_001)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", [TUMBLE, SESSION])
def test_rows_that_go_are_taken_from_their_window(window: GroupWindow, backend: str) -> None:
    node = grouped(
        window, (call("texts", LogicalType(TypeRoot.VARCHAR, length=9), 1), call("rows", BIGINT, 1)), retracts=True
    )
    subtasks = subtasks_of(node, backend)
    subtasks.feed([(0, ("a", value, 10 + value)) for value in (1, 2, 1, 3)])
    subtasks.rescale(2)
    subtasks.feed([(1, ("a", 1, 11)), (2, ("a", 4, 12)), (3, ("a", 9, 13))])  # of which the last one never came
    subtasks.feed([(0, ("b", 5, 10)), (3, ("b", 5, 10))])
    assert [row[:2] for _, row in subtasks.watermark(END_OF_TIME)] == [("a", "2 1 3 4")]
    subtasks.close()
