"""The nodes of a compiled plan: one class for each version of Flink 2.3's exec nodes, with its fields.

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
"""The option with the TTL of nodes without states of their own in the plan (Flink: ``ExecNodeConfig.getStateRetentionTime``)."""
INTERVAL_JOIN_CLEANUP_KEY: Final = "table.exec.interval-join.min-cleanup-interval"
"""The option of interval joins that plans do not contain."""
RANK_CACHE_KEY: Final = "table.exec.rank.topn-cache-size"
"""The option of top-N that says how many rows are cached."""
MINI_BATCH_KEY: Final = "table.exec.mini-batch.enabled"
"""The option by which operators gather rows, and process them together."""
MINI_BATCH_SIZE_KEY: Final = "table.exec.mini-batch.size"
"""The option with the most rows that an operator gathers."""


class Node(PlanPart, frozen=True, kw_only=True, tag_field="type"):
    """A node of a plan. ``id``: unique in the plan; ``configuration``: the options with which the node was planned; ``output_type``: a row."""

    id: int
    output_type: LogicalType
    description: str
    input_properties: tuple[InputProperty, ...] = ()
    configuration: dict[str, str] | None = None

    @property
    def kind(self) -> str:
        """The kind of the node with its version: ``stream-exec-calc_1``."""
        tag = type(self).__struct_config__.tag
        assert isinstance(tag, str)
        return tag


# --- what both modes have --------------------------------------------------------------------------


class _Calc(Node, frozen=True, kw_only=True):
    """Filters rows by ``condition`` and computes the columns of ``projection``."""

    projection: tuple[Rex, ...]
    condition: Rex | None


class _PythonCalc(Node, frozen=True, kw_only=True):
    projection: tuple[Rex, ...]


class _Correlate(Node, frozen=True, kw_only=True):
    """Joins each row with the results of a table function for it; ``join_type``: INNER or LEFT."""

    join_type: str
    function_call: Rex


class _ConditionalCorrelate(_Correlate, frozen=True, kw_only=True):
    """A correlation whose ``condition`` applies to the function's results."""

    condition: Rex | None


class _Expand(Node, frozen=True, kw_only=True):
    """Emits each row once for each list of ``projects``: for grouping sets and distinct aggregates."""

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
    """Filters and projects rows."""


class AsyncCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-async-calc_1"):
    """Projects rows with asynchronous functions."""


class PythonCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-python-calc_1"):
    """Projects rows with Python functions."""


class PythonAsyncCalc1(_PythonCalc, frozen=True, kw_only=True, tag="stream-exec-python-async-calc_1"):
    """Projects rows with asynchronous Python functions."""


class Correlate1(_ConditionalCorrelate, frozen=True, kw_only=True, tag="stream-exec-correlate_1"):
    """Calls a table function for each row."""


class AsyncCorrelate1(_Correlate, frozen=True, kw_only=True, tag="stream-exec-async-correlate_1"):
    """Calls an asynchronous table function for each row."""


class PythonCorrelate1(_Correlate, frozen=True, kw_only=True, tag="stream-exec-python-correlate_1"):
    """Calls a Python table function for each row."""


class Expand1(_Expand, frozen=True, kw_only=True, tag="stream-exec-expand_1"):
    """Expands rows for grouping sets."""


class Values1(_Values, frozen=True, kw_only=True, tag="stream-exec-values_1"):
    """Emits constant rows."""


class Exchange1(Node, frozen=True, kw_only=True, tag="stream-exec-exchange_1"):
    """Distributes rows as its ``input_properties`` require."""


class Union1(Node, frozen=True, kw_only=True, tag="stream-exec-union_1"):
    """Merges inputs (UNION ALL)."""


class WatermarkAssigner1(Node, frozen=True, kw_only=True, tag="stream-exec-watermark-assigner_1"):
    """Emits watermarks. ``watermark_expr``: in ms of event time; ``rowtime_field_index``: the field with the time."""

    watermark_expr: Rex
    rowtime_field_index: int


class MiniBatchAssigner1(Node, frozen=True, kw_only=True, tag="stream-exec-mini-batch-assigner_1"):
    """Marks the ends of mini-batches."""

    mini_batch_interval: MiniBatchInterval


class DropUpdateBefore1(Node, frozen=True, kw_only=True, tag="stream-exec-drop-update-before_1"):
    """Drops UPDATE_BEFORE rows."""


class ChangelogNormalize1(Node, frozen=True, kw_only=True, tag="stream-exec-changelog-normalize_1"):
    """Plan node (version 1) that completes an upsert changelog: adds the earlier values of each key. ``unique_keys``: the columns of the key."""

    unique_keys: tuple[int, ...]
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()
    filter_condition: Rex | None = None


