"""Aggregates with distinct values that are split into buckets: what the incremental aggregate emits adds up to what DuckDB computes of all rows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from tests.unit.taskmanager.operators.harness import restored_of
from tests.unit.taskmanager.operators.relational.subtasks import Subtasks, fold
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
from tidegate.functions.sql.rows import Change, Row
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.specs import StateMetadata
from tidegate.table._execution.relational import as_two_aggregates
from tidegate.taskmanager.operators.relational import kept_counts

DOUBLE = LogicalType(TypeRoot.DOUBLE)
ROWS = row_type(k=STRING, v=INT, w=STRING, f=BOOLEAN, bucket=INT)
"""``bucket``: of ``v``."""
PARTIAL = (
    call("$COUNT$1", BIGINT),
    call("$COUNT$1", BIGINT, 1, distinct=True),
    call("$COUNT$1", BIGINT, 1, distinct=True, filter=3),
    call("$COUNT$1", BIGINT, 1, distinct=True, filter=3),
    call("$SUM$1", INT, 1, distinct=True),
    call("$MAX$1", STRING, 2),
    call("$MIN$1", INT, 1, filter=3),
    call("$SUM$1", INT, 1),
)
FINAL = ("$$SUM0$1", "$$SUM0$1", "$$SUM0$1", "$$SUM0$1", "$SUM$1", "$MAX$1", "$MIN$1", "$SUM$1")
EXPECTED = """SELECT k, count(*), count(DISTINCT v), count(DISTINCT v) FILTER (WHERE f), count(DISTINCT v) FILTER (WHERE f), sum(DISTINCT v)::INT, max(w),
    min(v) FILTER (WHERE f), sum(v)::INT FROM t GROUP BY k"""


def planned(
    partial: Sequence[AggregateCall] = PARTIAL, *, retracts: bool = False, ttl: str = "0 ms"
) -> tuple[nodes.Node, nodes.Node]:
    """Returns the two aggregates of a plan as Flink makes it, by ``k`` and ``bucket``, then by ``k``."""
    results = tuple(Field(f"a{i}", made.type) for i, made in enumerate(partial))
    partial_type = LogicalType(TypeRoot.ROW, fields=(ROWS.fields[0], ROWS.fields[4], *results))
    final_type = LogicalType(TypeRoot.ROW, fields=(ROWS.fields[0], *results))
    state = (StateMetadata(0, ttl, "incrementalGroupAggregateState"),)
    local = nodes.LocalGroupAggregate1(
        id=1,
        output_type=ROWS,  # not looked at
        description="LocalGroupAggregate",
        grouping=(0, 4),
        agg_calls=tuple(partial),
        agg_call_need_retractions=(retracts,) * len(partial),
        need_retraction=retracts,
    )
    between = nodes.IncrementalGroupAggregate1(
        id=2,
        output_type=ROWS,
        description="IncrementalGroupAggregate",
        partial_agg_grouping=(0, 1),
        final_agg_grouping=(0,),
        partial_original_agg_calls=tuple(partial),
        partial_agg_call_need_retractions=(retracts,) * len(partial),
        partial_local_agg_input_row_type=ROWS,
        partial_agg_need_retraction=retracts,
        state=state,
    )
    calls = tuple(call(FINAL[i], made.type, 2 + i) for i, made in enumerate(partial))
    last = nodes.GlobalGroupAggregate1(
        id=3,
        output_type=final_type,
        description="GlobalGroupAggregate",
        grouping=(0,),
        agg_calls=calls,
        agg_call_need_retractions=(False,) * len(calls),
        local_agg_input_row_type=partial_type,
        generate_update_before=True,
        need_retraction=False,
    )
    return as_two_aggregates(local, between, last, ROWS)


def subtasks_of(node: nodes.Node, parallelism: int, backend: str) -> Subtasks:
    configuration = {"state.backend.type": backend}
    if isinstance(node, nodes.IncrementalGroupAggregate1):
        return Subtasks(node, [ROWS], [node.partial_agg_grouping], parallelism, configuration, emits_updates=False)
    assert isinstance(node, nodes.GroupAggregate1)
    return Subtasks(node, [ROWS], [node.grouping], parallelism, configuration)


def summed_up(node: nodes.Node, row_type: LogicalType, backend: str) -> Subtasks:
    assert isinstance(node, nodes.GroupAggregate1)
    return Subtasks(node, [row_type], [node.grouping], 2, {"state.backend.type": backend})


def random_rows(rng: random.Random, count: int, values: int) -> list[Row]:
    found: list[Row] = []
    for _ in range(count):
        value = rng.choice((None, rng.randrange(values)))
        bucket = None if value is None else value % 3
        text = rng.choice((None, "", "a", "ü"))
        found.append((rng.choice(("a", "b", None)), value, text, rng.choice((True, False, None)), bucket))
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_added_sums_up_to_the_aggregates_of_all_rows(seed: int, backend: str) -> None:
    rng = random.Random(seed)
    first, last = planned()
    assert isinstance(first, nodes.IncrementalGroupAggregate1)
    partial, final = subtasks_of(first, 2, backend), summed_up(last, first.output_type, backend)
    taken: list[Row] = []
    for step in range(12):
        rows = random_rows(rng, rng.choice((1, 2, 30)), 12)
        taken += rows
        added = partial.feed([(0, row) for row in rows])
        assert {kind for kind, _ in added} == {0}
        keys = [row[0] for _, row in added]
        assert len(keys) <= 2 * len(set(keys)), "more than one row of a key and subtask"
        final.feed(added)
        assert in_order(fold(final.changes)) == in_order(computed(EXPECTED, t=([(0, row) for row in taken], ROWS)))
        if step in (4, 8):
            partial.rescale(3 if step == 4 else 1)
            final.rescale(2)
    partial.close()
    final.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("most", [256, 4])
def test_state_of_a_version_with_a_plain_aggregate_is_taken_over(
    backend: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``most``: counts that stand in an accumulator, at most."""
    monkeypatch.setattr(kept_counts, "MOST_IN_ACCUMULATOR", most)
    rng = random.Random(7)
    before, last_before = planned(ttl="1 d")
    first, last = planned()
    before, last_before = (
        msgspec.structs.replace(node, state=()) if isinstance(node, nodes.GroupAggregate1) else node
        for node in (before, last_before)
    )
    partial, final = subtasks_of(before, 2, backend), summed_up(last_before, before.output_type, backend)
    rows = random_rows(rng, 120, 40)
    for start in range(0, len(rows), 20):
        final.feed(partial.feed([(0, row) for row in rows[start : start + 20]]))
    partial_state = restored_of([running.snapshot() for running in partial.running])
    final_state = restored_of([running.snapshot() for running in final.running])
    shown = fold(final.changes)
    partial.close()
    final.close()
    partial, final = subtasks_of(first, 2, backend), summed_up(last, first.output_type, backend)
    partial.restart(partial_state)
    final.restart(final_state)
    changes: list[Change] = [(0, row) for row in shown]
    for _ in range(3):
        more = random_rows(rng, 60, 60)
        rows += more
        changes += final.feed(partial.feed([(0, row) for row in more]))
        assert in_order(fold(changes)) == in_order(computed(EXPECTED, t=([(0, row) for row in rows], ROWS)))
        partial.rescale(2)
    partial.close()
    final.close()


WITH_TEXTS = (*PARTIAL[:2], call("$LISTAGG$1", STRING, 2))


@pytest.mark.parametrize(
    "plan", [planned(retracts=True), planned(ttl="1 s"), planned(WITH_TEXTS)], ids=["retractions", "expiry", "LISTAGG"]
)
def test_other_aggregates_are_computed_by_two_plain_ones(plan: tuple[nodes.Node, nodes.Node]) -> None:
    first, last = plan
    assert isinstance(first, nodes.GroupAggregate1)
    assert isinstance(last, nodes.GroupAggregate1)
    assert last.need_retraction
