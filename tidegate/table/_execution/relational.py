"""Translation of nodes that have state or emit several rows for one: how their inputs are partitioned, and whether their output has row kinds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import pyarrow as pa

from tidegate.datastream._streams.stream_types import column_key
from tidegate.datastream.data_stream import DataStream, KeyedStream
from tidegate.functions.sql.aggregates import UserAggregates, compile_aggregates
from tidegate.functions.sql.aggregates.incremental import IncrementalAggregates
from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.match_recognize import Measures, pattern_of
from tidegate.functions.sql.over_frames import CompiledOver
from tidegate.functions.sql.over_windows import (
    Over,
    check_over_functions,
    is_by_time,
    over_constants,
    over_preceding,
    over_row_type,
)
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_expression, compile_filter
from tidegate.functions.sql.time_shift import shift_of
from tidegate.functions.sql.time_windows import WindowedRows, attached_spans, rows_of, spans_of
from tidegate.model.units import parse_duration_ms
from tidegate.plan import UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.expressions import AggregateCall, CurrentRow, UnboundedPreceding
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.nodes import STATE_TTL_KEY, Node
from tidegate.plan.specs import (
    ConstantRange,
    JoinSpec,
    OverGroup,
    OverSpec,
    PartitionSpec,
    SessionWindow,
    SortField,
    SortSpec,
    VariableRange,
    WindowAttachedWindowing,
    Windowing,
)
from tidegate.plan.support import calls
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.table._execution.one_to_one import follow_input, mapped

Keys: TypeAlias = Sequence[Sequence[int]]
"""Partition keys of a node: for each input the positions of the columns; none: all rows go to one subtask."""


def has_row_kinds(stream: DataStream) -> bool:
    """Returns whether the rows of a stream may be updates: its last column has their kinds."""
    return has_kinds(stream.get_type().arrow_schema())


def table_schema(type: LogicalType, *, has_updates: bool) -> pa.Schema:
    """Returns the schema of a row type, with a column of row kinds appended where there may be updates."""
    schema = arrow_schema(type)
    return with_kinds(schema) if has_updates else schema


def relational(
    node: Node,
    inputs: Sequence[DataStream],
    row_types: Sequence[LogicalType],
    time_zone: str,
    functions: UserAggregates | None = None,
) -> DataStream:
    """Builds the operator of a ``RELATIONAL`` node over its inputs. Raises ``UnsupportedPlan``, naming the node and the function, type or option that
    is not supported."""
    keys = RELATIONAL[type(node)](node)
    _check(node, row_types, time_zone, functions)
    env = inputs[0].get_execution_environment()
    dealt = [dealt_by(stream, positions) for stream, positions in zip(inputs, keys, strict=True)]
    schema = table_schema(node.output_type, has_updates=_has_updates(node, inputs))
    options = {
        "node": node,
        "row_types": tuple(row_types),
        "keys": keys,
        "time_zone": time_zone,
        "functions": functions,
    }
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
    """Partitions a stream by some columns; without columns all rows go to one subtask."""
    names = stream.get_type().arrow_schema().names
    chosen = list(dict.fromkeys(names[position] for position in positions))
    return KeyedStream(stream, column_key(stream.get_type().arrow_schema(), chosen)) if chosen else stream.global_()


def _group_keys(node: Node) -> Keys:
    assert isinstance(node, _GROUPS)
    return (node.grouping,)


def _partial_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.IncrementalGroupAggregate1)
    return (node.partial_agg_grouping,)


def _unique_keys(node: Node) -> Keys:
    assert isinstance(node, (plan_nodes.ChangelogNormalize1, plan_nodes.Deduplicate1))
    return (node.unique_keys,)


def _rank_keys(node: Node) -> Keys:
    assert isinstance(node, (plan_nodes.Rank1, plan_nodes.Limit1, plan_nodes.SortLimit1))
    return (node.partition.fields,)


def _join_keys(node: Node) -> Keys:
    """Returns the join keys of both sides, leaving out pairs that repeat a column, since both sides must be partitioned by the same number of columns."""
    spec = join_spec(node)
    left: list[int] = []
    right: list[int] = []
    for one, other in zip(spec.left_keys, spec.right_keys, strict=True):
        if one not in left and other not in right:
            left.append(one)
            right.append(other)
    return tuple(left), tuple(right)


def _over_keys(node: Node) -> Keys:
    assert isinstance(node, _OVERS)
    return (node.over_spec.partition.fields,)


def _window_rank_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.WindowRank1)
    return (node.partition_spec.fields,)


def _window_deduplicate_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.WindowDeduplicate1)
    return (node.partition_keys,)


def _window_keys(node: Node) -> Keys:
    assert isinstance(node, (plan_nodes.WindowAggregate1, *_GROUP_WINDOWS))
    return (node.grouping,)


def join_spec(node: Node) -> JoinSpec:
    """Returns the join specification of a join node."""
    if isinstance(node, plan_nodes.IntervalJoin1):
        return node.interval_join_spec.join_spec
    assert isinstance(node, (plan_nodes.Join1, plan_nodes.WindowJoin1, plan_nodes.TemporalJoin1))
    return node.join_spec


def as_one_phase(local: Node, last: Node) -> Node:
    """Merges the nodes of a two-phase aggregation into one that takes the first one's input and emits the second one's output."""
    if isinstance(last, plan_nodes.GlobalGroupAggregate1):
        assert isinstance(local, plan_nodes.LocalGroupAggregate1)
        return _group_aggregate(last, local.grouping, retracts=last.need_retraction)
    assert isinstance(local, plan_nodes.LocalWindowAggregate1)
    assert isinstance(last, plan_nodes.GlobalWindowAggregate1)
    return plan_nodes.WindowAggregate1(
        id=last.id,
        output_type=last.output_type,
        description=last.description,
        input_properties=last.input_properties,
        configuration=last.configuration,
        grouping=local.grouping,
        agg_calls=last.agg_calls,
        windowing=local.windowing,
        named_window_properties=last.named_window_properties,
        need_retraction=last.need_retraction,
    )


def as_two_aggregates(local: Node, between: Node, last: Node, row_type: LogicalType) -> tuple[Node, Node]:
    """Converts a local, an incremental and a global aggregate to two that compute the same. ``row_type``: of the local aggregate's rows.

    The first one is an incremental aggregate that reads rows; where rows may be retracted or expire, or arrays do not compute its calls, it is a plain
    aggregate, whose results the second one retracts and adds.
    """
    assert isinstance(local, plan_nodes.LocalGroupAggregate1)
    assert isinstance(between, plan_nodes.IncrementalGroupAggregate1)
    assert isinstance(last, plan_nodes.GlobalGroupAggregate1)
    if _is_incremental(between, row_type):
        dropped = len(between.partial_agg_grouping) - len(between.final_agg_grouping)
        fields = last.local_agg_input_row_type.fields
        kept = (*(fields[place] for place in between.final_agg_grouping), *fields[len(between.partial_agg_grouping) :])
        calls = tuple(_shifted(call, dropped) for call in last.agg_calls)
        first = msgspec.structs.replace(
            between,
            output_type=LogicalType(TypeRoot.ROW, fields=kept),
            partial_agg_grouping=local.grouping,
            final_agg_grouping=tuple(local.grouping[place] for place in between.final_agg_grouping),
        )
        final = _group_aggregate(last, tuple(range(len(between.final_agg_grouping))), retracts=False)
        return first, msgspec.structs.replace(final, agg_calls=calls)
    partial = plan_nodes.GroupAggregate1(
        id=between.id,
        output_type=last.local_agg_input_row_type,
        description=between.description,
        input_properties=between.input_properties,
        configuration=between.configuration,
        grouping=local.grouping,
        agg_calls=between.partial_original_agg_calls,
        agg_call_need_retractions=between.partial_agg_call_need_retractions,
        generate_update_before=True,
        need_retraction=between.partial_agg_need_retraction,
        state=between.state,
    )
    return partial, _group_aggregate(last, between.final_agg_grouping, retracts=True)


def _is_incremental(between: plan_nodes.IncrementalGroupAggregate1, row_type: LogicalType) -> bool:
    """Tells whether an operator computes an incremental aggregate from rows."""
    configured_ms = parse_duration_ms((between.configuration or {}).get(STATE_TTL_KEY, "0 ms"))
    if between.partial_agg_need_retraction or max((state.ttl_ms for state in between.state), default=configured_ms):
        return False
    calls, retracts = between.partial_original_agg_calls, between.partial_agg_call_need_retractions
    running = compile_aggregates(calls, row_type, retracts, f"node {between.id}, {between.kind}").running
    return running is not None and IncrementalAggregates.can_compute(running)


def _shifted(call: AggregateCall, columns: int) -> AggregateCall:
    """Returns a call over rows that lack so many columns in front of its own."""
    return msgspec.structs.replace(
        call,
        arg_list=tuple(position - columns for position in call.arg_list),
        filter_arg=call.filter_arg - columns if call.filter_arg >= 0 else call.filter_arg,
    )


def as_joins(node: Node, row_types: Sequence[LogicalType]) -> list[plan_nodes.Join1]:
    """Returns the joins of two inputs that are equivalent to a join of several: each joins the rows so far with the next input."""
    assert isinstance(node, plan_nodes.MultiJoin1)
    starts = [sum(len(type.fields) for type in row_types[:index]) for index in range(len(row_types) + 1)]
    made: list[plan_nodes.Join1] = []
    keys = node.input_unique_keys[0] or ()
    ttls = {state.index: state for state in node.state}
    for index in range(1, len(row_types)):
        compared = node.join_attribute_map.get(str(index), ())
        left_keys = tuple(starts[pair.left_input_id] + pair.left_field_index for pair in compared)
        right_keys = tuple(pair.right_field_index for pair in compared)
        condition = node.join_conditions[index]
        others = node.input_unique_keys[index] or ()
        sides = [[ttls[i] for i in range(index) if i in ttls], [ttls[index]] if index in ttls else []]
        made.append(
            plan_nodes.Join1(
                id=node.id,
                output_type=LogicalType(node.output_type.root, fields=node.output_type.fields[: starts[index + 1]]),
                description=node.description,
                input_properties=(node.input_properties[0], node.input_properties[index]),
                configuration=node.configuration,
                join_spec=JoinSpec(node.join_types[index], left_keys, right_keys, (True,) * len(left_keys), condition),
                left_upsert_keys=keys,
                right_upsert_keys=others,
                state=tuple(
                    msgspec.structs.replace(min(side, key=lambda state: state.ttl_ms or 2**63), index=at)
                    for at, side in enumerate(sides)
                    if side
                ),
            )
        )
        keys = tuple((*one, *(starts[index] + field for field in other)) for one in keys for other in others)
    return made


def _group_aggregate(
    last: plan_nodes.GlobalGroupAggregate1, grouping: tuple[int, ...], *, retracts: bool
) -> plan_nodes.GroupAggregate1:
    return plan_nodes.GroupAggregate1(
        id=last.id,
        output_type=last.output_type,
        description=last.description,
        input_properties=last.input_properties,
        configuration=last.configuration,
        grouping=grouping,
        agg_calls=last.agg_calls,
        agg_call_need_retractions=tuple(retracts or needs for needs in last.agg_call_need_retractions),
        generate_update_before=last.generate_update_before,
        need_retraction=retracts,
        state=last.state,
    )


def materialized(node: Node, stream: DataStream, row_type: LogicalType, time_zone: str) -> DataStream:
    """Adds upsert materialization before a sink that needs it: of rows with the same primary key the newest is kept."""
    if isinstance(node, plan_nodes.Sink2) and node.require_upsert_materialize:
        return relational(node, [stream], [row_type], time_zone)
    return stream


def _primary_key(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.Sink2)
    table = node.dynamic_table_sink.table
    schema = None if table.resolved_table is None else table.resolved_table.schema
    if schema is None or schema.primary_key is None:
        raise UnsupportedPlan(
            f"node {node.id}, {node.kind}: the plan does not hold the primary key of {table.name}: compile it with the table's schema"
        )
    names = [column.name for column in schema.columns if column.kind == "PHYSICAL"]
    return ([names.index(column) for column in schema.primary_key.columns],)


def _session_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.WindowTableFunction1)
    window = node.windowing.window
    assert isinstance(window, SessionWindow)
    return (window.partition_key_indices,)


def _match_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.Match1)
    return (node.match_spec.partition.fields,)


def _no_keys(node: Node) -> Keys:
    return ((),)


def _batch_group_keys(node: Node) -> Keys:
    assert isinstance(node, BATCH_AGGREGATES)
    return (range(len(node.grouping) + len(node.aux_grouping)),)


def _batch_over_keys(node: Node) -> Keys:
    assert isinstance(node, plan_nodes.BatchOverAggregate1)
    return (node.over_spec.partition.fields,)


def _batch_join_keys(node: Node) -> Keys:
    """Returns the partition keys of a batch join: the left side's keys, or none where the join can make them null."""
    assert isinstance(node, BATCH_JOINS)
    join = as_stream_join(node)
    left, _ = _join_keys(join)
    return ((),) if join.join_spec.join_type in ("FULL", "RIGHT") else (left,)


