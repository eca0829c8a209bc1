"""Aggregates of windows give the same for a batch of rows as for each of its rows alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import BACKENDS, call
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import (
    BIGINT,
    INT,
    ROWS,
    TIME,
    shuffled_rows,
    window_aggregate,
)
from tidegate.functions.sql.aggregates import compile_aggregates
from tidegate.functions.sql.aggregates.running import RunningAggregates
from tidegate.functions.sql.changelog import DELETE, INSERT
from tidegate.functions.sql.rows import Change
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import (
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    TumblingWindow,
    Window,
    WindowAttachedWindowing,
)
from tidegate.taskmanager.operators.relational import window_aggregate as module
from tidegate.taskmanager.operators.relational.relational_operator import KeyedChanges
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate
from tidegate.taskmanager.operators.relational.window_pairs import find_pairs

DOUBLE, DECIMAL = LogicalType(TypeRoot.DOUBLE), LogicalType(TypeRoot.DECIMAL, precision=10, scale=2)
EXACT = (
    call("$COUNT$1", BIGINT),
    call("$COUNT$1", BIGINT, 1),
    call("$SUM$1", INT, 1),
    call("$MIN$1", INT, 1),
    call("$MAX$1", INT, 1),
    call("$AVG$1", INT, 1),
)
WINDOWS = (
    TumblingWindow(size="PT10S", offset="PT3S"),
    HoppingWindow(size="PT10S", slide="PT2S"),
    HoppingWindow(size="PT2S", slide="PT5S"),
    CumulativeWindow(max_size="PT12S", step="PT4S"),
    SessionWindow(gap="PT1.5S"),
)


def with_calls(window: Window, calls: tuple[AggregateCall, ...], *, retracts: bool) -> nodes.WindowAggregate1:
    node = window_aggregate(window)
    fields = node.output_type.fields
    results = tuple(Field(f"c{number}", one.type) for number, one in enumerate(calls))
    made = LogicalType(TypeRoot.ROW, fields=(fields[0], *results, *fields[-2:]))
    return replace(node, agg_calls=calls, output_type=made, need_retraction=retracts)


def emitted(node: nodes.WindowAggregate1, changes: list[Change], together: int, backend: str) -> list[tuple[str, ...]]:
    """What comes of batches of so many rows, with a watermark 4 s behind them after every twelve, in its order."""
    subtasks = Subtasks(node, [ROWS], [[0]], 1, {"state.backend.type": backend})
    latest = 0
    for first in range(0, len(changes), 12):
        part = changes[first : first + 12]
        for at in range(0, len(part), together):
            subtasks.feed(part[at : at + together])
        latest = max([latest, *(row[2] for _, row in part)])
        subtasks.watermark(latest - 4_001)
    subtasks.watermark(END_OF_TIME)
    subtasks.close()
    return [(str(kind), *map(repr, row)) for kind, row in subtasks.changes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_by_arrays_give_what_their_rows_give(
    window: Window, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes and their order are those of the rows one by one, with distinct values too; sessions go row by row."""
    changes: list[Change] = [(INSERT, row) for row in shuffled_rows(7, 120)]
    distinct = call("$COUNT$1", BIGINT, 1, distinct=True), call("$MAX$1", INT, 1, distinct=True)
    node = with_calls(window, (*EXACT, *distinct), retracts=False)
    one_by_one = emitted(node, changes, 1, backend)
    did: list[bool] = []
    ran = WindowAggregate._ran

    def watched(operator: WindowAggregate, batch: KeyedChanges, running: RunningAggregates) -> bool:
        did.append(ran(operator, batch, running))
        return did[-1]

    monkeypatch.setattr(WindowAggregate, "_ran", watched)
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    monkeypatch.setattr(module, "ROWS_FOR_SESSIONS", 1)
    assert one_by_one
    assert emitted(node, changes, 12, backend) == one_by_one
    assert did == [not isinstance(window, SessionWindow)] * 10


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("columns", [(2, 3), (-1, 2)], ids=["start and end", "end"])
def test_windows_of_rows_by_arrays_give_what_their_rows_give(
    columns: tuple[int, int], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows are columns: of a start and an end, or of an end alone."""
    start, end = columns
    windowing = WindowAttachedWindowing(
        window=TumblingWindow(size="PT10S"),
        time_attribute_type=TIME,
        window_start=start,
        window_end=end,
        is_rowtime=True,
    )
    node = replace(with_calls(TumblingWindow(size="PT10S"), EXACT, retracts=False), windowing=windowing)
    row = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields[:2], Field("x", TIME), Field("y", TIME)))
    changes: list[Change] = []
    for key, value, ms in shuffled_rows(7, 120):
        bounds = ms // 10_000 * 10_000, ms // 10_000 * 10_000 + 10_000
        changes.append((INSERT, (key, value, *(bounds if start >= 0 else bounds[::-1]))))
    found: list[list[tuple[str, ...]]] = []
    for fewest in (1 << 30, 1):
        monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", fewest)
        subtasks = Subtasks(node, [row], [[0]], 1, {"state.backend.type": backend})
        for first in range(0, len(changes), 12):
            subtasks.feed(changes[first : first + 12])
            subtasks.watermark(max(row[2] for _, row in changes[: first + 12]) - 14_001)
        subtasks.watermark(END_OF_TIME)
        subtasks.close()
        found.append([(str(kind), *map(repr, row)) for kind, row in subtasks.changes])
    assert len(found[0]) > 10
    assert found[1] == found[0]


def test_a_batch_of_late_rows_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_FOR_ARRAYS", 1)
    node = with_calls(TumblingWindow(size="PT10S"), EXACT, retracts=False)
    subtasks = Subtasks(node, [ROWS], [[0]], 1)
    subtasks.watermark(END_OF_TIME - 1)
    assert subtasks.feed([(INSERT, row) for row in shuffled_rows(7, 5)]) == []
    assert subtasks.watermark(END_OF_TIME) == []
    subtasks.close()


def test_pairs_come_in_the_order_of_rows() -> None:
    first, second, third = (0, 10), (5, 15), (10, 20)
    found = find_pairs(np.array([1, 0, 1, 1]), np.array([0, 0, 1, 2]), [[second, first], [third, second], []])
    assert list(zip(found.keys, found.spans, strict=True)) == [
        (1, second),
        (1, first),
        (0, second),
        (0, first),
        (1, third),
    ]
    assert found.rows.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.pair_of.tolist() == [0, 1, 2, 3, 4, 0]
    assert found.firsts.tolist() == [0, 0, 1, 1, 2]
    assert find_pairs(np.array([0]), np.array([0]), [[]]).spans == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_batch_gives_what_its_rows_give(window: Window, retracts: bool, backend: str) -> None:
    rows = shuffled_rows(5, 120)
    changes: list[Change] = [(INSERT, row) for row in rows]
    if retracts:
        rng = random.Random(2)
        for at in sorted(rng.sample(range(len(rows)), 30), reverse=True):
            changes.insert(at + 1 + rng.randrange(3), (DELETE, rows[at]))
    node = with_calls(window, EXACT, retracts=retracts)
    one_by_one = emitted(node, changes, 1, backend)
    assert one_by_one
    assert emitted(node, changes, 12, backend) == one_by_one


@pytest.mark.parametrize(
    ("calls", "retracts", "are_merged"),
    [
        (EXACT, False, True),
        (EXACT[:3], True, True),
        (EXACT, True, False),  # extremes that keep all values
        ((call("$SUM$1", DECIMAL, 3),), False, False),
        ((call("$SUM$1", DOUBLE, 4),), False, False),
        ((call("$MAX$1", DOUBLE, 4),), False, False),
        ((call("$COUNT$1", BIGINT, 1, distinct=True),), False, False),
        ((call("$FIRST_VALUE$1", INT, 1),), False, False),
    ],
)
def test_only_what_no_order_changes_is_merged(
    calls: tuple[AggregateCall, ...], retracts: bool, are_merged: bool
) -> None:
    row = LogicalType(TypeRoot.ROW, fields=(*ROWS.fields, Field("d", DECIMAL), Field("f", DOUBLE)))
    assert compile_aggregates(calls, row, retracts, "here").merges_alike is are_merged
