"""Nodes of a plan that have state, or several rows out for one in: how their inputs are dealt, and whether what they emit has row kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from tidegate.datastream.data_stream import DataStream
from tidegate.functions.sql.aggregates import compile_aggregates
from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_filter
from tidegate.plan import UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node
from tidegate.plan.specs import ConstantRange
from tidegate.records.arrow_type import ArrowTypeInfo

Keys: TypeAlias = Sequence[Sequence[int]]
"""For each input the positions of the columns by which its rows are dealt; none: all rows go to one subtask."""


def has_row_kinds(stream: DataStream) -> bool:
    """Whether the rows of a stream may be updates: its last column has their kinds."""
    return has_kinds(stream.get_type().arrow_schema())


def table_schema(type: LogicalType, *, has_updates: bool) -> pa.Schema:
    """Columns of a row type, and behind them the one of row kinds where there may be updates."""
    schema = arrow_schema(type)
    return with_kinds(schema) if has_updates else schema


def relational(
    node: Node, inputs: Sequence[DataStream], row_types: Sequence[LogicalType], time_zone: str
) -> DataStream:
    """The operator of a node of ``RELATIONAL`` over its inputs. Raises ``UnsupportedPlan``, naming the node and the function, type or option that is not
    supported."""
    keys = RELATIONAL[type(node)](node)
    _check(node, row_types, time_zone)
    env = inputs[0].get_execution_environment()
    dealt = [dealt_by(stream, positions) for stream, positions in zip(inputs, keys, strict=True)]
    schema = table_schema(node.output_type, has_updates=_has_updates(node, inputs))
    options = {"node": node, "row_types": tuple(row_types), "keys": keys, "time_zone": time_zone}
    made = env.add_operator(
        "relational",
        node.description,
        options,
        ArrowTypeInfo(schema),
        tuple(stream._transformation for stream in dealt),
    )
    stream = DataStream(env, made)
    return stream if all(keys) else stream.force_non_parallel()


def dealt_by(stream: DataStream, positions: Sequence[int]) -> DataStream:
    """Rows with equal columns there go to one subtask; without columns all rows do."""
    names = stream.get_type().arrow_schema().names
    chosen = list(dict.fromkeys(names[position] for position in positions))
    return stream.key_by(chosen[0], *chosen[1:]) if chosen else stream.global_()


def _group_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.GroupAggregate1)
    return (node.grouping,)


def _unique_keys(node: Node) -> Keys:
    assert isinstance(node, (plan_nodes.ChangelogNormalize1, plan_nodes.Deduplicate1))
    return (node.unique_keys,)


def _rank_keys(node: Node) -> Keys:
    assert isinstance(node, (plan_nodes.Rank1, plan_nodes.Limit1, plan_nodes.SortLimit1))
    return (node.partition.fields,)


def _join_keys(node: Node) -> Keys:
    """Pairs of keys whose columns stand in no other pair."""
    assert isinstance(node, plan_nodes.Join1)
    left: list[int] = []
    right: list[int] = []
    for one, other in zip(node.join_spec.left_keys, node.join_spec.right_keys, strict=True):
        if one not in left and other not in right:
            left.append(one)
            right.append(other)
    return tuple(left), tuple(right)


RELATIONAL: dict[type[Node], Callable[[Node], Keys]] = {
    plan_nodes.GroupAggregate1: _group_keys,
    plan_nodes.ChangelogNormalize1: _unique_keys,
    plan_nodes.Join1: _join_keys,
    plan_nodes.Deduplicate1: _unique_keys,
    plan_nodes.Rank1: _rank_keys,
    plan_nodes.Limit1: _rank_keys,
    plan_nodes.SortLimit1: _rank_keys,
}
"""By node: how its inputs are dealt."""


def _has_updates(node: Node, inputs: Sequence[DataStream]) -> bool:
    if isinstance(node, plan_nodes.Deduplicate1):
        return not node.output_insert_only
    if isinstance(node, plan_nodes.Join1):
        return node.join_spec.join_type not in ("INNER", "SEMI") or any(map(has_row_kinds, inputs))
    return True


def _check(node: Node, row_types: Sequence[LogicalType], time_zone: str) -> None:
    """Compiles what the operator will, so that what is missing is known before anything runs."""
    where = f"node {node.id}, {node.kind}"
    context = EvaluationContext(time_zone)
    try:
        if isinstance(node, plan_nodes.GroupAggregate1):
            compile_aggregates(node.agg_calls, row_types[0], node.agg_call_need_retractions, where)
        if isinstance(node, plan_nodes.ChangelogNormalize1) and node.filter_condition is not None:
            compile_filter(node.filter_condition, row_types[0], context)
        if isinstance(node, plan_nodes.Join1) and node.join_spec.non_equi_condition is not None:
            left, right = row_types
            joined = LogicalType(left.root, fields=left.fields + right.fields)
            compile_filter(node.join_spec.non_equi_condition, joined, context)
        if isinstance(node, plan_nodes.Rank1):
            if node.rank_type != "ROW_NUMBER":
                raise UnsupportedPlan(f"{node.rank_type} is not supported")
            if not isinstance(node.rank_range, ConstantRange):
                raise UnsupportedPlan(f"a rank of the kind {type(node.rank_range).__name__} is not supported")
        if (
            isinstance(node, plan_nodes.Deduplicate1)
            and node.is_rowtime
            and not node.keep_last_row
            and node.output_insert_only
        ):
            raise UnsupportedPlan("the first row by event time is not supported yet")
    except UnsupportedPlan as error:
        message = error.message.removeprefix(f"{where}: ")
        raise UnsupportedPlan(f"{where}: {message}: {node.description}") from error