def as_stream_join(node: Node) -> plan_nodes.Join1:
    """Converts a batch join to the streaming join node."""
    if isinstance(node, plan_nodes.BatchHashJoin1):
        spec = node.join_spec
    else:
        assert isinstance(node, plan_nodes.BatchNestedLoopJoin1)
        spec = JoinSpec(node.join_type, (), (), (), node.condition)
    return plan_nodes.Join1(
        id=node.id,
        output_type=node.output_type,
        description=node.description,
        input_properties=node.input_properties,
        configuration=node.configuration,
        join_spec=spec,
    )


def as_stream_aggregate(node: Node) -> plan_nodes.GroupAggregate1:
    """Converts a one-phase batch aggregate to a streaming aggregate over inserts."""
    assert isinstance(node, BATCH_AGGREGATES)
    return plan_nodes.GroupAggregate1(
        id=node.id,
        output_type=node.output_type,
        description=node.description,
        input_properties=node.input_properties,
        configuration=node.configuration,
        grouping=node.grouping + node.aux_grouping,
        agg_calls=node.agg_calls,
        agg_call_need_retractions=(False,) * len(node.agg_calls),
        generate_update_before=True,
        need_retraction=False,
    )


_LOG = logging.getLogger(__name__)
_GROUPS = (plan_nodes.GroupAggregate1, plan_nodes.PythonGroupAggregate1)
_GROUP_WINDOWS = (plan_nodes.GroupWindowAggregate1, plan_nodes.PythonGroupWindowAggregate1)
_OVERS = (plan_nodes.OverAggregate1, plan_nodes.PythonOverAggregate1)


