"""Translation of a compiled plan's nodes to operators on streams of Arrow batches. Nodes without an operator are refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidegate.functions.sql.calc import CalcFunction
from tidegate.functions.sql.changelog import as_inserts, has_kinds, without_update_before
from tidegate.functions.sql.constraints import ConstraintEnforcer, Enforcers
from tidegate.functions.sql.scalar import arrow_schema, batch_of, compile_projection
from tidegate.functions.sql.table_functions import Correlate
from tidegate.model.errors import InvalidJob
from tidegate.plan import ExecNodeGraph, UnsupportedPlan
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.expressions import RexInputRef, RexLiteral
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import (
    INTERVAL_JOIN_CLEANUP_KEY,
    MINI_BATCH_KEY,
    MINI_BATCH_SIZE_KEY,
    STATE_TTL_KEY,
    Node,
)
from tidegate.plan.specs import HashDistribution, SingletonDistribution, SortField
from tidegate.table._execution.lookups import LOOKUPS, Lookups, looked_up, no_lookups
from tidegate.table._execution.one_to_one import mapped
from tidegate.table._execution.python_nodes import PYTHON, Functions, aggregates_of, calls_functions, python_stream
from tidegate.table._execution.relational import (
    BATCH_AGGREGATES,
    BATCH_JOINS,
    RELATIONAL,
    as_joins,
    as_one_phase,
    as_over_aggregate,
    as_stream_aggregate,
    as_stream_join,
    as_two_aggregates,
    asks_for_time,
    assigned_watermarks,
    dealt_by,
    has_row_kinds,
    materialized,
    relational,
    sees_watermark,
    table_schema,
    windowed,
    without_keys,
)

Sources: TypeAlias = Callable[[Node], DataStream]
Sinks: TypeAlias = Callable[[Node, DataStream], None]

_SCANS = (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1)
_CALCS = (plan_nodes.Calc1, plan_nodes.BatchCalc1)
_VALUES = (plan_nodes.Values1, plan_nodes.BatchValues1)
_UNIONS = (plan_nodes.Union1, plan_nodes.BatchUnion1)
_SINKS = (plan_nodes.Sink2, plan_nodes.BatchSink1)
_EXPANDS = (plan_nodes.Expand1, plan_nodes.BatchExpand1)
_CORRELATES = (plan_nodes.Correlate1, plan_nodes.BatchCorrelate1)
_GROUP_WINDOWS = (plan_nodes.GroupWindowAggregate1, plan_nodes.PythonGroupWindowAggregate1)
_WINDOW_FUNCTIONS = (plan_nodes.WindowTableFunction1, plan_nodes.BatchWindowTableFunction1)
_LIMITS = (plan_nodes.BatchLimit1, plan_nodes.BatchSortLimit1)
_NO_LIMIT = 2**63 - 1
_TRANSPARENT = (plan_nodes.WatermarkAssigner1, plan_nodes.MiniBatchAssigner1, plan_nodes.BatchExchange1)
"""Nodes that may need no operator: watermarks are made where a node needs time, mini-batches end only where they have an interval, and operators of batch
nodes partition their rows themselves."""
_GATHERING = (plan_nodes.Join1, plan_nodes.MultiJoin1, plan_nodes.Rank1)
"""Nodes that gather mini-batches although plans do not contain their options. A rank does not in Flink, where a batch is one row for it."""
SUPPORTED: tuple[type[Node], ...] = (
    *_SCANS, *_CALCS, *_VALUES, *_UNIONS, plan_nodes.Exchange1, *_SINKS, *_EXPANDS, *_CORRELATES, *_TRANSPARENT, *RELATIONAL,
    *PYTHON, plan_nodes.DropUpdateBefore1, plan_nodes.LocalWindowAggregate1, plan_nodes.GlobalWindowAggregate1,
    *_WINDOW_FUNCTIONS, plan_nodes.LocalGroupAggregate1, plan_nodes.IncrementalGroupAggregate1,
    plan_nodes.GlobalGroupAggregate1, plan_nodes.MultiJoin1, plan_nodes.BatchRank1, *LOOKUPS,
)  # fmt: skip


def translate(
    plan: ExecNodeGraph,
    env: StreamExecutionEnvironment,
    sources: Sources,
    sinks: Sinks,
    time_zone: str = "UTC",
    functions: Functions | None = None,
    is_bounded: Callable[[Node], bool] | None = None,
    options: Mapping[str, str] | None = None,
    lookups: Lookups | None = None,
    watermarks_pass: bool = False,
) -> None:
    """Adds the operators of a plan to ``env``. ``sources`` gives the stream of a scan, ``sinks`` ends a stream in a sink. ``functions``: users'
    functions by their names in the plan. ``is_bounded``: whether a scan ends; without it all do. ``options``: the environment's, which apply to
    nodes that were planned without their own. ``lookups``: gives the table of a lookup join. ``watermarks_pass``:
    whether the streams that ``sinks`` ends need watermarks, each one between the rows between which Flink emits it, since functions may see them.

    Raises ``UnsupportedPlan``, naming each node that has no operator.
    """
    missing = [
        f"node {node.id}: {node.kind} is not supported yet: {node.description}"
        for node in plan.nodes
        if not isinstance(node, SUPPORTED)
    ]
    if missing:
        raise UnsupportedPlan("the statement cannot be run:\n  " + "\n  ".join(missing))
    streams: dict[int, DataStream] = {}
    emits_each = watermarks_pass or any(map(sees_watermark, plan.nodes))
    computes_by_time = any(
        asks_for_time(node) for node in plan.nodes if not isinstance(node, plan_nodes.MiniBatchAssigner1)
    )
    has_time = emits_each or any(map(asks_for_time, plan.nodes))

    def stream_of(node: Node) -> DataStream:
        if node.id not in streams:
            streams[node.id] = make(node)
        return streams[node.id]

    def ends(node: Node) -> bool:
        if isinstance(node, _SCANS):
            return is_bounded is None or is_bounded(node)
        return all(map(ends, plan.inputs(node.id)))

    def batch_aggregate(node: Node) -> DataStream:
        """Aggregates in one phase and emits the rows that remain at the end of the input."""
        assert isinstance(node, BATCH_AGGREGATES)
        (first,) = plan.inputs(node.id)
        if node.is_merge:
            while not isinstance(first, BATCH_AGGREGATES):
                (first,) = plan.inputs(first.id)
            node = replace(node, grouping=first.grouping, aux_grouping=first.aux_grouping, agg_calls=first.agg_calls)
            (first,) = plan.inputs(first.id)
        used = aggregates_of(node, functions or {})
        stream = relational(as_stream_aggregate(node), [stream_of(first)], [first.output_type], time_zone, used)
        return relational(node, [stream], [first.output_type], time_zone, used)

    def unsorted(node: Node) -> Node:
        """Skips exchanges and sorts above a node: the operator that reads it partitions and sorts by itself."""
        while isinstance(node, (plan_nodes.BatchExchange1, plan_nodes.BatchSort1)):
            (node,) = plan.inputs(node.id)
        return node

    def order_of(node: Node, positions_of: Sequence[int]) -> tuple[SortField, ...]:
        """Returns the sort order of a node's rows by some of their fields."""
        positions = list(positions_of)
        found: dict[int, SortField] = {}
        if isinstance(node, plan_nodes.BatchSort1):
            found = {field.index: field for field in node.sort_spec.fields}
        elif isinstance(node, plan_nodes.BatchOverAggregate1):
            found = {field.index: field for group in node.over_spec.groups for field in group.order_by.fields}
        if all(position in found for position in positions):
            return tuple([found[position] for position in positions])
        if isinstance(node, plan_nodes.BatchCalc1):
            below = [node.projection[position] for position in positions]
            positions = [rex.input_index for rex in below if isinstance(rex, RexInputRef)]
        elif not isinstance(node, (plan_nodes.BatchExchange1, plan_nodes.BatchOverAggregate1, plan_nodes.BatchRank1)):
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: the plan does not say in which order this node gives its rows, which a rank above it needs: "
                f"{node.description}"
            )
        fields = order_of(plan.inputs(node.id)[0], positions)
        return tuple([replace(field, index=position) for field, position in zip(fields, positions_of, strict=True)])

    def batch_rank(node: plan_nodes.BatchRank1) -> DataStream:
        """Ranks rows within their partitions and keeps a range of ranks; local rank nodes below are dropped, since the global one does their work."""
        (first,) = plan.inputs(node.id)
        order = order_of(first, node.sort_fields)
        first = unsorted(first)
        while isinstance(first, plan_nodes.BatchRank1) and not first.output_row_number:
            first = unsorted(plan.inputs(first.id)[0])
        ranked = as_over_aggregate(node, first.output_type, order)
        stream = relational(ranked, [stream_of(first)], [first.output_type], time_zone)
        schema = table_schema(node.output_type, has_updates=False)
        return mapped(stream, KeptRanks(node.rank_start, node.rank_end, schema), schema)

    def make(node: Node) -> DataStream:
        inputs = plan.inputs(node.id)
        node = configured(node, options or {})
        if isinstance(node, _SCANS):
            return sources(node)
        if isinstance(node, _GROUP_WINDOWS):
            refuse_firings(node, options or {})
        if isinstance(node, _VALUES):
            return _values(node, env)
        if isinstance(node, (plan_nodes.GlobalWindowAggregate1, plan_nodes.GlobalGroupAggregate1)):
            (first,) = plan.inputs(inputs[0].id)
            if isinstance(first, plan_nodes.IncrementalGroupAggregate1):
                (local,) = plan.inputs(plan.inputs(first.id)[0].id)
                (rows,) = plan.inputs(local.id)
                partial, node = as_two_aggregates(local, configured(first, options or {}), node, rows.output_type)
                stream = relational(partial, [stream_of(rows)], [rows.output_type], time_zone)
                return relational(node, [stream], [partial.output_type], time_zone)
            inputs = plan.inputs(first.id)
            node = as_one_phase(first, node)
        if isinstance(node, BATCH_AGGREGATES):
            return batch_aggregate(node)
        if isinstance(node, plan_nodes.BatchRank1):
            return batch_rank(node)
        if isinstance(node, plan_nodes.BatchOverAggregate1):
            inputs = (unsorted(inputs[0]),)
        read = [stream_of(found) for found in inputs]
        types = [found.output_type for found in inputs]
        if isinstance(node, PYTHON) or (
            isinstance(node, (*_CALCS, *_CORRELATES)) and calls_functions(node, functions or {})
        ):
            return python_stream(node, read[0], types[0], time_zone, functions or {})
        if isinstance(node, (*_CALCS, *_EXPANDS, *_CORRELATES)):
            return _calc(node, read[0], types[0], time_zone)
        if isinstance(node, _UNIONS):
            has_updates = any(map(has_row_kinds, read))
            schema = table_schema(node.output_type, has_updates=has_updates)
            union, *others = [_renamed(stream, schema) for stream in read]
            return union.union(*others)
        if isinstance(node, LOOKUPS):
            return looked_up(node, read[0], types[0], time_zone, lookups or no_lookups)
        if isinstance(node, _WINDOW_FUNCTIONS):
            return windowed(node, read[0], types[0], time_zone)
        if isinstance(node, plan_nodes.Exchange1):
            return _exchanged(node, read[0])
        if isinstance(node, plan_nodes.DropUpdateBefore1):
            if not has_row_kinds(read[0]):
                return read[0]
            return mapped(read[0], without_update_before, read[0].get_type()).name(node.description)
        if isinstance(node, plan_nodes.SortLimit1) and node.rank_range.end == _NO_LIMIT:
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: FETCH is missed, which on streaming table is not supported currently. Give a LIMIT with OFFSET: "
                f"{node.description}"
            )
        if isinstance(node, plan_nodes.BatchSortLimit1) and node.limit_end == _NO_LIMIT:
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: Not support limitEnd is max value now! Give a LIMIT with OFFSET: {node.description}"
            )
        if isinstance(node, _LIMITS) and not node.is_global:
            return read[0]
        if isinstance(node, BATCH_JOINS):
            join = as_stream_join(node)
            stream = relational(join, read, types, time_zone)
            return relational(node, [stream], [node.output_type], time_zone) if has_row_kinds(stream) else stream
        if isinstance(node, plan_nodes.MultiJoin1):
            stream, row_type = read[0], types[0]
            for join, other, other_type in zip(as_joins(node, types), read[1:], types[1:], strict=True):
                stream = relational(join, [stream, other], [row_type, other_type], time_zone)
                row_type = join.output_type
            return stream
        if isinstance(node, plan_nodes.Sort1) and not ends(node):
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: ORDER BY a column that is not a time needs bounded tables: {node.description}"
            )
        if type(node) in RELATIONAL:
            return relational(node, read, types, time_zone, aggregates_of(node, functions or {}))
        assert isinstance(node, _TRANSPARENT)
        if isinstance(node, plan_nodes.WatermarkAssigner1) and has_time:
            assigned = assigned_watermarks(node, read[0], types[0], time_zone, emits_each=emits_each)
            return assigned if emits_each or computes_by_time else as_check(assigned)
        if isinstance(node, plan_nodes.MiniBatchAssigner1) and node.mini_batch_interval.mode != "None":
            return as_check(without_keys(node, read[0], types[0], read[0].get_type().arrow_schema(), time_zone))
        return read[0]

    for node in plan.sinks:
        if not isinstance(node, _SINKS):
            raise InvalidJob(f"node {node.id}: {node.kind} is not a sink, and no node reads its result")
        (found,) = plan.inputs(node.id)
        node = configured(node, options or {})
        kept = constrained(node, stream_of(found), options or {})
        sinks(node, materialized(node, kept, found.output_type, time_zone))


