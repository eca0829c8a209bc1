"""A batch has the changes of its rows one by one, in operators that decide something for all rows of a batch at once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import restored_of
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks, fold, random_changes
from tests.unit.taskmanager.operators.relational.test_against_duckdb import (
    BACKENDS,
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    call,
    computed,
    in_order,
    row_type,
)
from tidegate.functions.sql.aggregates import calls, compile_aggregates
from tidegate.functions.sql.aggregates.running import RunningAggregates
from tidegate.functions.sql.changelog import with_kinds
from tidegate.functions.sql.rows import Change, Row, batch_of, batch_of_repeated, changes_of
from tidegate.functions.sql.scalar import CompiledFilter, EvaluationContext, arrow_schema, compile_filter
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall, RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import (
    AppendFast,
    ConstantRange,
    PartitionSpec,
    RankStrategy,
    Retract,
    SortField,
    SortSpec,
    StateMetadata,
)
from tidegate.taskmanager.operators.relational import aggregates, matching
from tidegate.taskmanager.operators.relational.aggregates import GroupAggregate
from tidegate.taskmanager.operators.relational.matching import Matcher, OtherRows

ROWS = row_type(k=STRING, v=INT)


def top_n(strategy: RankStrategy, first: int, *, outputs_number: bool, generates_update_before: bool) -> nodes.Rank1:
    fields = (*ROWS.fields, Field("rank", BIGINT)) if outputs_number else ROWS.fields
    return nodes.Rank1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=fields),
        description="Rank",
        rank_type="ROW_NUMBER",
        partition=PartitionSpec((0,)),
        order_by=SortSpec((SortField(1, False, True),)),
        rank_range=ConstantRange(first, 4),
        rank_strategy=strategy,
        generate_update_before=generates_update_before,
        output_row_number=outputs_number,
    )


def in_batches(node: Any, changes: Sequence[Change], rng: random.Random) -> Subtasks:
    """Feeds changes in batches; each must have the changes of its rows one by one."""
    one_by_one, at_once = (Subtasks(node, [ROWS], [[0]], 1) for _ in range(2))
    left = list(changes)
    while left:
        count = rng.randrange(1, 20)
        batch, left = left[:count], left[count:]
        expected = [found for change in batch for found in one_by_one.feed([change])]
        assert at_once.feed(batch) == expected
    one_by_one.close()
    return at_once


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("outputs_number", [True, False])
@pytest.mark.parametrize("strategy", [AppendFast(), Retract()])
def test_the_highest_rows_of_a_key(strategy: RankStrategy, outputs_number: bool, first: int) -> None:
    rng = random.Random(str(strategy))
    rows: list[Row] = list(itertools.product(("a", "b", None), range(20)))
    rng.shuffle(rows)
    changes: list[Change] = [(0, row) for row in rows]
    if isinstance(strategy, Retract):
        changes += [(3, row) for row in rows if rng.random() < 0.6]
    node = top_n(strategy, first, outputs_number=outputs_number, generates_update_before=True)
    subtasks = in_batches(node, changes, rng)
    rank = ", rank" if outputs_number else ""
    query = f"""SELECT k, v{rank} FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS rank FROM t)
        WHERE rank BETWEEN {first} AND 4"""
    assert in_order(fold(subtasks.changes)) == in_order(computed(query, t=(changes, ROWS)))
    subtasks.close()


def test_earlier_rows_of_a_rank_are_left_out_where_nothing_asks_for_them() -> None:
    node = top_n(AppendFast(), 1, outputs_number=True, generates_update_before=False)
    subtasks = Subtasks(node, [ROWS], [[0]], 1)
    found = subtasks.feed([(0, ("a", value)) for value in (1, 3, 2)])
    assert found == [
        (0, ("a", 1, 1)),
        (2, ("a", 3, 1)),
        (0, ("a", 1, 2)),
        (2, ("a", 2, 2)),
        (0, ("a", 1, 3)),
    ]
    subtasks.close()


def test_rows_that_occur_several_times_are_the_same_columns() -> None:
    schema = with_kinds(arrow_schema(row_type(k=STRING, v=INT, rank=BIGINT)))
    first, second = ("a", None), (None, 2)
    changes: list[Change] = [(0, first), (1, first), (2, second), (0, first), (3, ("a", None))]
    ranks = [1, 1, 1, 2, 3]
    numbered = [(kind, (*row, rank)) for (kind, row), rank in zip(changes, ranks, strict=True)]
    assert batch_of_repeated(changes, schema, [ranks]) == batch_of(numbered, schema)
    assert changes_of(batch_of_repeated([], schema, [[]])) == []


def different() -> CompiledFilter:
    operands = (RexInputRef(input_index=1, type=INT), RexInputRef(input_index=3, type=INT))
    both = row_type(k=STRING, v=INT, k0=STRING, v0=INT)
    condition = RexCall(type=LogicalType(TypeRoot.BOOLEAN), operands=operands, internal_name="$<>$1")
    return compile_filter(condition, both, EvaluationContext("UTC"))


@pytest.mark.parametrize("most", [1, 5, 1 << 16])
@pytest.mark.parametrize("has_condition", [True, False])
@pytest.mark.parametrize("routed", [[(0, 0)], []])
def test_rows_of_two_sides_join_as_one_by_one(
    routed: list[tuple[int, int]], has_condition: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``routed``: whether the rows have equal keys already. ``most``: pairs whose condition is evaluated at once."""
    monkeypatch.setattr(matching, "PAIRS_AT_ONCE", most)
    rng = random.Random(3)
    joined = pa.schema([("f0", pa.string()), ("f1", pa.int32()), ("f2", pa.string()), ("f3", pa.int32())])
    matcher = Matcher([(0, 0)], routed, [True], different() if has_condition else None, joined, 2)
    rows = list(itertools.product(("a", "b", None), (1, 2, None)))
    for sizes in ((0, 3), (3, 0), (9, 7), (30, 30)):
        left, right = ([rng.choice(rows) for _ in range(size)] for size in sizes)
        expected = [matcher.positions(row, right) for row in left]
        others = OtherRows(right, np.array([len(right)], np.intp), np.zeros(len(left), np.intp))
        found: list[list[int]] = [[] for _ in left]
        for own, at in matcher.pairs(
            matcher.columns_of_rows(left, 0), left, others, matcher.columns_of_rows(right, 1), 0
        ):
            for row, place in zip(own.tolist(), at.tolist(), strict=True):
                found[row].append(place)
        assert found == expected
        assert sizes != (30, 30) or any(expected)