def as_over_aggregate(
    node: plan_nodes.BatchRank1, row_type: LogicalType, order: tuple[SortField, ...]
) -> plan_nodes.BatchOverAggregate1:
    """Converts a batch rank to an over aggregate that appends RANK to the fields."""
    rank = AggregateCall("rank", (), -1, False, False, False, LogicalType(TypeRoot.BIGINT), internal_name="$RANK$1")
    group = OverGroup(SortSpec(order), False, UnboundedPreceding(), CurrentRow(), (rank,))
    return plan_nodes.BatchOverAggregate1(
        id=node.id,
        output_type=LogicalType(row_type.root, fields=(*row_type.fields, Field("rank", rank.type))),
        description=node.description,
        input_properties=node.input_properties,
        configuration=node.configuration,
        over_spec=OverSpec(PartitionSpec(node.partition_fields), (group,), (), len(row_type.fields)),
    )


BATCH_AGGREGATES = (plan_nodes.BatchHashAggregate1, plan_nodes.BatchSortAggregate1)
BATCH_JOINS = (plan_nodes.BatchHashJoin1, plan_nodes.BatchNestedLoopJoin1)
FINAL: dict[type[Node], Callable[[Node], Keys]] = {
    plan_nodes.Sort1: _no_keys,
    plan_nodes.BatchSort1: _no_keys,
    plan_nodes.BatchSortLimit1: _no_keys,
    plan_nodes.BatchLimit1: _no_keys,
    plan_nodes.BatchOverAggregate1: _batch_over_keys,
    **dict.fromkeys(BATCH_AGGREGATES, _batch_group_keys),
    **dict.fromkeys(BATCH_JOINS, _batch_join_keys),
}
"""Nodes that emit only the rows that remain when their input ends, with their partition keys. Batch aggregates and joins run as the streaming operator
followed by one that emits these rows.
"""