def configured(node: Node, options: Mapping[str, str]) -> Node:
    """Adds options of the environment to the configuration of a plan node, which the planner left out: the state TTL (streaming nodes), the clean-up
    interval (interval joins) and mini-batches (regular joins and ranks).
    """
    given = dict(node.configuration or {})
    if STATE_TTL_KEY in options and node.kind.startswith("stream-"):
        given.setdefault(STATE_TTL_KEY, options[STATE_TTL_KEY])
    if isinstance(node, plan_nodes.IntervalJoin1) and INTERVAL_JOIN_CLEANUP_KEY in options:
        given[INTERVAL_JOIN_CLEANUP_KEY] = options[INTERVAL_JOIN_CLEANUP_KEY]
    if isinstance(node, _GATHERING):
        given |= {key: options[key] for key in (MINI_BATCH_KEY, MINI_BATCH_SIZE_KEY) if key in options}
    return replace(node, configuration=given) if given else node


def refuse_firings(node: Node, options: Mapping[str, str]) -> None:
    """Raises ``UnsupportedPlan`` if early or late firing is configured for GROUP BY windows."""
    for key in ("table.exec.emit.early-fire.enabled", "table.exec.emit.late-fire.enabled"):
        if options.get(key, "false").strip().lower() == "true":
            raise UnsupportedPlan(
                f"node {node.id}, {node.kind}: {key} is not supported, since a window emits only once, when it ends. Remove the option: {node.description}"
            )