TINYINT = LogicalType(TypeRoot.TINYINT)
DECIMAL = LogicalType(TypeRoot.DECIMAL, precision=10, scale=2)
DAY = LogicalType(TypeRoot.DATE)
VALUES = row_type(k=STRING, t=TINYINT, v=INT, w=BIGINT, f=BOOLEAN, s=STRING, d=DECIMAL, day=DAY)
WHOLE_CALLS = (
    call("$COUNT$1", BIGINT),
    call("$COUNT$1", BIGINT, 2),
    call("$SUM$1", TINYINT, 1),
    call("$SUM$1", BIGINT, 3, filter=4),
    call("$$SUM0$1", INT, 2),
    call("$AVG$1", INT, 2),
    call("$AVG$1", BIGINT, 3),
    call("$COUNT$1", BIGINT, 2, filter=4),
)
EXTREMES = (
    call("$MAX$1", BIGINT, 3),
    call("$MIN$1", INT, 2, filter=4),
    call("$MAX$1", STRING, 5, filter=4),
    call("$MIN$1", STRING, 5),
    call("$MIN$1", DECIMAL, 6),
    call("$MAX$1", DAY, 7),
    call("$MAX$1", BOOLEAN, 4),
)
DISTINCT = (
    call("$COUNT$1", BIGINT, 2, distinct=True),
    call("$COUNT$1", BIGINT, 5, distinct=True, filter=4),
    call("$SUM$1", BIGINT, 3, distinct=True),
    call("$COUNT$1", BIGINT, 6, distinct=True),
)


def totals(
    made: Sequence[AggregateCall], *, retracts: bool, generates_update_before: bool, ttl_ms: int, folds: bool
) -> nodes.GroupAggregate1:
    """``folds``: one change of a key for each batch."""
    names = [Field(f"a{i}", one.type) for i, one in enumerate(made)]
    return nodes.GroupAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(VALUES.fields[0], *names)),
        description="GroupAggregate",
        configuration={"table.exec.mini-batch.enabled": str(folds).lower()},
        grouping=(0,),
        agg_calls=tuple(made),
        agg_call_need_retractions=tuple(
            retracts and number != 6 and one not in EXTREMES for number, one in enumerate(made)
        ),
        generate_update_before=generates_update_before,
        need_retraction=retracts,
        state=(StateMetadata(0, f"{ttl_ms} ms", "groupAggregateState"),) if ttl_ms else (),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("ttl_ms", "generates_update_before"), [(0, True), (100, True), (100, False)])