RELATIONAL: dict[type[Node], Callable[[Node], Keys]] = {
    **dict.fromkeys(_GROUPS, _group_keys),
    plan_nodes.IncrementalGroupAggregate1: _partial_keys,
    plan_nodes.Sink2: _primary_key,
    plan_nodes.ChangelogNormalize1: _unique_keys,
    plan_nodes.Join1: _join_keys,
    plan_nodes.Deduplicate1: _unique_keys,
    plan_nodes.WindowAggregate1: _window_keys,
    **dict.fromkeys(_GROUP_WINDOWS, _window_keys),
    plan_nodes.WindowRank1: _window_rank_keys,
    plan_nodes.WindowDeduplicate1: _window_deduplicate_keys,
    plan_nodes.WindowJoin1: _join_keys,
    plan_nodes.IntervalJoin1: _join_keys,
    **dict.fromkeys(_OVERS, _over_keys),
    plan_nodes.Rank1: _rank_keys,
    plan_nodes.Limit1: _rank_keys,
    plan_nodes.SortLimit1: _rank_keys,
    plan_nodes.WindowTableFunction1: _session_keys,
    plan_nodes.TemporalSort1: _no_keys,
    plan_nodes.TemporalJoin1: _join_keys,
    plan_nodes.Match1: _match_keys,
    **FINAL,
}
"""Nodes with relational operators, with the function that returns the partition keys of each one's inputs."""


