"""A batch has the changes of its rows one by one, in operators that decide something for all rows of a batch at once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

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
from tidegate.taskmanager.operators.relational import matching
from tidegate.taskmanager.operators.relational.aggregates import GroupAggregate
from tidegate.taskmanager.operators.relational.matching import Matcher

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
        assert list(matcher.positions_of_each(left, right)) == expected
        assert sizes != (30, 30) or any(expected)


TINYINT = LogicalType(TypeRoot.TINYINT)
VALUES = row_type(k=STRING, t=TINYINT, v=INT, w=BIGINT, f=BOOLEAN)
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


def totals(*, retracts: bool, generates_update_before: bool, ttl_ms: int) -> nodes.GroupAggregate1:
    names = [Field(f"a{i}", made.type) for i, made in enumerate(WHOLE_CALLS)]
    return nodes.GroupAggregate1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(VALUES.fields[0], *names)),
        description="GroupAggregate",
        grouping=(0,),
        agg_calls=WHOLE_CALLS,
        agg_call_need_retractions=tuple(retracts and number != 6 for number in range(len(WHOLE_CALLS))),
        generate_update_before=generates_update_before,
        need_retraction=retracts,
        state=(StateMetadata(0, f"{ttl_ms} ms", "groupAggregateState"),) if ttl_ms else (),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ttl_ms", [0, 100])
@pytest.mark.parametrize("generates_update_before", [True, False])
@pytest.mark.parametrize("retracts", [True, False])
def test_totals_of_whole_numbers(
    retracts: bool, generates_update_before: bool, ttl_ms: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By arrays there are the same changes as row by row, whichever of the two wrote the state."""
    node = totals(retracts=retracts, generates_update_before=generates_update_before, ttl_ms=ttl_ms)
    configuration = {"state.backend.type": backend}
    by_arrays = Subtasks(node, [VALUES], [[0]], 1, configuration)
    assert isinstance(by_arrays.running[0].operator, GroupAggregate)
    monkeypatch.setattr(calls, "RUNNING", {})
    row_by_row = Subtasks(node, [VALUES], [[0]], 1, configuration)
    rng = random.Random(5)
    numbers = (
        (None, 1, -7, 100, 127, -128),
        (None, 3, -2, 2**31 - 1),
        (None, -(2**63), 2**63 - 1, 5),
        (None, True, False),
    )
    rows: list[Row] = [(rng.choice(("a", "b", None)), *map(rng.choice, numbers)) for _ in range(30)]
    changes = random_changes(rng, rows, 300) if retracts else [(0, rng.choice(rows)) for _ in range(150)]
    if retracts:  # also one that was not added
        changes.insert(120, (3, ("c", 1, 1, 1, True)))
        changes.insert(200, (3, ("c", 1, 1, 1, True)))
    now_ms = 0
    while changes:
        count = rng.randrange(1, 40)
        batch, changes = changes[:count], changes[count:]
        assert by_arrays.feed(batch) == row_by_row.feed(batch)
        now_ms += rng.choice((10, 60, 150))
        for subtasks in (by_arrays, row_by_row):
            subtasks.set_clock(now_ms)
        if rng.random() < 0.2:
            written = [running.snapshot() for running in by_arrays.running]
            row_by_row.restart(restored_of(written))
    assert len(row_by_row.changes) > 100
    for subtasks in (by_arrays, row_by_row):
        subtasks.close()


def test_calls_whose_order_counts_are_computed_row_by_row() -> None:
    """Sums of decimals and fractions depend on the order of rows, and distinct values are found one by one."""

    def runs(made: AggregateCall, kind: LogicalType) -> bool:
        return compile_aggregates([made], row_type(v=kind), True, "op").running is not None

    double, decimal = LogicalType(TypeRoot.DOUBLE), LogicalType(TypeRoot.DECIMAL, precision=10, scale=2)
    assert runs(call("$SUM$1", INT, 0), INT)
    assert runs(call("$COUNT$1", BIGINT, 0), STRING)
    assert not runs(call("$SUM$1", double, 0), double)
    assert not runs(call("$AVG$1", decimal, 0), decimal)
    assert not runs(call("$MAX$1", INT, 0), INT)
    assert not runs(call("$COUNT$1", BIGINT, 0, distinct=True), INT)
