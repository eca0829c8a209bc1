"""Makes the operator of a node of a compiled plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from msgspec.structs import replace

from tidegate.functions.sql.aggregates import compile_aggregates
from tidegate.functions.sql.match_recognize import Measures, pattern_of
from tidegate.functions.sql.over_frames import CompiledOver
from tidegate.functions.sql.over_windows import is_by_time, over_constants, over_preceding, over_row_type
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema, compile_filter
from tidegate.functions.sql.time_shift import TimeShift, shift_of
from tidegate.functions.sql.time_windows import (
    Span,
    WindowedRows,
    attached_bounds,
    attached_spans,
    grid_of,
    ms_of,
    rows_of,
    spans_of,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.operator_options import RelationalOptions
from tidegate.plan import nodes
from tidegate.plan.expressions import PlanPart
from tidegate.plan.logical_types import LogicalType, TimeKind
from tidegate.plan.nodes import (
    INTERVAL_JOIN_CLEANUP_KEY,
    MINI_BATCH_KEY,
    MINI_BATCH_SIZE_KEY,
    RANK_CACHE_KEY,
    STATE_TTL_KEY,
    Node,
)
from tidegate.plan.specs import (
    ConstantRange,
    ConstantRangeWithoutEnd,
    JoinSpec,
    Proctime,
    Retract,
    Rowtime,
    SessionGroupWindow,
    SessionWindow,
    SlidingGroupWindow,
    TimeAttributeWindowing,
    UpdateFast,
    VariableRange,
    WindowAttachedWindowing,
    WindowEnd,
    Windowing,
    WindowStart,
    duration_ms,
)
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.aggregates import GroupAggregate
from tidegate.taskmanager.operators.relational.batch_over import BatchOver
from tidegate.taskmanager.operators.relational.count_windows import CountWindowAggregate
from tidegate.taskmanager.operators.relational.deduplicate import Deduplicate, FirstRow
from tidegate.taskmanager.operators.relational.final_rows import FinalRows
from tidegate.taskmanager.operators.relational.incremental_aggregates import IncrementalGroupAggregate
from tidegate.taskmanager.operators.relational.interval_join import TableIntervalJoin
from tidegate.taskmanager.operators.relational.join import Join
from tidegate.taskmanager.operators.relational.match import Match
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.mini_batches import (
    EventTimeMiniBatchAssigner,
    ProcessingTimeMiniBatchAssigner,
)
from tidegate.taskmanager.operators.relational.over import OverAggregate
from tidegate.taskmanager.operators.relational.ranks import TopN
from tidegate.taskmanager.operators.relational.relational_operator import TableOperator
from tidegate.taskmanager.operators.relational.slices import slices_of
from tidegate.taskmanager.operators.relational.sorted_over import SortedOver
from tidegate.taskmanager.operators.relational.temporal_join import ProcessingTimeTemporalJoin, TemporalJoin, Versions
from tidegate.taskmanager.operators.relational.temporal_sort import TemporalSort
from tidegate.taskmanager.operators.relational.upserts import ChangelogNormalize, UpsertMaterialize
from tidegate.taskmanager.operators.relational.user_windows import PanedWindowAggregate, WindowRowsAggregate
from tidegate.taskmanager.operators.relational.watermarks import WatermarkAssigner, WatermarkCalc
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate
from tidegate.taskmanager.operators.relational.window_join import WindowJoin
from tidegate.taskmanager.operators.relational.windows import (
    ProcessingTimeRows,
    SessionRows,
    Spans,
    WindowDeduplicate,
    WindowTopN,
)

GATHERED_ROWS = 8_192
"""Rows that an operator gathers which emits nothing before a watermark: as many as a source reads at once, by which arrays cost little for each row."""


def make_relational(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    """Makes the operator of a plan's node. ``schema``: of the emitted rows. Raises ``InvalidJob`` for a node without an operator."""
    make = _MAKERS.get(type(options.node))
    if make is None:
        raise InvalidJob(f"operator '{name}': tidegate has no operator for the plan node {options.node.kind}")
    operator = make(name, options, schema)
    if options.functions is not None:
        assert isinstance(operator, TableOperator)
        operator.call_functions(options.functions)
    configuration = options.node.configuration or {}
    if configuration.get(MINI_BATCH_KEY) == "true" and (size := int(configuration.get(MINI_BATCH_SIZE_KEY, "-1"))) > 1:
        assert isinstance(operator, TableOperator)
        operator.gather(size)
    elif isinstance(operator, _EMITS_BY_TIME) and operator.is_event_time and not operator.forgets:
        operator.gather(GATHERED_ROWS)
    return operator