def _has_updates(node: Node, inputs: Sequence[DataStream]) -> bool:
    if isinstance(node, (plan_nodes.WindowTableFunction1, plan_nodes.TemporalJoin1)):
        return has_row_kinds(inputs[0])
    if isinstance(node, _OVERS):
        return not is_by_time(node)
    if isinstance(node, (*TIMED, *FINAL, plan_nodes.IncrementalGroupAggregate1)):
        return False
    if isinstance(node, plan_nodes.Deduplicate1):
        return node.keep_last_row or (node.is_rowtime and not node.output_insert_only)
    if isinstance(node, plan_nodes.Join1):
        return node.join_spec.join_type not in ("INNER", "SEMI") or any(map(has_row_kinds, inputs))
    return True


def _check(node: Node, row_types: Sequence[LogicalType], time_zone: str, functions: UserAggregates | None) -> None:
    """Compiles what the operator will compile, so that unsupported functions are found before the job starts."""
    where = f"node {node.id}, {node.kind}"
    context = EvaluationContext(time_zone)
    try:
        if isinstance(node, _GROUPS):
            compile_aggregates(node.agg_calls, row_types[0], node.agg_call_need_retractions, where, functions)
        if isinstance(node, plan_nodes.ChangelogNormalize1) and node.filter_condition is not None:
            compile_filter(node.filter_condition, row_types[0], context)
        if isinstance(node, _JOINS) and (condition := join_spec(node).non_equi_condition) is not None:
            left, right = row_types
            joined = LogicalType(left.root, fields=left.fields + right.fields)
            compile_filter(condition, joined, context)
        if isinstance(node, _OVERS):
            if isinstance(node, plan_nodes.PythonOverAggregate1) and over_preceding(node.over_spec) is None:
                raise UnsupportedPlan("Python UDAF is not supported to be used in UNBOUNDED PRECEDING OVER windows.")
            _check_over(node, row_types[0], where, functions)
        if isinstance(node, plan_nodes.BatchOverAggregate1):
            CompiledOver(node.over_spec, row_types[0], where, functions)
        for windowing in _windowings(node):
            if isinstance(windowing, WindowAttachedWindowing):
                attached_spans(windowing)
        if isinstance(node, plan_nodes.WindowAggregate1):
            compile_aggregates(node.agg_calls, row_types[0], bool(node.need_retraction), where)
        if isinstance(node, _GROUP_WINDOWS):
            compile_aggregates(node.agg_calls, row_types[0], node.need_retraction, where, functions)
            if (rows := rows_of(node.window)) is None:
                spans_of(node.window)
            elif min(rows) < 1:
                raise UnsupportedPlan("a window of rows needs a size and a slide of at least one row")
            elif node.window.time_field.field_type.kind is not TimeKind.PROCTIME:
                raise UnsupportedPlan("Event-time grouping windows on row intervals are currently not supported.")
        if isinstance(node, plan_nodes.TemporalJoin1):
            is_processing_time = node.right_time_attribute_index < 0
            if is_processing_time and not node.is_temporal_function_join:
                raise UnsupportedPlan("Processing-time temporal join is not supported yet")
        if isinstance(node, plan_nodes.TemporalSort1):
            first = node.order_by.fields[0]
            if row_types[0].fields[first.index].type.kind is TimeKind.REGULAR or not first.is_ascending:
                raise UnsupportedPlan("Sort on a non-time-attribute field is not supported")
        if isinstance(node, plan_nodes.Match1):
            _check_match(node, row_types[0], context)
        if isinstance(node, (plan_nodes.Rank1, plan_nodes.WindowRank1)):
            _check_rank(node)
    except UnsupportedPlan as error:
        message = error.message.removeprefix(f"{where}: ")
        raise UnsupportedPlan(f"{where}: {message}: {node.description}") from error


