"""The nodes of a compiled plan: one class for each of Flink 2.3's exec nodes, with its version, and its fields.

Left out, and refused by name: delta joins, model and vector functions, process table functions, and sources and sinks of the
interfaces that Flink has deprecated. Sources and sinks in version 1 are of plans that older versions of Flink compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tidegate.plan.expressions import AggregateCall, PlanPart, Rex, RexLiteral
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.specs import (
    AsyncOptions,
    AttributeRef,
    ConstantRange,
    GroupWindow,
    InputProperty,
    IntervalJoinSpec,
    JoinSpec,
    LookupKey,
    MatchSpec,
    MiniBatchInterval,
    NamedWindowProperty,
    OverSpec,
    PartitionSpec,
    RankRange,
    RankStrategy,
    RetryOptions,
    SortSpec,
    StateMetadata,
    TableSink,
    TableSource,
    TemporalTableSource,
    TimeAttributeWindowing,
    Windowing,
)

STATE_TTL_KEY: Final = "table.exec.state.ttl"
"""The option of nodes without states of their own in the plan (Flink: ``ExecNodeConfig.getStateRetentionTime``)."""
INTERVAL_JOIN_CLEANUP_KEY: Final = "table.exec.interval-join.min-cleanup-interval"
"""The option of interval joins, which no plan has."""


class Node(PlanPart, frozen=True, kw_only=True, tag_field="type"):
    """``id`` is unique in the plan; ``configuration`` holds the options that the node was planned with; ``output_type`` is a row."""

    id: int
    output_type: LogicalType
    description: str
    input_properties: tuple[InputProperty, ...] = ()
    configuration: dict[str, str] | None = None

    @property
    def kind(self) -> str:
        """With its version: ``stream-exec-calc_1``."""
        tag = type(self).__struct_config__.tag
        assert isinstance(tag, str)
        return tag


# --- what both modes have --------------------------------------------------------------------------


class _Calc(Node, frozen=True, kw_only=True):
    """``condition`` keeps the rows for which it is true, ``projection`` computes the columns of what is kept."""

    projection: tuple[Rex, ...]
    condition: Rex | None


class _PythonCalc(Node, frozen=True, kw_only=True):
    projection: tuple[Rex, ...]


class _Correlate(Node, frozen=True, kw_only=True):
    """Each row joined with what a table function returns for it; ``join_type``: INNER or LEFT."""

    join_type: str
    function_call: Rex


class _ConditionalCorrelate(_Correlate, frozen=True, kw_only=True):
    """``condition`` is of what the function returned."""

    condition: Rex | None


class _Expand(Node, frozen=True, kw_only=True):
    """Each row once for each list of ``projects``: grouping sets and distinct aggregates."""

    projects: tuple[tuple[Rex, ...], ...]


class _Values(Node, frozen=True, kw_only=True):
    tuples: tuple[tuple[RexLiteral, ...], ...]


class _Scan(Node, frozen=True, kw_only=True):
    scan_table_source: TableSource


class _Match(Node, frozen=True, kw_only=True):
    match_spec: MatchSpec


class _Over(Node, frozen=True, kw_only=True):
    over_spec: OverSpec


class _WindowTableFunction(Node, frozen=True, kw_only=True):
    windowing: TimeAttributeWindowing


# --- streaming -------------------------------------------------------------------------------------


class TableSourceScan2(_Scan, frozen=True, kw_only=True, tag="stream-exec-table-source-scan_2"):
    """Reads a table."""


class Calc1(_Calc, frozen=True, kw_only=True, tag="stream-exec-calc_1"):
    """Filter and projection."""


class AsyncCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-async-calc_1"):
    """Projection with asynchronous functions."""


class PythonCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-python-calc_1"):
    """Projection with Python functions."""


class PythonAsyncCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-python-async-calc_1"):
    """Projection with asynchronous Python functions."""


class Correlate1(_ConditionalCorrelate, frozen=True, kw_only=True, tag="stream-exec-correlate_1"):
    """A table function for each row."""


class AsyncCorrelate1(_Correlate, frozen=True, kw_only=True, tag="stream-exec-async-correlate_1"):
    """An asynchronous table function for each row."""


class PythonCorrelate1(_Correlate, frozen=True, kw_only=True, tag="stream-exec-python-correlate_1"):
    """A Python table function for each row."""


class Expand1(_Expand, frozen=True, kw_only=True, tag="stream-exec-expand_1"):
    """Grouping sets."""


class Values1(_Values, frozen=True, kw_only=True, tag="stream-exec-values_1"):
    """Constant rows."""


class Exchange1(Node, frozen=True, kw_only=True, tag="stream-exec-exchange_1"):
    """Deals rows as its ``input_properties`` ask."""


class Union1(Node, frozen=True, kw_only=True, tag="stream-exec-union_1"):
    """UNION ALL."""


class WatermarkAssigner1(Node, frozen=True, kw_only=True, tag="stream-exec-watermark-assigner_1"):
    """``watermark_expr`` is in ms of event time; ``rowtime_field_index`` is the field with the time."""

    watermark_expr: Rex
    rowtime_field_index: int


class MiniBatchAssigner1(Node, frozen=True, kw_only=True, tag="stream-exec-mini-batch-assigner_1"):
    """Marks the ends of mini-batches."""

    mini_batch_interval: MiniBatchInterval


class DropUpdateBefore1(Node, frozen=True, kw_only=True, tag="stream-exec-drop-update-before_1"):
    """Drops -U rows."""


class ChangelogNormalize1(Node, frozen=True, kw_only=True, tag="stream-exec-changelog-normalize_1"):
    """Makes a changelog with earlier values of one by ``unique_keys``."""

    unique_keys: tuple[int, ...]
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()
    filter_condition: Rex | None = None


class Deduplicate1(Node, frozen=True, kw_only=True, tag="stream-exec-deduplicate_1"):
    """First or last row by key and time."""

    unique_keys: tuple[int, ...]
    is_rowtime: bool
    keep_last_row: bool
    generate_update_before: bool
    output_insert_only: bool | None = None
    state: tuple[StateMetadata, ...] = ()


class GroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-group-aggregate_1"):
    """Aggregates by ``grouping``."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    generate_update_before: bool
    need_retraction: bool
    state: tuple[StateMetadata, ...] = ()


class LocalGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-local-group-aggregate_1"):
    """First of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    need_retraction: bool


class GlobalGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-global-group-aggregate_1"):
    """Second of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    local_agg_input_row_type: LogicalType
    generate_update_before: bool
    need_retraction: bool
    index_of_count_star: int | None = None
    state: tuple[StateMetadata, ...] = ()


class IncrementalGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-incremental-group-aggregate_1"):
    """The final aggregate of a distinct one and the first phase of the next, in one."""

    partial_agg_grouping: tuple[int, ...]
    final_agg_grouping: tuple[int, ...]
    partial_original_agg_calls: tuple[AggregateCall, ...]
    partial_agg_call_need_retractions: tuple[bool, ...]
    partial_local_agg_input_row_type: LogicalType
    partial_agg_need_retraction: bool
    state: tuple[StateMetadata, ...] = ()


class PythonGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-python-group-aggregate_1"):
    """Python aggregates by ``grouping``."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    generate_update_before: bool
    need_retraction: bool


class GroupWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-group-window-aggregate_1"):
    """A window in GROUP BY."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    window: GroupWindow
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: bool


class PythonGroupWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-python-group-window-aggregate_1"):
    """A window in GROUP BY, with Python aggregates."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    window: GroupWindow
    named_window_properties: tuple[NamedWindowProperty, ...]
    generate_update_before: bool
    need_retraction: bool


class WindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-window-aggregate_1"):
    """Aggregates by the windows of a table function."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: Windowing
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: bool | None = None


class LocalWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-local-window-aggregate_1"):
    """First of two phases: slices."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: Windowing
    need_retraction: bool | None = None


class GlobalWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-global-window-aggregate_1"):
    """Second of two phases: slices to windows."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: Windowing
    named_window_properties: tuple[NamedWindowProperty, ...]
    local_agg_input_row_type: LogicalType
    need_retraction: bool | None = None


class WindowTableFunction1(_WindowTableFunction, frozen=True, kw_only=True, tag="stream-exec-window-table-function_1"):
    """Rows with their windows."""


class WindowJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-window-join_1"):
    """A join of rows of the same window."""

    join_spec: JoinSpec
    left_windowing: Windowing
    right_windowing: Windowing


class WindowRank1(Node, frozen=True, kw_only=True, tag="stream-exec-window-rank_1"):
    """Top-N of each window."""

    rank_type: str
    partition_spec: PartitionSpec
    sort_spec: SortSpec
    rank_range: RankRange
    output_row_number: bool
    windowing: Windowing


class WindowDeduplicate1(Node, frozen=True, kw_only=True, tag="stream-exec-window-deduplicate_1"):
    """First or last row of each window."""

    partition_keys: tuple[int, ...]
    order_key: int
    keep_last_row: bool
    windowing: Windowing