def _group_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, (nodes.GroupAggregate1, nodes.PythonGroupAggregate1))
    return GroupAggregate(
        name,
        node.grouping,
        compile_aggregates(
            node.agg_calls, options.row_types[0], node.agg_call_need_retractions, name, options.functions
        ),
        schema,
        generates_update_before=node.generate_update_before,
        retracts=node.need_retraction,
        folds=isinstance(node, nodes.PythonGroupAggregate1)  # as PyFlink does with the rows of a bundle
        or (node.configuration or {}).get(MINI_BATCH_KEY) == "true",
        ttl_ms=_ttl_ms(node, 0),
    )


def _incremental_group_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node, row_type = options.node, options.row_types[0]
    assert isinstance(node, nodes.IncrementalGroupAggregate1)
    return IncrementalGroupAggregate(
        name,
        node.partial_agg_grouping,
        node.final_agg_grouping,
        compile_aggregates(node.partial_original_agg_calls, row_type, node.partial_agg_call_need_retractions, name),
        schema,
        rows=arrow_schema(row_type),
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


def _upsert_materialize(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Sink2)
    return UpsertMaterialize(
        name, options.keys[0], schema, upsert_key=node.input_upsert_key or (), ttl_ms=_ttl_ms(node, 0)
    )


def _deduplicate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Deduplicate1)
    fields = options.row_types[0].fields
    times = [i for i, field in enumerate(fields) if field.type.kind is TimeKind.ROWTIME]
    if node.is_rowtime and node.output_insert_only:
        return FirstRow(name, node.unique_keys, schema, time=times[0], ttl_ms=_ttl_ms(node, 0))
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
    found, strategy = node.rank_range, node.rank_strategy
    assert not isinstance(found, ConstantRangeWithoutEnd)
    return TopN(
        name,
        node.partition.fields,
        node.order_by.fields,
        (1, None) if isinstance(found, VariableRange) else (found.start, found.end),
        schema,
        last_rank=found.end_index if isinstance(found, VariableRange) else None,
        outputs_number=node.output_row_number,
        generates_update_before=node.generate_update_before,
        upsert_keys=strategy.primary_keys if isinstance(strategy, UpdateFast) else None,
        retracts=isinstance(strategy, Retract),
        ttl_ms=_ttl_ms(node, 0),
        cached_rows=int((node.configuration or {}).get(RANK_CACHE_KEY, "10000")),
    )


def _final_rows(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    match node:
        case nodes.Sort1():
            return FinalRows(name, (), schema, order=node.order_by.fields)
        case nodes.BatchSort1():
            return FinalRows(name, (), schema, order=node.sort_spec.fields)
        case nodes.BatchSortLimit1():
            order = node.sort_spec.fields
            return FinalRows(name, (), schema, order=order, first=node.limit_start, last=node.limit_end)
        case nodes.BatchLimit1():
            return FinalRows(name, (), schema, first=node.limit_start, last=node.limit_end)
        case nodes.BatchHashAggregate1() | nodes.BatchSortAggregate1() if not options.keys[0]:
            aggregates = compile_aggregates(node.agg_calls, options.row_types[0], False, name, options.functions)
            return FinalRows(name, (), schema, if_none=aggregates.values(aggregates.create()))
        case _:
            return FinalRows(name, options.keys[0], schema)


def _batch_over(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.BatchOverAggregate1)
    return BatchOver(name, schema, CompiledOver(node.over_spec, options.row_types[0], name, options.functions))


def _join(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Join1)
    spec = node.join_spec
    left, right = options.row_types
    return Join(
        name,
        options.keys,
        schema,
        join_type=spec.join_type,
        matcher=_matcher(spec, options),
        widths=(len(left.fields), len(right.fields)),
        upsert_keys=[
            _shortest(node.left_upsert_keys, spec.left_keys),
            _shortest(node.right_upsert_keys, spec.right_keys),
        ],
        ttl_ms=[_ttl_ms(node, 0), _ttl_ms(node, 1)],
    )


def _matcher(spec: JoinSpec, options: RelationalOptions) -> Matcher:
    left, right = options.row_types
    joined = LogicalType(left.root, fields=left.fields + right.fields)
    columns = [*arrow_schema(left), *arrow_schema(right)]
    condition = spec.non_equi_condition
    return Matcher(
        list(zip(spec.left_keys, spec.right_keys, strict=True)),
        list(zip(*options.keys, strict=True)),
        spec.filter_nulls,
        None if condition is None else compile_filter(condition, joined, EvaluationContext(options.time_zone)),
        pa.schema([pa.field(f"f{i}", field.type) for i, field in enumerate(columns)]),
        len(left.fields),
    )


def _window_join(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WindowJoin1)
    return WindowJoin(
        name,
        options.keys,
        schema,
        join_type=node.join_spec.join_type,
        matcher=_matcher(node.join_spec, options),
        bounds=[_bounds(node.left_windowing), _bounds(node.right_windowing)],
        is_event_time=node.left_windowing.is_rowtime,
        shift=shift_of(node.left_windowing.time_attribute_type, options.time_zone),
    )


def _window_rank(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WindowRank1)
    assert isinstance(node.rank_range, ConstantRange)
    return WindowTopN(
        name,
        node.partition_spec.fields,
        schema,
        order=node.sort_spec.fields,
        ranks=(node.rank_range.start, node.rank_range.end),
        outputs_number=node.output_row_number,
        spans=[_attached(node.windowing)],
        is_event_time=node.windowing.is_rowtime,
        shift=shift_of(node.windowing.time_attribute_type, options.time_zone),
    )


def _window_deduplicate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WindowDeduplicate1)
    return WindowDeduplicate(
        name,
        node.partition_keys,
        schema,
        time=node.order_key,
        keeps_last=node.keep_last_row,
        spans=[_attached(node.windowing)],
        is_event_time=node.windowing.is_rowtime,
        shift=shift_of(node.windowing.time_attribute_type, options.time_zone),
    )