def _check_match(node: plan_nodes.Match1, row_type: LogicalType, context: EvaluationContext) -> None:
    """Checks a MATCH_RECOGNIZE node; refuses with Flink's messages what Flink refuses."""
    spec = node.match_spec
    if not spec.order_by.fields or row_type.fields[spec.order_by.fields[0].index].type.kind is TimeKind.REGULAR:
        raise UnsupportedPlan("You must specify either rowtime or proctime for order by.")
    if not spec.order_by.fields[0].is_ascending:
        raise UnsupportedPlan("Primary sort order of a streaming table must be ascending on time.")
    pattern_of(spec, row_type, context)
    Measures(spec, row_type, node.output_type, context)
    if spec.subsets:
        _LOG.warning(
            "node %d, %s: the subsets %s have no rows in MEASURES, as in Flink 2.3: their fields are null, their sums too, and their counts 0. "
            "Name the variables instead",
            node.id,
            node.kind,
            ", ".join(spec.subsets),
        )


def _check_rank(node: plan_nodes.Rank1 | plan_nodes.WindowRank1) -> None:
    """Checks a rank node; refuses with Flink's messages what Flink refuses in streaming mode."""
    is_window = isinstance(node, plan_nodes.WindowRank1)
    if node.rank_type != "ROW_NUMBER":
        raise UnsupportedPlan(
            f"{node.rank_type}() function is not supported on Window TopN currently, only ROW_NUMBER() is supported"
            if is_window
            else f"{node.rank_type}() on streaming table is not supported currently"
        )
    found = node.rank_range
    is_variable = isinstance(found, VariableRange) and isinstance(node, plan_nodes.Rank1)
    if not (is_variable or isinstance(found, ConstantRange)):
        raise UnsupportedPlan(f"a rank of the kind {type(found).__name__} is not supported")


def assigned_watermarks(
    node: Node, stream: DataStream, row_type: LogicalType, time_zone: str, *, emits_each: bool
) -> DataStream:
    """Adds watermarks to the rows of a stream. ``emits_each``: see ``WatermarkAssigner``. Raises ``UnsupportedPlan`` as ``relational`` does."""
    assert isinstance(node, plan_nodes.WatermarkAssigner1)
    try:
        compile_expression(node.watermark_expr, row_type, EvaluationContext(time_zone))
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    schema = stream.get_type().arrow_schema()
    return without_keys(node, stream, row_type, schema, time_zone, emits_each=emits_each)