class Deduplicate1(Node, frozen=True, kw_only=True, tag="stream-exec-deduplicate_1"):
    """Keeps the first or last row of each key by time."""

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
    """Aggregates locally, as the first of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    need_retraction: bool


class GlobalGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-global-group-aggregate_1"):
    """Aggregates globally, as the second of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    local_agg_input_row_type: LogicalType
    generate_update_before: bool
    need_retraction: bool
    index_of_count_star: int | None = None
    state: tuple[StateMetadata, ...] = ()


class IncrementalGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-incremental-group-aggregate_1"):
    """Combines the final phase of a distinct aggregate with the first phase of the next one."""

    partial_agg_grouping: tuple[int, ...]
    final_agg_grouping: tuple[int, ...]
    partial_original_agg_calls: tuple[AggregateCall, ...]
    partial_agg_call_need_retractions: tuple[bool, ...]
    partial_local_agg_input_row_type: LogicalType
    partial_agg_need_retraction: bool
    state: tuple[StateMetadata, ...] = ()


class PythonGroupAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-python-group-aggregate_1"):
    """Aggregates with Python functions by ``grouping``."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    generate_update_before: bool
    need_retraction: bool


class GroupWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-group-window-aggregate_1"):
    """Aggregates by a window of GROUP BY."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    window: GroupWindow
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: bool


class PythonGroupWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-python-group-window-aggregate_1"):
    """Aggregates with Python functions by a window of GROUP BY."""

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
    """Aggregates by slices, as the first of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: Windowing
    need_retraction: bool | None = None


class GlobalWindowAggregate1(Node, frozen=True, kw_only=True, tag="stream-exec-global-window-aggregate_1"):
    """Aggregates slices to windows, as the second of two phases."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: Windowing
    named_window_properties: tuple[NamedWindowProperty, ...]
    local_agg_input_row_type: LogicalType
    need_retraction: bool | None = None


class WindowTableFunction1(_WindowTableFunction, frozen=True, kw_only=True, tag="stream-exec-window-table-function_1"):
    """Assigns windows to rows."""


class WindowJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-window-join_1"):
    """Joins rows of the same window."""

    join_spec: JoinSpec
    left_windowing: Windowing
    right_windowing: Windowing


class WindowRank1(Node, frozen=True, kw_only=True, tag="stream-exec-window-rank_1"):
    """Keeps the top N rows of each window."""

    rank_type: str
    partition_spec: PartitionSpec
    sort_spec: SortSpec
    rank_range: RankRange
    output_row_number: bool
    windowing: Windowing


class WindowDeduplicate1(Node, frozen=True, kw_only=True, tag="stream-exec-window-deduplicate_1"):
    """Keeps the first or last row of each window."""

    partition_keys: tuple[int, ...]
    order_key: int
    keep_last_row: bool
    windowing: Windowing


class OverAggregate1(_Over, frozen=True, kw_only=True, tag="stream-exec-over-aggregate_1"):
    """Aggregates OVER a window of rows; ``unbounded_over_version``: the layout of its state."""

    unbounded_over_version: int | None = None


class PythonOverAggregate1(_Over, frozen=True, kw_only=True, tag="stream-exec-python-over-aggregate_1"):
    """Aggregates OVER a window of rows with Python functions."""