def _attached(windowing: Windowing) -> Spans:
    assert isinstance(windowing, WindowAttachedWindowing)
    return attached_spans(windowing)


def _bounds(windowing: Windowing) -> tuple[int, int]:
    assert isinstance(windowing, WindowAttachedWindowing)
    return attached_bounds(windowing)


def _interval_join(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.IntervalJoin1)
    spec, bounds = node.interval_join_spec.join_spec, node.interval_join_spec.window_bounds
    left, right = options.row_types
    return TableIntervalJoin(
        name,
        options.keys,
        schema,
        join_type=spec.join_type,
        matcher=_matcher(spec, options),
        times=(bounds.left_time_index, bounds.right_time_index),
        before=-bounds.left_lower_bound,
        after=bounds.left_upper_bound,
        widths=(len(left.fields), len(right.fields)),
        is_event_time=bounds.is_event_time,
        min_cleanup_ms=parse_duration_ms((node.configuration or {}).get(INTERVAL_JOIN_CLEANUP_KEY, "0 ms")),
    )


def _over_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, (nodes.OverAggregate1, nodes.PythonOverAggregate1))
    (group,) = node.over_spec.groups
    row_type = over_row_type(node.over_spec, options.row_types[0])
    constants = over_constants(node.over_spec)
    preceding = over_preceding(node.over_spec)
    if not is_by_time(node):
        return SortedOver(
            name,
            node.over_spec.partition.fields,
            compile_aggregates(group.agg_calls, row_type, False, name),
            schema,
            order=group.order_by.fields,
            is_rows=group.is_rows,
            constants=constants,
            ttl_ms=_ttl_ms(node, 0),
        )
    time = group.order_by.fields[0].index
    is_event_time = options.row_types[0].fields[time].type.kind is TimeKind.ROWTIME
    return OverAggregate(
        name,
        node.over_spec.partition.fields,
        compile_aggregates(group.agg_calls, row_type, preceding is not None, name, options.functions),
        schema,
        time=time if is_event_time else None,
        is_rows=group.is_rows,
        preceding=preceding,
        constants=constants,
        ttl_ms=_ttl_ms(node, 0),
    )


def _shortest(keys: Sequence[tuple[int, ...]], join_keys: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the shortest key of a side that distinguishes its rows, preferring one within the join's keys; ``None``: there is no key."""
    within = [key for key in keys if set(key) <= set(join_keys)]
    return min(within or keys, key=len, default=None)


def _window_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WindowAggregate1)
    windowing = node.windowing
    is_attached = isinstance(windowing, WindowAttachedWindowing)
    attached_at: tuple[int, ...] = ()
    if isinstance(windowing, WindowAttachedWindowing):
        attached_at = windowing.window_start, windowing.window_end
    shift = shift_of(windowing.time_attribute_type, options.time_zone)
    time = None
    if not is_attached:
        assert isinstance(windowing, TimeAttributeWindowing)
        time = windowing.time_attribute_index if windowing.is_rowtime else None
    return WindowAggregate(
        name,
        node.grouping,
        compile_aggregates(node.agg_calls, options.row_types[0], bool(node.need_retraction), name),
        schema,
        time=time,
        spans=None if is_attached else spans_of(windowing.window),
        attached=_attached(windowing) if is_attached else None,
        attached_at=attached_at,
        merges=not is_attached and isinstance(windowing.window, SessionWindow),
        properties=[_property(type(found.property), shift) for found in node.named_window_properties],
        shift=shift,
        slices=None if is_attached else slices_of(windowing.window, spans_of(windowing.window)),
        grid=None if is_attached else grid_of(windowing.window),
    )


