"""Plans that Flink compiled are decoded whole, written again as they were, drawn, and refused by name where they cannot be read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.plan.recorded import plan_names, plan_text
from tidegate.plan import MalformedPlan, UnsupportedPlan, decode_plan, draw, encode_plan
from tidegate.plan.expressions import Bound, Range, RexCall, RexInputRef, RexLiteral, python_value
from tidegate.plan.logical_types import TimeKind, TypeRoot
from tidegate.plan.nodes import NODES, Calc1, Exchange1, GlobalWindowAggregate1, Join1, OverAggregate1, Sink2
from tidegate.plan.nodes import TableSourceScan2 as Scan
from tidegate.plan.nodes import WatermarkAssigner1 as Assigner
from tidegate.plan.specs import HashDistribution, HoppingWindow, SliceAttachedWindowing, duration_ms
from tidegate.plan.support import calls, check_supported, find_unsupported

FREE_MAPS = ("configuration", "options", "partition")
"""Fields whose keys are a user's."""


def json_of(name: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(plan_text(name))
    return plan


@pytest.mark.parametrize("name", plan_names())
def test_every_recorded_plan_is_written_again_as_it_was(name: str) -> None:
    plan = decode_plan(plan_text(name))
    assert json.loads(encode_plan(plan)) == json_of(name)
    assert decode_plan(encode_plan(plan)) == plan


def test_the_recorded_plans_are_those_of_four_kinds() -> None:
    kinds = [name.partition("/")[0] for name in plan_names()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"nexmark": 25, "typical": 72, "tpch": 44, "vectors": 81}


def test_nodes_are_typed_and_resolved() -> None:
    plan = decode_plan(plan_text("nexmark/q5.json"))
    kinds = [type(node) for node in plan.nodes]
    assert kinds[0] is Scan
    assert kinds[-1] is Sink2
    (window,) = [node for node in plan.nodes if isinstance(node, GlobalWindowAggregate1)][:1]
    assert isinstance(window.windowing, SliceAttachedWindowing)
    assert isinstance(window.windowing.window, HoppingWindow)
    assert duration_ms(window.windowing.window.slide) == 2_000
    assert window.agg_calls[0].function == "$COUNT$1"
    (assigner,) = [node for node in plan.nodes if isinstance(node, Assigner)]
    rowtime = assigner.output_type.fields[assigner.rowtime_field_index]
    assert rowtime.type.kind is TimeKind.ROWTIME
    assert rowtime.type.root is TypeRoot.TIMESTAMP
    assert isinstance(assigner.watermark_expr, RexCall)
    delay = assigner.watermark_expr.operands[1]
    assert isinstance(delay, RexLiteral)
    assert delay.type.root is TypeRoot.INTERVAL_DAY_TIME
    assert python_value(delay.value, delay.type) == 4_000


def test_in_is_a_search_of_points() -> None:
    plan = decode_plan(plan_text("vectors/null-where-not-in.json"))
    searches = [
        call
        for node in plan.nodes
        for call in calls(node)
        if isinstance(call, RexCall) and call.function == "$SEARCH$1"
    ]
    wanted = decode_plan(plan_text("nexmark/q21.json"))
    found = [
        operand
        for node in wanted.nodes
        for call in calls(node)
        if isinstance(call, RexCall) and call.function == "$SEARCH$1"
        for operand in call.operands
        if isinstance(operand, RexLiteral)
    ]
    assert found
    for literal in found:
        assert literal.sarg is not None
        assert all(each.is_point for each in literal.sarg.ranges)
    assert all(isinstance(call.operands[0], (RexInputRef, RexCall)) for call in searches)


def test_an_open_range_is_no_point() -> None:
    assert Range(Bound(1, "CLOSED"), Bound(1, "CLOSED")).is_point
    assert not Range(Bound(1, "CLOSED"), Bound(2, "CLOSED")).is_point
    assert not Range(Bound(1, "CLOSED"), Bound(1, "OPEN")).is_point
    assert not Range(None, Bound(1, "CLOSED")).is_point


def test_a_decimal_literal_keeps_its_digits() -> None:
    plan = decode_plan(plan_text("tpch/streaming-q06.json"))
    values = {
        python_value(end.value, literal.type)
        for node in plan.nodes
        for call in calls(node)
        if isinstance(call, RexCall)
        for literal in call.operands
        if isinstance(literal, RexLiteral) and literal.sarg and literal.type.root is TypeRoot.DECIMAL
        for each in literal.sarg.ranges
        for end in (each.lower, each.upper)
        if end is not None
    }
    assert values == {Decimal("0.05"), Decimal("0.07")}


def test_inputs_stand_in_order() -> None:
    plan = decode_plan(plan_text("typical/36-join-inner.json"))
    (join,) = [node for node in plan.nodes if isinstance(node, Join1)]
    left, right = plan.inputs(join.id)
    for side, keys in ((left, join.join_spec.left_keys), (right, join.join_spec.right_keys)):
        assert isinstance(side, Exchange1)
        dealt = side.input_properties[0].required_distribution
        assert isinstance(dealt, HashDistribution)
        assert dealt.keys == keys
    assert plan.outputs(left.id) == (join,)
    assert plan.sinks == (plan.nodes[-1],)
    assert not plan.is_batch


def test_over_windows_have_their_bounds() -> None:
    plan = decode_plan(plan_text("vectors/over-rows.json"))
    (over,) = [node for node in plan.nodes if isinstance(node, OverAggregate1)]
    (group,) = over.over_spec.groups
    assert group.is_rows
    assert over.over_spec.constants[0].value == 1


def test_a_state_with_a_hint_keeps_its_time_to_live() -> None:
    plan = decode_plan(plan_text("typical/81-hint-ttl.json"))
    (join,) = [node for node in plan.nodes if isinstance(node, Join1)]
    assert [state.ttl_ms for state in join.state] == [86_400_000, 2 * 86_400_000]


def test_exchanges_that_flink_writes_as_one_get_an_input_each() -> None:
    plan = decode_plan(plan_text("tpch/batch-q07.json"))
    assert plan.is_batch
    assert [node.id for node in plan.inputs(1827)] == [node.id for node in plan.inputs(1839)] == [1826]


def test_a_plan_is_drawn_from_its_sinks_to_its_sources() -> None:
    assert draw(decode_plan(plan_text("typical/01-wordcount.json"))) == (
        "Sink(table=[default_catalog.default_database.sink1], fields=[word, c])  #4\n"
        "+- GroupAggregate(groupBy=[word], select=[word, COUNT(*) AS c])  #3\n"
        "   +- Exchange(distribution=[hash[word]])  #2\n"
        "      +- TableSourceScan(table=[[default_catalog, default_database, words]], fields=[word])  #1\n"
    )


@pytest.mark.parametrize("name", plan_names())
def test_a_drawing_has_every_node_once(name: str) -> None:
    plan = decode_plan(plan_text(name))
    lines = [line for line in draw(plan).splitlines() if line and not line.lstrip(" :+-").startswith("Reused  #")]
    assert sorted(int(line.rpartition("#")[2]) for line in lines) == sorted(node.id for node in plan.nodes)


# --- what cannot be read ---------------------------------------------------------------------------


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where an object stands whose fields are of the plan."""
    if isinstance(value, dict):
        if path and path[-1] in FREE_MAPS:
            return
        yield path
        for key, child in value.items():
            if key not in ("externalDataType", "patternDefinitions", "measures", "subsets"):
                yield from places(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from places(child, (*path, index))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_an_unknown_field_anywhere_is_an_error_that_names_it_and_the_node(data: st.DataObject) -> None:
    plan = json_of(data.draw(st.sampled_from(plan_names())))
    node = data.draw(st.sampled_from(plan["nodes"]))
    target: Any = node
    raw = False
    for step in data.draw(st.sampled_from(list(places(node)))):
        target = target[step]
        raw = raw or (isinstance(target, dict) and target.get("type") in ("RAW", "STRUCTURED_TYPE"))
    if raw:
        return  # what a raw value's class writes is kept as it is
    target["unheardOf"] = 1
    with pytest.raises(MalformedPlan) as caught:
        decode_plan(json.dumps(plan))
    assert f"node {node['id']}, {node['type']}: " in caught.value.message
    assert "unheardOf" in caught.value.message


def changed(name: str = "typical/01-wordcount.json", **of_node: object) -> dict[str, Any]:
    plan = copy.deepcopy(json_of(name))
    plan["nodes"][2].update(of_node)
    return plan


def refusal(plan: object) -> str:
    with pytest.raises(MalformedPlan) as caught:
        decode_plan(plan if isinstance(plan, (bytes, str)) else json.dumps(plan))
    return caught.value.message


def test_a_node_that_is_not_supported_is_named_with_its_id() -> None:
    assert refusal(changed(type="stream-exec-delta-join_1")) == "node 3: stream-exec-delta-join_1 is not supported"


def test_another_version_of_a_node_is_refused_with_the_one_that_is_supported() -> None:
    assert refusal(changed(type="stream-exec-group-aggregate_7")) == (
        "node 3: stream-exec-group-aggregate_7 is not supported; stream-exec-group-aggregate_1 is: "
        "compile the statement again with the current version"
    )


def test_a_missing_field_and_a_wrong_type_are_named() -> None:
    plan = changed()
    del plan["nodes"][2]["grouping"]
    advice = "; the compiled plan is of another version or was changed: compile the statement again"
    assert refusal(plan) == (f"node 3, stream-exec-group-aggregate_1: Object missing required field `grouping`{advice}")
    assert refusal(changed(grouping=["word"])) == (
        f"node 3, stream-exec-group-aggregate_1: Expected `int`, got `str` - at `$.grouping[0]`{advice}"
    )


def test_a_plan_of_another_version_of_flink_is_refused() -> None:
    assert refusal({**json_of("typical/01-wordcount.json"), "flinkVersion": "2.4"}) == (
        "the plan was compiled by Flink 2.4; plans of 2.3 can be read: compile its statement again"
    )


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'{"flinkVersion": "2.3"}', b'{"nodes": []}', "null"])
def test_what_is_no_plan_is_refused(text: bytes | str) -> None:
    assert refusal(text).startswith("this is not a compiled plan: ")


def test_a_graph_that_does_not_hang_together_is_refused() -> None:
    plan = changed()
    plan["edges"][0]["source"] = 99
    assert (
        refusal(plan) == "an edge from 99 to 2 names node 99, which the plan does not have; compile the statement again"
    )
    plan = changed(id=4)
    assert refusal(plan).startswith("two nodes of the plan have the id 4: ")
    plan = changed()
    del plan["edges"][0]
    assert refusal(plan) == (
        "node 2, stream-exec-exchange_1, has 0 inputs in the plan, but takes 1; compile the statement again"
    )
    plan = changed()
    plan["edges"][0]["source"] = 3
    assert refusal(plan) == "the plan goes round in a circle through the nodes 2, 3, 4"


@pytest.mark.parametrize(
    "type", ["DECIMAL(10, 2", "FOO", "ROW<`a` INT", "", "INT NOT", "ARRAY", {"type": "FOO"}, {"type": "MAP"}, 7]
)
def test_a_type_that_cannot_be_read_is_an_error_of_its_node(type: object) -> None:
    assert refusal(changed(outputType=type)).startswith("node 3, stream-exec-group-aggregate_1: ")


# --- what cannot be run ----------------------------------------------------------------------------


def test_all_that_cannot_be_run_is_refused_at_once_by_name() -> None:
    plan = decode_plan(plan_text("vectors/null-where-not-in.json"))
    found = find_unsupported(plan, {Scan, Calc1}, lambda node, call: call.function != "$SEARCH$1")
    _, calc, sink = plan.nodes
    assert found == [
        f"node {calc.id}, stream-exec-calc_1: the function $SEARCH$1 is not supported: {calc.description}",
        f"node {sink.id}: stream-exec-sink_2 is not supported: {sink.description}",
    ]
    with pytest.raises(UnsupportedPlan) as caught:
        check_supported(plan, {Scan}, lambda node, call: False)
    for node in plan.nodes:
        if type(node) is not Scan:
            assert f"node {node.id}: {node.kind} is not supported" in caught.value.message


def test_a_plan_that_can_be_run_passes() -> None:
    for name in plan_names():
        plan = decode_plan(plan_text(name))
        check_supported(plan, NODES.values(), lambda node, call: True)
        assert find_unsupported(plan, set(NODES.values()), lambda node, call: True) == []


def test_every_call_of_a_node_is_found() -> None:
    found = {
        call.function for name in plan_names() for node in decode_plan(plan_text(name)).nodes for call in calls(node)
    }
    assert {"$CAST$1", "$SEARCH$1", "$COUNT$1", "$LAG$1", "count_char", "PATTERN_CONCAT", "$UNNEST_ROWS$1"} <= found
    assert len(found) > 170