class OverAggregate1(_Over, frozen=True, kw_only=True, tag="stream-exec-over-aggregate_1"):
    """Aggregates OVER a window of rows; ``unbounded_over_version`` tells the layouts of its state apart."""

    unbounded_over_version: int | None = None


class PythonOverAggregate1(_Over, frozen=True, kw_only=True, tag="stream-exec-python-over-aggregate_1"):
    """Python aggregates OVER a window of rows."""


class Rank1(Node, frozen=True, kw_only=True, tag="stream-exec-rank_1"):
    """Top-N."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: RankRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class Limit1(Node, frozen=True, kw_only=True, tag="stream-exec-limit_1"):
    """LIMIT."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: ConstantRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class SortLimit1(Node, frozen=True, kw_only=True, tag="stream-exec-sort-limit_1"):
    """ORDER BY with LIMIT."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: ConstantRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class Sort1(Node, frozen=True, kw_only=True, tag="stream-exec-sort_1"):
    """ORDER BY of bounded input."""

    order_by: SortSpec


class TemporalSort1(Node, frozen=True, kw_only=True, tag="stream-exec-temporal-sort_1"):
    """ORDER BY a time attribute."""

    order_by: SortSpec


class Join1(Node, frozen=True, kw_only=True, tag="stream-exec-join_1"):
    """A regular join of changelogs."""

    join_spec: JoinSpec
    left_upsert_keys: tuple[tuple[int, ...], ...] = ()
    right_upsert_keys: tuple[tuple[int, ...], ...] = ()
    state: tuple[StateMetadata, ...] = ()


class MultiJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-multi-join_1"):
    """Regular joins of several changelogs in a row. Of each input: how, and on what, it is joined to those before, nothing for the first; and its unique keys.

    ``join_conditions``: over the fields of all inputs up to this one; ``join_attribute_map``: by input, as text, the fields that they compare.
    """

    join_types: tuple[str, ...]
    join_conditions: tuple[Rex | None, ...]
    join_attribute_map: dict[str, tuple[AttributeRef, ...]]
    input_unique_keys: tuple[tuple[tuple[int, ...], ...] | None, ...]
    multi_join_condition: Rex | None = None
    state: tuple[StateMetadata, ...] = ()


class IntervalJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-interval-join_1"):
    """A join of rows whose times are near."""

    interval_join_spec: IntervalJoinSpec


class TemporalJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-temporal-join_1"):
    """A join with the version of a table at the time of the row; an index of -1: processing time."""

    join_spec: JoinSpec
    is_temporal_function_join: bool
    left_time_attribute_index: int
    right_time_attribute_index: int


class LookupJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-lookup-join_1"):
    """A join with what a table has at present. ``lookup_keys``: by field of the table, as text."""

    join_type: str
    temporal_table: TemporalTableSource
    lookup_keys: dict[str, LookupKey]
    pre_filter_condition: Rex | None = None
    join_condition: Rex | None = None
    remaining_join_condition: Rex | None = None
    projection_on_temporal_table: tuple[Rex, ...] | None = None
    filter_on_temporal_table: Rex | None = None
    lookup_key_contains_primary_key: bool | None = None
    require_upsert_materialize: bool = False
    async_options: AsyncOptions | None = None
    retry_options: RetryOptions | None = None
    input_changelog_mode: tuple[str, ...] | None = None
    input_upsert_key: tuple[int, ...] | None = None
    state: tuple[StateMetadata, ...] = ()
    prefer_custom_shuffle: bool = False


class Match1(_Match, frozen=True, kw_only=True, tag="stream-exec-match_1"):
    """MATCH_RECOGNIZE."""


class Sink2(Node, frozen=True, kw_only=True, tag="stream-exec-sink_2"):
    """Writes to a table. ``input_changelog_mode``: the kinds of rows that come."""

    dynamic_table_sink: TableSink
    input_changelog_mode: tuple[str, ...]
    require_upsert_materialize: bool = False
    upsert_materialize_strategy: str | None = None
    conflict_strategy: str | None = None
    input_upsert_key: tuple[int, ...] | None = None
    state: tuple[StateMetadata, ...] = ()


# --- batch -----------------------------------------------------------------------------------------


class BatchTableSourceScan1(_Scan, frozen=True, kw_only=True, tag="batch-exec-table-source-scan_1"):
    """Reads a table."""

    dynamic_filtering_data_listener_id: str | None = msgspec.field(default=None, name="dynamicFilteringDataListenerID")


class BatchCalc1(_Calc, frozen=True, kw_only=True, tag="batch-exec-calc_1"):
    """Filter and projection."""


class BatchCorrelate1(_ConditionalCorrelate, frozen=True, kw_only=True, tag="batch-exec-correlate_1"):
    """A table function for each row."""


class BatchExchange1(Node, frozen=True, kw_only=True, tag="batch-exec-exchange_1"):
    """Deals rows as its ``input_properties`` ask."""

    required_exchange_mode: str


class BatchExpand1(_Expand, frozen=True, kw_only=True, tag="batch-exec-expand_1"):
    """Grouping sets."""


class BatchHashAggregate1(Node, frozen=True, kw_only=True, tag="batch-exec-hash-aggregate_1"):
    """Aggregates by ``grouping``; ``is_merge``: of what a first phase gave; ``is_final``: the last phase."""

    grouping: tuple[int, ...]
    aux_grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_input_row_type: LogicalType
    is_merge: bool
    is_final: bool
    support_adaptive_local_hash_agg: bool


class BatchSortAggregate1(Node, frozen=True, kw_only=True, tag="batch-exec-sort-aggregate_1"):
    """Aggregates of sorted input."""

    grouping: tuple[int, ...]
    aux_grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_input_row_type: LogicalType
    is_merge: bool
    is_final: bool


class BatchHashJoin1(Node, frozen=True, kw_only=True, tag="batch-exec-join_1"):
    """A hash join."""

    join_spec: JoinSpec
    estimated_left_avg_row_size: int
    estimated_right_avg_row_size: int
    estimated_left_row_count: int
    estimated_right_row_count: int
    is_broadcast: bool
    left_is_build: bool
    try_distinct_build_row: bool
    with_job_strategy_hint: bool


class BatchNestedLoopJoin1(Node, frozen=True, kw_only=True, tag="batch-exec-nested-loop-join_1"):
    """A join by any condition."""

    join_type: str
    condition: Rex
    left_is_build: bool
    single_row_join: bool


class BatchLimit1(Node, frozen=True, kw_only=True, tag="batch-exec-limit_1"):
    """LIMIT; ``limit_end`` is not included."""

    limit_start: int
    limit_end: int
    is_global: bool


class BatchSort1(Node, frozen=True, kw_only=True, tag="batch-exec-sort_1"):
    """ORDER BY."""

    sort_spec: SortSpec


class BatchSortLimit1(Node, frozen=True, kw_only=True, tag="batch-exec-sort-limit_1"):
    """ORDER BY with LIMIT."""

    sort_spec: SortSpec
    limit_start: int
    limit_end: int
    is_global: bool


class BatchRank1(Node, frozen=True, kw_only=True, tag="batch-exec-rank_1"):
    """Top-N."""

    partition_fields: tuple[int, ...]
    sort_fields: tuple[int, ...]
    rank_start: int
    rank_end: int
    output_row_number: bool


class BatchOverAggregate1(_Over, frozen=True, kw_only=True, tag="batch-exec-over-aggregate_1"):
    """Aggregates OVER a window of rows."""


class BatchMatch1(_Match, frozen=True, kw_only=True, tag="batch-exec-match_1"):
    """MATCH_RECOGNIZE."""


class BatchUnion1(Node, frozen=True, kw_only=True, tag="batch-exec-union_1"):
    """UNION ALL."""


class BatchValues1(_Values, frozen=True, kw_only=True, tag="batch-exec-values_1"):
    """Constant rows."""


class BatchWindowTableFunction1(
    _WindowTableFunction, frozen=True, kw_only=True, tag="batch-exec-window-table-function_1"
):
    """Rows with their windows."""


class BatchLookupJoin1(Node, frozen=True, kw_only=True, tag="batch-exec-lookup-join_1"):
    """A join with what a table has at present."""

    join_type: str
    temporal_table: TemporalTableSource
    lookup_keys: dict[str, LookupKey]
    pre_filter_condition: Rex | None = None
    join_condition: Rex | None = None
    projection_on_temporal_table: tuple[Rex, ...] | None = None
    filter_on_temporal_table: Rex | None = None
    async_options: AsyncOptions | None = None
    prefer_custom_shuffle: bool = False


class BatchSink1(Node, frozen=True, kw_only=True, tag="batch-exec-sink_1"):
    """Writes to a table."""

    dynamic_table_sink: TableSink


def _leaves(root: type[Node]) -> Iterator[type[Node]]:
    for child in root.__subclasses__():
        if isinstance(child.__struct_config__.tag, str) and not child.__name__.startswith("_"):
            yield child
        yield from _leaves(child)


NODES: dict[str, type[Node]] = {str(kind.__struct_config__.tag): kind for kind in _leaves(Node)}
"""By kind and version, as in ``stream-exec-calc_1``."""