def _group_window_aggregate(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, (nodes.GroupWindowAggregate1, nodes.PythonGroupWindowAggregate1))
    aggregates = compile_aggregates(node.agg_calls, options.row_types[0], node.need_retraction, name, options.functions)
    emits_empty = isinstance(node, nodes.PythonGroupWindowAggregate1) and not aggregates.want_all_rows
    if (rows := rows_of(node.window)) is not None:
        size, slide = rows
        return CountWindowAggregate(
            name, node.grouping, aggregates, schema, size=size, slide=slide, emits_empty=emits_empty
        )
    time_field = node.window.time_field
    shift = shift_of(time_field.field_type, options.time_zone)
    # any column of time will do in batch mode
    time = None if time_field.field_type.kind is TimeKind.PROCTIME else time_field.field_index
    spans, merges = spans_of(node.window), isinstance(node.window, SessionGroupWindow)
    properties = [_property(type(found.property), shift) for found in node.named_window_properties]
    if aggregates.want_all_rows:
        return WindowRowsAggregate(
            name,
            node.grouping,
            aggregates,
            schema,
            time=time,
            spans=spans,
            merges=merges,
            properties=properties,
            shift=shift,
        )
    if isinstance(node, nodes.PythonGroupWindowAggregate1) and isinstance(node.window, SlidingGroupWindow):
        return PanedWindowAggregate(
            name,
            node.grouping,
            aggregates,
            schema,
            time=time,
            spans=spans,
            size=ms_of(node.window.size),
            slide=ms_of(node.window.slide),
            properties=properties,
            shift=shift,
            emits_empty=emits_empty,
        )
    return WindowAggregate(
        name,
        node.grouping,
        aggregates,
        schema,
        time=time,
        spans=spans,
        attached=None,
        merges=merges,
        properties=properties,
        shift=shift,
        slices=slices_of(node.window, spans),
        grid=grid_of(node.window),
        emits_empty=emits_empty,
    )


def _property(kind: type[PlanPart], shift: TimeShift) -> Callable[[Span], int | None]:
    """Returns the function that computes a property of a window. Start and end are local times, the rowtime is a point in time."""
    made: dict[type[PlanPart], Callable[[Span], int | None]] = {
        WindowStart: lambda span: span[0],
        WindowEnd: lambda span: span[1],
        Rowtime: lambda span: shift.moment(span[1] - 1),
        Proctime: lambda span: None,
    }
    return made[kind]