def constrained(node: Node, stream: DataStream, options: Mapping[str, str]) -> DataStream:
    """Adds the checks of a sink table's column constraints, such as NOT NULL (Flink: ``ConstraintEnforcer``)."""
    assert isinstance(node, _SINKS)
    table = node.dynamic_table_sink.table.resolved_table
    if table is None:
        return stream
    try:
        enforcer = ConstraintEnforcer(table.physical_fields, Enforcers.of({**options, **(node.configuration or {})}))
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    if not enforcer.is_needed:
        return stream
    return as_check(mapped(stream, enforcer, stream.get_type()).name("ConstraintEnforcer"))


def as_check(stream: DataStream) -> DataStream:
    """Returns the stream of an operator without state that the ids of those behind it ignore, so that they find the state of a plan that had none there."""
    stream._operator("").is_check = True
    return stream


def _calc(node: Node, stream: DataStream, input_type: LogicalType, time_zone: str) -> DataStream:
    function: CalcFunction | Correlate
    schema = table_schema(node.output_type, has_updates=has_row_kinds(stream))
    if isinstance(node, _CALCS):
        if isinstance(node, plan_nodes.Calc1) and sees_watermark(node):
            return without_keys(node, stream, input_type, schema, time_zone)
        function = CalcFunction(input_type, node.output_type, (node.projection,), node.condition, time_zone)
    elif isinstance(node, _CORRELATES):
        is_left = node.join_type == "LEFT"
        function = Correlate(node.function_call, node.condition, input_type, node.output_type, is_left, time_zone)
    else:
        assert isinstance(node, _EXPANDS)
        function = CalcFunction(input_type, node.output_type, node.projects, None, time_zone)
    try:
        function.compile()
    except UnsupportedPlan as error:
        raise UnsupportedPlan(f"node {node.id}, {node.kind}: {error.message}: {node.description}") from error
    return mapped(stream, function, schema).name(node.description)