TIMED = (
    plan_nodes.WindowAggregate1,
    *_GROUP_WINDOWS,
    plan_nodes.GlobalWindowAggregate1,
    plan_nodes.WindowRank1,
    plan_nodes.WindowDeduplicate1,
    plan_nodes.WindowJoin1,
    plan_nodes.IntervalJoin1,
    *_OVERS,
    plan_nodes.TemporalSort1,
    plan_nodes.TemporalJoin1,
    plan_nodes.Match1,
)
"""Nodes that emit rows by event time."""
_CURRENT_WATERMARK = "$CURRENT_WATERMARK$1"
_JOINS = (plan_nodes.Join1, plan_nodes.WindowJoin1, plan_nodes.IntervalJoin1, plan_nodes.TemporalJoin1)


def asks_for_time(node: Node) -> bool:
    """Returns whether the operator of a node needs watermarks."""
    if isinstance(node, plan_nodes.WindowTableFunction1):
        return isinstance(node.windowing.window, SessionWindow)
    if isinstance(node, plan_nodes.MiniBatchAssigner1):
        return node.mini_batch_interval.mode == "RowTime"
    if isinstance(node, _OVERS):
        return is_by_time(node)
    if isinstance(node, plan_nodes.Sink2):
        return node.dynamic_table_sink.commits_by_time
    return isinstance(node, TIMED) or (isinstance(node, plan_nodes.Deduplicate1) and bool(node.output_insert_only))


def sees_watermark(node: Node) -> bool:
    """Returns whether a node computes the current watermark."""
    return any(call.function == _CURRENT_WATERMARK for call in calls(node))


def _windowings(node: Node) -> Sequence[Windowing]:
    if isinstance(node, plan_nodes.WindowJoin1):
        return node.left_windowing, node.right_windowing
    windowed = (plan_nodes.WindowAggregate1, plan_nodes.WindowRank1, plan_nodes.WindowDeduplicate1)
    return (node.windowing,) if isinstance(node, windowed) else ()


def _check_over(node: Over, row_type: LogicalType, where: str, functions: UserAggregates | None) -> None:
    spec = node.over_spec
    (group,) = spec.groups
    preceding = over_preceding(spec)
    if preceding is not None and not is_by_time(node):
        raise UnsupportedPlan("Non-time attribute sort is not supported for bounded OVER window")
    over_constants(spec)
    check_over_functions(group)
    compile_aggregates(group.agg_calls, over_row_type(spec, row_type), preceding is not None, where, functions)


def windowed(node: Node, stream: DataStream, row_type: LogicalType, time_zone: str) -> DataStream:
    """Emits each row once for each of its windows, with window start, end and time. Raises ``UnsupportedPlan``."""
    assert isinstance(node, (plan_nodes.WindowTableFunction1, plan_nodes.BatchWindowTableFunction1))
    windowing = node.windowing
    is_batch = isinstance(node, plan_nodes.BatchWindowTableFunction1)  # where any column of time will do
    schema = table_schema(node.output_type, has_updates=has_row_kinds(stream))
    if isinstance(windowing.window, SessionWindow):
        if is_batch:
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: Unaligned windows like session are not supported in batch mode yet: {node.description}"
            )
        return relational(node, [stream], [row_type], time_zone)
    if not (is_batch or windowing.is_rowtime):
        return without_keys(node, stream, row_type, schema, time_zone)
    shift = shift_of(windowing.time_attribute_type, time_zone)
    made = WindowedRows(windowing.window, windowing.time_attribute_index, schema, shift)
    return mapped(stream, made, schema).name(node.description)


def without_keys(
    node: Node,
    stream: DataStream,
    row_type: LogicalType,
    schema: pa.Schema,
    time_zone: str,
    *,
    emits_each: bool = False,
) -> DataStream:
    """Builds the operator of a node that treats each row on its own, with the parallelism of its input."""
    env = stream.get_execution_environment()
    options = {"node": node, "row_types": (row_type,), "keys": (), "time_zone": time_zone, "emits_each": emits_each}
    inputs = (stream._values_transformation(),)
    made = DataStream(env, env.add_operator("relational", node.description, options, ArrowTypeInfo(schema), inputs))
    follow_input(made)
    return made