def _window_table_function(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    """Makes the operator of a window table function with windows of processing time or sessions. Other windows are assigned batch by batch."""
    node = options.node
    assert isinstance(node, nodes.WindowTableFunction1)
    windowing = node.windowing
    shift = shift_of(windowing.time_attribute_type, options.time_zone)
    if not isinstance(windowing.window, SessionWindow):
        return ProcessingTimeRows(WindowedRows(windowing.window, windowing.time_attribute_index, schema, shift))
    return SessionRows(
        name,
        windowing.window.partition_key_indices,
        schema,
        time=windowing.time_attribute_index if windowing.is_rowtime else None,
        gap=duration_ms(windowing.window.gap),
        shift=shift,
    )


def _temporal_sort(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.TemporalSort1)
    first, *others = node.order_by.fields
    is_event_time = options.row_types[0].fields[first.index].type.kind is TimeKind.ROWTIME
    return TemporalSort(name, schema, time=first.index if is_event_time else None, order=others)


def _match(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Match1)
    spec, row_type = node.match_spec, options.row_types[0]
    context = EvaluationContext(options.time_zone)
    first, *others = spec.order_by.fields
    is_event_time = row_type.fields[first.index].type.kind is TimeKind.ROWTIME
    return Match(
        name,
        spec.partition.fields,
        schema,
        pattern_of(spec, row_type, context),
        Measures(spec, row_type, node.output_type, context),
        time=first.index if is_event_time else None,
        order=others,
    )


def _temporal_join(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.TemporalJoin1)
    equal_nulls = (False,) * len(node.join_spec.filter_nulls)  # as in Flink, whose state has null as a key
    matcher = _matcher(replace(node.join_spec, filter_nulls=equal_nulls), options)
    is_left_join = node.join_spec.join_type == "LEFT"
    versions = Versions(matcher, is_left_join=is_left_join, right_width=len(options.row_types[1].fields))
    times = node.left_time_attribute_index, node.right_time_attribute_index
    ttl_ms = _ttl_ms(node, 0)
    if node.right_time_attribute_index < 0:
        return ProcessingTimeTemporalJoin(name, options.keys, schema, versions=versions, retention_ms=ttl_ms)
    return TemporalJoin(name, options.keys, schema, versions=versions, times=times, retention_ms=ttl_ms)


def _watermark_assigner(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.WatermarkAssigner1)
    row_type, zone = options.row_types[0], options.time_zone
    return WatermarkAssigner(
        node.watermark_expr, node.rowtime_field_index, row_type, zone, emits_each=options.emits_each
    )


def _mini_batch_assigner(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.MiniBatchAssigner1)
    found = node.mini_batch_interval
    by_clock = found.mode == "ProcTime"
    return (ProcessingTimeMiniBatchAssigner if by_clock else EventTimeMiniBatchAssigner)(found.interval)


def _calc(name: str, options: RelationalOptions, schema: pa.Schema) -> Operator:
    node = options.node
    assert isinstance(node, nodes.Calc1)
    return WatermarkCalc(options.row_types[0], node, options.time_zone)


def _ttl_ms(node: Node, index: int) -> int:
    """Returns the time to live of a node's state in the plan, in ms; if the plan does not list its states, the configured one; 0: none."""
    found: dict[int, int] = {state.index: state.ttl_ms for state in getattr(node, "state", ())}
    if found:
        return found.get(index, 0)
    return parse_duration_ms((node.configuration or {}).get(STATE_TTL_KEY, "0 ms"))


_EMITS_BY_TIME = (
    WindowAggregate, WindowDeduplicate, WindowJoin, WindowTopN, OverAggregate, TemporalJoin, TemporalSort, Match,
)  # fmt: skip
"""Operators that emit nothing before a watermark, if they compute by event time."""

_MAKERS: dict[type[Node], Callable[[str, RelationalOptions, pa.Schema], Operator]] = {
    nodes.GroupAggregate1: _group_aggregate,
    nodes.IncrementalGroupAggregate1: _incremental_group_aggregate,
    nodes.PythonGroupAggregate1: _group_aggregate,
    nodes.PythonGroupWindowAggregate1: _group_window_aggregate,
    nodes.PythonOverAggregate1: _over_aggregate,
    nodes.Sink2: _upsert_materialize,
    nodes.ChangelogNormalize1: _changelog_normalize,
    nodes.Join1: _join,
    nodes.Deduplicate1: _deduplicate,
    nodes.Rank1: _rank,
    nodes.Limit1: _rank,
    nodes.SortLimit1: _rank,
    nodes.WindowAggregate1: _window_aggregate,
    nodes.GroupWindowAggregate1: _group_window_aggregate,
    nodes.WindowJoin1: _window_join,
    nodes.WindowRank1: _window_rank,
    nodes.WindowDeduplicate1: _window_deduplicate,
    nodes.IntervalJoin1: _interval_join,
    nodes.OverAggregate1: _over_aggregate,
    nodes.WatermarkAssigner1: _watermark_assigner,
    nodes.MiniBatchAssigner1: _mini_batch_assigner,
    nodes.Calc1: _calc,
    nodes.WindowTableFunction1: _window_table_function,
    nodes.TemporalSort1: _temporal_sort,
    nodes.TemporalJoin1: _temporal_join,
    nodes.Match1: _match,
    nodes.Sort1: _final_rows,
    nodes.BatchSort1: _final_rows,
    nodes.BatchSortLimit1: _final_rows,
    nodes.BatchLimit1: _final_rows,
    nodes.BatchOverAggregate1: _batch_over,
    nodes.BatchHashAggregate1: _final_rows,
    nodes.BatchSortAggregate1: _final_rows,
    nodes.BatchHashJoin1: _final_rows,
    nodes.BatchNestedLoopJoin1: _final_rows,
}


__all__ = ["make_relational"]