class Rank1(Node, frozen=True, kw_only=True, tag="stream-exec-rank_1"):
    """Keeps the top N rows."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: RankRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class Limit1(Node, frozen=True, kw_only=True, tag="stream-exec-limit_1"):
    """Limits the number of rows (LIMIT)."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: ConstantRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class SortLimit1(Node, frozen=True, kw_only=True, tag="stream-exec-sort-limit_1"):
    """Sorts and limits rows (ORDER BY with LIMIT)."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: ConstantRange
    rank_strategy: RankStrategy
    output_row_number: bool
    generate_update_before: bool
    state: tuple[StateMetadata, ...] = ()


class Sort1(Node, frozen=True, kw_only=True, tag="stream-exec-sort_1"):
    """Sorts bounded input (ORDER BY)."""

    order_by: SortSpec


class TemporalSort1(Node, frozen=True, kw_only=True, tag="stream-exec-temporal-sort_1"):
    """Sorts rows by a time attribute (ORDER BY)."""

    order_by: SortSpec


class Join1(Node, frozen=True, kw_only=True, tag="stream-exec-join_1"):
    """Joins changelogs (a regular join)."""

    join_spec: JoinSpec
    left_upsert_keys: tuple[tuple[int, ...], ...] = ()
    right_upsert_keys: tuple[tuple[int, ...], ...] = ()
    state: tuple[StateMetadata, ...] = ()


class MultiJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-multi-join_1"):
    """Joins several changelogs one after the other (regular joins). For each input: the type and condition of its join with the previous ones, absent
    for the first; and its unique keys.

    ``join_conditions``: over the fields of all inputs up to this one; ``join_attribute_map``: by input, as text, the fields that they compare.
    """

    join_types: tuple[str, ...]
    join_conditions: tuple[Rex | None, ...]
    join_attribute_map: dict[str, tuple[AttributeRef, ...]]
    input_unique_keys: tuple[tuple[tuple[int, ...], ...] | None, ...]
    multi_join_condition: Rex | None = None
    state: tuple[StateMetadata, ...] = ()


class IntervalJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-interval-join_1"):
    """Joins rows whose times are within an interval."""

    interval_join_spec: IntervalJoinSpec


class TemporalJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-temporal-join_1"):
    """Joins rows with the version of a table at their time; an index of -1: processing time."""

    join_spec: JoinSpec
    is_temporal_function_join: bool
    left_time_attribute_index: int
    right_time_attribute_index: int


class LookupJoin1(Node, frozen=True, kw_only=True, tag="stream-exec-lookup-join_1"):
    """Joins rows with the current rows of a table. ``lookup_keys``: by field of the table, as text."""

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
    """Matches patterns (MATCH_RECOGNIZE)."""


class Sink2(Node, frozen=True, kw_only=True, tag="stream-exec-sink_2"):
    """Writes to a table. ``input_changelog_mode``: the row kinds of its input."""

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
    """Filters and projects rows."""


class BatchCorrelate1(_ConditionalCorrelate, frozen=True, kw_only=True, tag="batch-exec-correlate_1"):
    """Calls a table function for each row."""


class BatchExchange1(Node, frozen=True, kw_only=True, tag="batch-exec-exchange_1"):
    """Distributes rows as its ``input_properties`` require."""

    required_exchange_mode: str


class BatchExpand1(_Expand, frozen=True, kw_only=True, tag="batch-exec-expand_1"):
    """Expands rows for grouping sets."""


class BatchHashAggregate1(Node, frozen=True, kw_only=True, tag="batch-exec-hash-aggregate_1"):
    """Aggregates by ``grouping`` with a hash table; ``is_merge``: its input are results of a first phase; ``is_final``: it is the last phase."""

    grouping: tuple[int, ...]
    aux_grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_input_row_type: LogicalType
    is_merge: bool
    is_final: bool
    support_adaptive_local_hash_agg: bool


class BatchSortAggregate1(Node, frozen=True, kw_only=True, tag="batch-exec-sort-aggregate_1"):
    """Aggregates sorted input."""

    grouping: tuple[int, ...]
    aux_grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_input_row_type: LogicalType
    is_merge: bool
    is_final: bool


class BatchHashJoin1(Node, frozen=True, kw_only=True, tag="batch-exec-join_1"):
    """Joins with a hash table."""

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
    """Joins by any condition with nested loops."""

    join_type: str
    condition: Rex
    left_is_build: bool
    single_row_join: bool


class BatchLimit1(Node, frozen=True, kw_only=True, tag="batch-exec-limit_1"):
    """Limits the number of rows (LIMIT); ``limit_end`` is exclusive."""

    limit_start: int
    limit_end: int
    is_global: bool


class BatchSort1(Node, frozen=True, kw_only=True, tag="batch-exec-sort_1"):
    """Sorts rows (ORDER BY)."""

    sort_spec: SortSpec


class BatchSortLimit1(Node, frozen=True, kw_only=True, tag="batch-exec-sort-limit_1"):
    """Sorts and limits rows (ORDER BY with LIMIT)."""

    sort_spec: SortSpec
    limit_start: int
    limit_end: int
    is_global: bool


class BatchRank1(Node, frozen=True, kw_only=True, tag="batch-exec-rank_1"):
    """Keeps the top N rows."""

    partition_fields: tuple[int, ...]
    sort_fields: tuple[int, ...]
    rank_start: int
    rank_end: int
    output_row_number: bool


class BatchOverAggregate1(_Over, frozen=True, kw_only=True, tag="batch-exec-over-aggregate_1"):
    """Aggregates OVER a window of rows."""


class BatchMatch1(_Match, frozen=True, kw_only=True, tag="batch-exec-match_1"):
    """Matches patterns (MATCH_RECOGNIZE)."""


class BatchUnion1(Node, frozen=True, kw_only=True, tag="batch-exec-union_1"):
    """Merges inputs (UNION ALL)."""


class BatchValues1(_Values, frozen=True, kw_only=True, tag="batch-exec-values_1"):
    """Emits constant rows."""


class BatchWindowTableFunction1(
    _WindowTableFunction, frozen=True, kw_only=True, tag="batch-exec-window-table-function_1"
):
    """Assigns windows to rows."""


class BatchLookupJoin1(Node, frozen=True, kw_only=True, tag="batch-exec-lookup-join_1"):
    """Joins rows with the current rows of a table."""

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
"""The classes of nodes by kind and version, such as ``stream-exec-calc_1``."""
