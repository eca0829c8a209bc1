"""From a node of a compiled plan to its operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.functions.sql.aggregates import compile_aggregates
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_filter
from tidegate.model.errors import InvalidJob
from tidegate.operator_options import RelationalOptions
from tidegate.plan import nodes
from tidegate.plan.logical_types import LogicalType, TimeKind
from tidegate.plan.nodes import Node
from tidegate.plan.specs import ConstantRange, Retract, UpdateFast
from tidegate.taskmanager.operators.base import Operator
from tidegate.taskmanager.operators.relational.aggregates import GroupAggregate
from tidegate.taskmanager.operators.relational.join import Join
from tidegate.taskmanager.operators.relational.ranks import Deduplicate, TopN
from tidegate.taskmanager.operators.relational.upserts import ChangelogNormalize
from tidegate.taskmanager.operators.relational.watermarks import WatermarkAssigner


def make_relational(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    """``schema``: of what is emitted. Raises ``InvalidJob`` for a node without an operator."""
    make = _MAKERS.get(type(options.node))
    if make is None:
        raise InvalidJob(f"operator '{name}': there is no operator of the node {options.node.kind}")
    return make(name, options, schema)


def _group_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.GroupAggregate1)
    return GroupAggregate(
        name,
        node.grouping,
        compile_aggregates(node.agg_calls, options.row_types[0], node.agg_call_need_retractions, name),
        schema,
        generates_update_before=node.generate_update_before,
        retracts=node.need_retraction,
        ttl_ms=_ttl_ms(node, 0),
    )


def _changelog_normalize(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.ChangelogNormalize1)
    return ChangelogNormalize(
        name,
        node.unique_keys,
        schema,
        condition=None
        if node.filter_condition is None
        else compile_filter(node.filter_condition, options.row_types[0], EvaluationContext(options.time_zone)),
        rows=arrow_schema(options.row_types[0]),
        generates_update_before=node.generate_update_before,
        ttl_ms=_ttl_ms(node, 0),
    )


def _deduplicate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Deduplicate1)
    fields = options.row_types[0].fields
    times = [i for i, field in enumerate(fields) if field.type.kind is TimeKind.ROWTIME]
    return Deduplicate(
        name,
        node.unique_keys,
        schema,
        time=times[0] if node.is_rowtime else None,
        keeps_last=node.keep_last_row,
        generates_update_before=node.generate_update_before,
        ttl_ms=_ttl_ms(node, 0),
    )


def _rank(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, (nodes.Rank1, nodes.Limit1, nodes.SortLimit1))
    assert isinstance(node.rank_range, ConstantRange)
    strategy = node.rank_strategy
    return TopN(
        name,
        node.partition.fields,
        node.order_by.fields,
        (node.rank_range.start, node.rank_range.end),
        schema,
        outputs_number=node.output_row_number,
        generates_update_before=node.generate_update_before,
        upsert_keys=strategy.primary_keys if isinstance(strategy, UpdateFast) else None,
        retracts=isinstance(strategy, Retract),
        ttl_ms=_ttl_ms(node, 0),
    )


def _join(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Join1)
    spec = node.join_spec
    left, right = options.row_types
    joined = LogicalType(left.root, fields=left.fields + right.fields)
    condition = spec.non_equi_condition
    columns = pa.schema(
        [pa.field(f"f{i}", field.type) for i, field in enumerate([*arrow_schema(left), *arrow_schema(right)])]
    )
    return Join(
        name,
        options.keys,
        schema,
        join_type=spec.join_type,
        join_keys=list(zip(spec.left_keys, spec.right_keys, strict=True)),
        filter_nulls=spec.filter_nulls,
        condition=None
        if condition is None
        else compile_filter(condition, joined, EvaluationContext(options.time_zone)),
        joined=columns,
        widths=(len(left.fields), len(right.fields)),
        upsert_keys=[
            _shortest(node.left_upsert_keys, spec.left_keys),
            _shortest(node.right_upsert_keys, spec.right_keys),
        ],
        ttl_ms=[_ttl_ms(node, 0), _ttl_ms(node, 1)],
    )


def _shortest(keys: Sequence[tuple[int, ...]], join_keys: Sequence[int]) -> tuple[int, ...] | None:
    """The key by which rows of a side are kept: one within the join's keys where there is one; ``None``: there is no key."""
    within = [key for key in keys if set(key) <= set(join_keys)]
    return min(within or keys, key=len, default=None)


def _watermark_assigner(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WatermarkAssigner1)
    return WatermarkAssigner(node.watermark_expr, options.row_types[0], options.time_zone)


def _ttl_ms(node: Node, index: int) -> int:
    found: dict[int, int] = {state.index: state.ttl_ms for state in getattr(node, "state", ())}
    return found.get(index, 0)


_MAKERS: dict[type[Node], Callable[[str, RelationalOptions, pa.Schema], Operator]] = {
    nodes.GroupAggregate1: _group_aggregate,
    nodes.ChangelogNormalize1: _changelog_normalize,
    nodes.Join1: _join,
    nodes.Deduplicate1: _deduplicate,
    nodes.Rank1: _rank,
    nodes.Limit1: _rank,
    nodes.SortLimit1: _rank,
    nodes.WatermarkAssigner1: _watermark_assigner,
}


__all__ = ["make_relational"]
