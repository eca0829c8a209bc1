"""Operators whose state has no bound are named, over plans that Flink made."""

from __future__ import annotations

import json
import logging

import pytest

from tests.differential_tables.judge import Judged
from tests.differential_tables.recording import recorded_families
from tidegate.plan.exec_node_graph import ExecNodeGraph, decode_plan
from tidegate.table._execution.unbounded_state import UnboundedStates, unbounded_states, warn_of_unbounded_states

JOIN = "SELECT a.id, b.id AS bi, a.k, b.k AS bk, a.n, b.n AS bn FROM p AS a JOIN q AS b ON a.id = b.id"


def recorded(query: str, **options: str) -> Judged:
    """The first streaming statement that begins so, with these options."""
    wanted = {"table.local-time-zone": "UTC", **options}
    return next(
        one
        for one in recorded_families()
        if one.case.query.startswith(query) and dict(one.case.options) == wanted and one.case.is_streaming and one.plan
    )


def plan_of(query: str, **options: str) -> ExecNodeGraph:
    return decode_plan(json.dumps(recorded(query, **options).plan))


def found(plan: ExecNodeGraph, **options: str) -> UnboundedStates:
    return unbounded_states(plan, options, lambda scan: False)


def test_a_regular_join_is_named_with_the_key_to_set() -> None:
    text = found(plan_of(JOIN)).warning()
    assert text is not None
    assert "Join(joinType=[InnerJoin]" in text
    assert "table.exec.state.ttl" in text
    assert "STATE_TTL" in text


def test_nothing_is_said_of_inputs_that_end() -> None:
    assert unbounded_states(plan_of(JOIN), {}, lambda scan: True).warning() is None
    assert unbounded_states(plan_of(JOIN), {}, None).warning() is None


def test_a_time_to_live_is_a_bound() -> None:
    key = "table.exec.state.ttl"
    limited = next(
        one
        for one in recorded_families()
        if one.case.kind == "regular join" and one.case.options.get(key) and one.plan is not None
    )
    assert found(decode_plan(json.dumps(limited.plan))) == UnboundedStates()


def test_a_hint_is_a_bound_for_the_sides_that_it_names() -> None:
    select = "SELECT /*+ STATE_TTL({}) */ a.id, b.id AS bi FROM p AS a JOIN q"
    both, one = (plan_of(select.format(hours)) for hours in ("'a' = '1h', 'b' = '2h'", "'b' = '3h'"))
    assert found(both).warning() is None
    assert [type(node).__name__ for node in found(one).kept] == ["Join1"]


@pytest.mark.parametrize("kind", ["interval join", "window join"])
def test_what_forgets_by_its_time_is_not_named(kind: str) -> None:
    plans = [one.plan for one in recorded_families() if one.case.kind == kind and one.plan is not None]
    assert len(plans) > 5
    assert all(found(decode_plan(json.dumps(plan))) == UnboundedStates() for plan in plans)


def test_the_option_of_the_environment_bounds_nodes_without_states_in_the_plan() -> None:
    plan = next(
        decode_plan(json.dumps(one.plan))
        for one in recorded_families()
        if one.case.kind == "temporal join" and one.plan is not None and " h FOR" in one.case.query
    )
    assert "TemporalJoin1" in [type(node).__name__ for node in found(plan).kept]
    later = found(plan, **{"table.exec.state.ttl": "1 d"})
    assert "TemporalJoin1" not in [type(node).__name__ for node in later.kept]


def test_a_pattern_without_within_is_named() -> None:
    plans = [
        (one.case.query, decode_plan(json.dumps(one.plan)))
        for one in recorded_families()
        if "MATCH_RECOGNIZE" in one.case.query and one.plan is not None
    ]
    for query, plan in plans:
        text = found(plan).warning() or ""
        assert ("WITHIN INTERVAL" in text) == (" WITHIN " not in query), query
    assert {" WITHIN " in query for query, _ in plans} == {True, False}


def test_a_plan_has_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    several = next(
        decode_plan(json.dumps(one.plan))
        for one in recorded_families()
        if one.case.kind == "joins of joins" and one.plan is not None and "COUNT(" in one.case.query
    )
    with caplog.at_level(logging.WARNING):
        warn_of_unbounded_states(several, {}, lambda scan: False)
    (record,) = caplog.records
    assert record.getMessage().count("node ") > 1