@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("more", [EXTREMES, DISTINCT])
@pytest.mark.parametrize("retracts", [True, False])
def test_totals_of_a_key(
    retracts: bool,
    more: Sequence[AggregateCall],
    folds: bool,
    ttl_ms: int,
    generates_update_before: bool,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By arrays there are the same changes as row by row, whichever of the two wrote the state, and the same state."""
    node = totals(
        [*WHOLE_CALLS, *more],
        retracts=retracts,
        generates_update_before=generates_update_before,
        ttl_ms=ttl_ms,
        folds=folds,
    )
    configuration = {"state.backend.type": backend}
    by_arrays = Subtasks(node, [VALUES], [[0]], 1, configuration)
    did: list[bool] = []
    ran = GroupAggregate._ran

    def watched(operator: GroupAggregate, data: pa.RecordBatch, running: RunningAggregates) -> bool:
        did.append(ran(operator, data, running))
        return did[-1]

    monkeypatch.setattr(GroupAggregate, "_ran", watched)
    monkeypatch.setattr(aggregates, "ROWS_FOR_ARRAYS", 1)
    monkeypatch.setattr(calls, "RUNNING", {})
    row_by_row = Subtasks(node, [VALUES], [[0]], 1, configuration)
    rng = random.Random(5)
    numbers = (
        (None, 1, -7, 100, 127, -128),
        (None, 3, -2, 2**31 - 1),
        (None, -(2**63), 2**63 - 1, 5),
        (None, True, False),
        (None, "", "a", "ab", "ä", "\U0001f600", "\uffff"),
        (None, Decimal("1.00"), Decimal("-2.50"), Decimal("99999999.99")),
        (None, 0, -1, 19_000),
    )
    rows: list[Row] = [(rng.choice(("a", "b", None)), *map(rng.choice, numbers)) for _ in range(30)]
    changes = random_changes(rng, rows, 300) if retracts else [(0, rng.choice(rows)) for _ in range(150)]
    if retracts:  # also one that was not added
        for at in (120, 200):
            changes.insert(at, (3, ("c", 1, 1, 1, True, "", Decimal("1.00"), 0)))
    now_ms = 0
    while changes:
        count = rng.choice((1, 2, rng.randrange(1, 40)))
        batch, changes = changes[:count], changes[count:]
        assert by_arrays.feed(batch) == row_by_row.feed(batch)
        now_ms += rng.choice((10, 60, 150))
        for subtasks in (by_arrays, row_by_row):
            subtasks.set_clock(now_ms)
        assert ttl_ms or _entries(by_arrays) == _entries(row_by_row)
        if rng.random() < 0.2:
            written = [running.snapshot() for running in by_arrays.running]
            row_by_row.restart(restored_of(written))
    assert len(row_by_row.changes) > 20
    assert did.count(True) > 3
    assert retracts == (False in did)
    for subtasks in (by_arrays, row_by_row):
        subtasks.close()


def _entries(subtasks: Subtasks) -> list[str]:
    """All accumulators with their keys, and when they were written."""
    operator = subtasks.running[0].operator
    assert isinstance(operator, GroupAggregate)
    return sorted(str(_wrapped(entry)) for entry in operator._state.entries())


def _wrapped(value: Any) -> Any:
    """Whole numbers modulo 2^64, as sums are by arrays."""
    if isinstance(value, (list, tuple)):
        return [_wrapped(one) for one in value]
    return value % (1 << 64) if type(value) is int else value


def test_many_distinct_values_are_entries_of_state_by_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    node = totals(DISTINCT, retracts=False, generates_update_before=True, ttl_ms=0, folds=True)
    by_arrays = Subtasks(node, [VALUES], [[0]], 1)
    monkeypatch.setattr(calls, "RUNNING", {})
    row_by_row = Subtasks(node, [VALUES], [[0]], 1)
    for first in range(0, 2000, 400):
        batch: list[Change] = [
            (0, ("a", 1, number % 700, number, True, f"s{number % 300}", Decimal(number), 0))
            for number in range(first, first + 400)
        ]
        assert by_arrays.feed(batch) == row_by_row.feed(batch)
        assert _entries(by_arrays) == _entries(row_by_row)
    assert by_arrays.changes[-1] == (2, ("a", 700, 300, sum(range(2000)), 2000))
    for subtasks in (by_arrays, row_by_row):
        subtasks.close()


def test_calls_whose_order_counts_are_computed_row_by_row() -> None:
    """Sums of decimals and fractions depend on the order of rows, the least of rows that may be taken back on all of them."""

    def runs(made: AggregateCall, kind: LogicalType, *, retracts: bool = False) -> bool:
        return compile_aggregates([made], row_type(v=kind), retracts, "op").running is not None

    double = LogicalType(TypeRoot.DOUBLE)
    assert runs(call("$SUM$1", INT, 0), INT, retracts=True)
    assert runs(call("$COUNT$1", BIGINT, 0), STRING, retracts=True)
    assert runs(call("$MAX$1", INT, 0), INT)
    assert runs(call("$COUNT$1", BIGINT, 0, distinct=True), INT)
    assert not runs(call("$SUM$1", double, 0), double)
    assert not runs(call("$AVG$1", DECIMAL, 0), DECIMAL)
    assert not runs(call("$MAX$1", INT, 0), INT, retracts=True)
    assert not runs(call("$MIN$1", double, 0), double)
    assert not runs(call("$COUNT$1", BIGINT, 0, distinct=True), double)