def _values(node: Node, env: StreamExecutionEnvironment) -> DataStream:
    assert isinstance(node, _VALUES)
    schema = arrow_schema(node.output_type)
    empty = LogicalType(node.output_type.root)
    one = pa.RecordBatch.from_arrays([pa.array([0], pa.int8())], names=["unused"])
    if not len(schema):  # a table without columns has no rows
        counted = pa.table({"unused": pa.nulls(len(node.tuples), pa.int8())})
        return env.from_collection(counted).map_batches(_without_columns, schema).name(node.description)
    rows = [_constants(values, empty, one) for values in node.tuples]
    columns = [
        pa.concat_arrays([row[index].cast(field.type) for row in rows]) if rows else pa.array([], field.type)
        for index, field in enumerate(schema)
    ]
    return env.from_collection(pa.Table.from_arrays(columns, schema=schema)).name(node.description)


def _without_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch_of([], batch.schema, batch.num_rows)


def _constants(values: tuple[RexLiteral, ...], input_type: LogicalType, one: pa.RecordBatch) -> list[pa.Array]:
    return compile_projection(values, input_type).evaluate(one)


def _renamed(stream: DataStream, schema: pa.Schema) -> DataStream:
    if stream.get_type().arrow_schema() == schema:
        return stream
    return mapped(stream, Renamed(schema), schema)


class Renamed:
    """Renames the columns of a batch to those of a schema, and keeps row kinds where that has them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if has_kinds(self._schema):
            batch = as_inserts(batch)
        return pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.columns, self._schema, strict=True)],
            schema=self._schema,
        )


class KeptRanks:
    """Keeps the rows whose last field, their rank, is in a range, bounds included; drops the field where ``schema`` lacks it."""

    def __init__(self, first: int, last: int, schema: pa.Schema) -> None:
        self._first, self._last, self._schema = first, last, schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ranks = batch.columns[-1].to_numpy()
        kept = batch.filter(pa.array((ranks >= self._first) & (ranks <= self._last)))
        return pa.RecordBatch.from_arrays(kept.columns[: len(self._schema)], schema=self._schema)


def _exchanged(node: Node, stream: DataStream) -> DataStream:
    match node.input_properties[0].required_distribution:
        case HashDistribution(keys=keys) if keys:
            return dealt_by(stream, keys)
        case HashDistribution() | SingletonDistribution():
            return stream.global_()
        case _:
            return stream if has_row_kinds(stream) else stream.rebalance()
