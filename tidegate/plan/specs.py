"""Parts of nodes: tables, joins, sorts, ranks, windows, distributions. Each has the name and the fields of Flink's class.

Durations are written as Java's ``Duration``, ``PT1M30S``; ``duration_ms`` reads them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

import msgspec

from tidegate.plan.errors import MalformedPlan
from tidegate.plan.expressions import AggregateCall, PlanPart, Rex, RexLiteral, WindowBound
from tidegate.plan.logical_types import Field, LogicalType


def duration_ms(text: str) -> int:
    """Parses a Java duration such as ``PT1H0.5S`` into milliseconds. Raises ``MalformedPlan``."""
    match = re.fullmatch(r"PT(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?", text)
    if match is None:
        raise MalformedPlan(f"{text!r} is not a duration")
    hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    return int((hours * 3600 + minutes * 60 + seconds) * 1000)


class StateMetadata(PlanPart, frozen=True):
    """A state of an operator; ``ttl``: as in Flink's options, ``0 ms``: without expiry."""

    index: int
    ttl: str
    name: str

    @property
    def ttl_ms(self) -> int:
        number, unit = self.ttl.split()
        return int(number) * _UNITS_MS[unit]


_UNITS_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


# --- tables ----------------------------------------------------------------------------------------


class ResolvedExpression(PlanPart, frozen=True):
    """An expression of a table's definition, with its text."""

    rex_node: Rex
    serializable_string: str
    type: str | None = None


class ResolvedColumn(PlanPart, frozen=True):
    """A column of a table: ``kind`` is PHYSICAL, COMPUTED (with ``expression``) or METADATA (with ``metadata_key`` where it differs from the name)."""

    name: str
    data_type: LogicalType | None = None
    kind: str = "PHYSICAL"
    expression: ResolvedExpression | None = None
    metadata_key: str | None = None
    is_virtual: bool | None = None
    comment: str | None = None


class WatermarkSpec(PlanPart, frozen=True):
    """The watermark of a table: the expression that computes it from the columns of a row."""

    rowtime_attribute: str
    expression: ResolvedExpression


class Constraint(PlanPart, frozen=True):
    """A primary key or an index."""

    name: str
    columns: tuple[str, ...]
    type: str | None = None
    enforced: bool | None = None


class ResolvedSchema(PlanPart, frozen=True):
    """The columns, watermark and keys of a table."""

    columns: tuple[ResolvedColumn, ...]
    watermark_specs: tuple[WatermarkSpec, ...] = ()
    primary_key: Constraint | None = None
    indexes: tuple[Constraint, ...] = ()
    immutable_columns: Constraint | None = None


class TableDistribution(PlanPart, frozen=True):
    """The distribution of a table (DISTRIBUTED BY)."""

    kind: str
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int | None = None


class ResolvedCatalogTable(PlanPart, frozen=True):
    """A table as its catalog defines it. ``options``: absent in a plan that was compiled with the schema only."""

    schema: ResolvedSchema
    options: dict[str, str] | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    distribution: TableDistribution | None = None
    snapshot: int | None = None

    @property
    def physical_fields(self) -> tuple[Field, ...]:
        """The physical columns with their types."""
        stored = [column for column in self.schema.columns if column.kind == "PHYSICAL"]
        return tuple(Field(column.name, column.data_type) for column in stored if column.data_type is not None)


class ContextResolvedTable(PlanPart, frozen=True):
    """A table with its ``identifier``: catalog, database and name in back-quotes; absent for anonymous tables."""

    identifier: str | None = None
    resolved_table: ResolvedCatalogTable | None = None

    @property
    def name(self) -> str:
        """The name in messages: ``default_catalog.default_database.orders``."""
        return "*anonymous*" if self.identifier is None else self.identifier.replace("`", "")


class ProjectPushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to read only some fields. ``projected_fields``: paths of field indices."""

    projected_fields: tuple[tuple[int, ...], ...]
    produced_type: LogicalType


class FilterPushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to filter rows while it reads."""

    predicates: tuple[Rex, ...]


class LimitPushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to read no more than some rows."""

    limit: int


class PartitionPushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to read only some partitions, each given by its columns and values."""

    partitions: tuple[dict[str, str], ...]


class ReadingMetadata(PlanPart, frozen=True, tag_field="type"):
    """The source ability to read metadata columns, which follow the physical ones."""

    metadata_keys: tuple[str, ...]
    produced_type: LogicalType


class SourceWatermark(PlanPart, frozen=True, tag_field="type"):
    """The source ability to make its own watermarks (``SOURCE_WATERMARK()``)."""

    source_watermark_enabled: bool
    produced_type: LogicalType


class WatermarkParams(PlanPart, frozen=True):
    """Hints on the watermarks of a table. ``source_idle_timeout``: in ms."""

    emit_strategy: str | None = None
    align_group_name: str | None = None
    align_max_drift: str | None = None
    align_update_interval: str | None = None
    source_idle_timeout: int | None = None


class WatermarkPushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to compute watermarks for each split."""

    watermark_expr: Rex
    idle_timeout_millis: int
    produced_type: LogicalType
    rowtime_expr: Rex | None = None
    watermark_params: WatermarkParams | None = None


class AggregatePushDown(PlanPart, frozen=True, tag_field="type"):
    """The source ability to aggregate while it reads."""

    input_type: LogicalType
    grouping_sets: tuple[tuple[int, ...], ...]
    aggregate_calls: tuple[AggregateCall, ...]
    produced_type: LogicalType


SourceAbility: TypeAlias = (
    ProjectPushDown
    | FilterPushDown
    | LimitPushDown
    | PartitionPushDown
    | ReadingMetadata
    | SourceWatermark
    | WatermarkPushDown
    | AggregatePushDown
)


class TableSource(PlanPart, frozen=True):
    """A table source (Flink: ``DynamicTableSourceSpec``). ``abilities``: in the order in which they apply."""

    table: ContextResolvedTable
    abilities: tuple[SourceAbility, ...] = ()


class Overwrite(PlanPart, frozen=True, tag_field="type"):
    """The sink ability of ``INSERT OVERWRITE``."""

    overwrite: bool


class Partitioning(PlanPart, frozen=True, tag_field="type"):
    """The sink ability to write into one static partition, given by its columns and values."""

    partition: dict[str, str]


class Bucketing(PlanPart, frozen=True, tag_field="type"):
    """The sink ability to distribute rows by the buckets of the table."""


class TargetColumnWriting(PlanPart, frozen=True, tag_field="type"):
    """The sink ability to write only some columns. ``target_columns``: paths of field indices."""

    target_columns: tuple[tuple[int, ...], ...]


class WritingMetadata(PlanPart, frozen=True, tag_field="type"):
    """The sink ability to write metadata columns, which follow the physical ones."""

    metadata_keys: tuple[str, ...]
    consumed_type: LogicalType


SinkAbility: TypeAlias = Overwrite | Partitioning | Bucketing | TargetColumnWriting | WritingMetadata


class TableSink(PlanPart, frozen=True):
    """A table sink (Flink: ``DynamicTableSinkSpec``). ``target_columns``: those that INSERT names."""

    table: ContextResolvedTable
    abilities: tuple[SinkAbility, ...] = ()
    target_columns: tuple[tuple[int, ...], ...] | None = None

    @property
    def commits_by_time(self) -> bool:
        """Whether the sink needs the event time: a partition of a file table is committed when its time has come."""
        resolved = self.table.resolved_table
        options = {} if resolved is None else resolved.options or {}
        by_time = options.get("sink.partition-commit.trigger", "").lower() == "partition-time"
        return by_time and "sink.partition-commit.policy.kind" in options and options.get("connector") == "filesystem"


class TemporalTableSource(PlanPart, frozen=True):
    """The table of a lookup join."""

    lookup_table_source: TableSource
    output_type: LogicalType


# --- relations -------------------------------------------------------------------------------------


class JoinSpec(PlanPart, frozen=True):
    """A join's keys and condition. ``filter_nulls``: for each key, whether null equals nothing; false for IS NOT DISTINCT FROM."""

    join_type: str
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    non_equi_condition: Rex | None


class AttributeRef(PlanPart, frozen=True):
    """Two fields of a join's inputs that must be equal; the right one belongs to the input that is joined with the previous ones."""

    left_input_id: int
    left_field_index: int
    right_input_id: int
    right_field_index: int


class IntervalBounds(PlanPart, frozen=True):
    """The bounds of an interval join in ms: right time + lower <= left time <= right time + upper."""

    is_event_time: bool
    left_lower_bound: int
    left_upper_bound: int
    left_time_index: int
    right_time_index: int


class IntervalJoinSpec(PlanPart, frozen=True):
    """The condition of an interval join and the bounds of its time difference."""

    join_spec: JoinSpec
    window_bounds: IntervalBounds


class SortField(PlanPart, frozen=True):
    """A column of a sort order."""

    index: int
    is_ascending: bool
    null_is_last: bool


class SortSpec(PlanPart, frozen=True):
    """A sort order: its columns, the most significant first."""

    fields: tuple[SortField, ...]


class PartitionSpec(PlanPart, frozen=True):
    """The fields of a partition key; none: all rows are one partition."""

    fields: tuple[int, ...]


class OverGroup(PlanPart, frozen=True):
    """Aggregates over one window; ``is_rows``: ROWS, otherwise RANGE."""

    order_by: SortSpec
    is_rows: bool
    lower_bound: WindowBound
    upper_bound: WindowBound
    agg_calls: tuple[AggregateCall, ...]


class OverSpec(PlanPart, frozen=True):
    """Aggregates over several windows. ``constants``: after the ``original_input_fields`` of the input, for bounds and arguments."""

    partition: PartitionSpec
    groups: tuple[OverGroup, ...]
    constants: tuple[RexLiteral, ...]
    original_input_fields: int


class MatchSpec(PlanPart, frozen=True):
    """The definition of MATCH_RECOGNIZE."""

    pattern: Rex
    pattern_definitions: dict[str, Rex]
    measures: dict[str, Rex]
    after: Rex
    subsets: dict[str, tuple[str, ...]]
    all_rows: bool
    partition: PartitionSpec
    order_by: SortSpec
    interval: Rex | None


class ConstantRange(PlanPart, frozen=True, tag_field="type", tag="Constant"):
    """Ranks from ``start`` to ``end``, both inclusive, counted from 1."""

    start: int
    end: int


class ConstantRangeWithoutEnd(PlanPart, frozen=True, tag_field="type", tag="ConstantWithoutEnd"):
    """A range of values from ``start`` on."""

    start: int


class VariableRange(PlanPart, frozen=True, tag_field="type", tag="Variable"):
    """Ranks up to the value of the field ``end_index``."""

    end_index: int


RankRange: TypeAlias = ConstantRange | ConstantRangeWithoutEnd | VariableRange


class AppendFast(PlanPart, frozen=True, tag_field="type"):
    """The rank strategy for input with inserts only."""


class UpdateFast(PlanPart, frozen=True, tag_field="type"):
    """The rank strategy for input with a key whose updates never worsen the rank of a row."""

    primary_keys: tuple[int, ...]


class Retract(PlanPart, frozen=True, tag_field="type"):
    """The rank strategy for input with any changes."""


class Undefined(PlanPart, frozen=True, tag_field="type"):
    """The rank strategy that is not specified."""


RankStrategy: TypeAlias = AppendFast | UpdateFast | Retract | Undefined


class MiniBatchInterval(PlanPart, frozen=True):
    """The interval of mini-batches. ``interval``: in ms; ``mode``: ProcTime, RowTime or None."""

    interval: int
    mode: str


# --- windows ---------------------------------------------------------------------------------------


class TumblingWindow(PlanPart, frozen=True, tag_field="type"):
    """A tumbling window of a windowing table function. Sizes are texts, such as ``10 min``."""

    size: str
    offset: str | None = None


class HoppingWindow(PlanPart, frozen=True, tag_field="type"):
    """A hopping window of a windowing table function."""

    size: str
    slide: str
    offset: str | None = None


class CumulativeWindow(PlanPart, frozen=True, tag_field="type"):
    """A cumulating window of a windowing table function: it grows by ``step`` up to ``max_size``."""

    max_size: str
    step: str
    offset: str | None = None


class SessionWindow(PlanPart, frozen=True, tag_field="type"):
    """A session window of a windowing table function. ``partition_key_indices``: the columns of its ``PARTITION BY``."""

    gap: str
    partition_key_indices: tuple[int, ...] = msgspec.field(default=(), name="partition_key_indices")


Window: TypeAlias = TumblingWindow | HoppingWindow | CumulativeWindow | SessionWindow


class TimeAttributeWindowing(PlanPart, frozen=True, tag_field="strategy", tag="TimeAttribute"):
    """Windowing by the time in the field ``time_attribute_index``."""

    window: Window
    time_attribute_type: LogicalType
    time_attribute_index: int
    is_rowtime: bool


class WindowAttachedWindowing(PlanPart, frozen=True, tag_field="strategy", tag="WindowAttached"):
    """Windowing by the window of each row, whose start and end are fields; -1: there is no such field."""

    window: Window
    time_attribute_type: LogicalType
    window_start: int
    window_end: int
    is_rowtime: bool


class SliceAttachedWindowing(PlanPart, frozen=True, tag_field="strategy", tag="SliceAttached"):
    """Windowing by the end of the slice that a first phase assigned to each row."""

    window: Window
    time_attribute_type: LogicalType
    slice_end: int
    is_rowtime: bool


Windowing: TypeAlias = TimeAttributeWindowing | WindowAttachedWindowing | SliceAttachedWindowing


class WindowReference(PlanPart, frozen=True):
    """The alias of a group window, with the type of its time attribute."""

    name: str
    type: LogicalType


class WindowStart(PlanPart, frozen=True, tag_field="kind"):
    """The property ``TUMBLE_START`` and the like."""

    reference: WindowReference


class WindowEnd(PlanPart, frozen=True, tag_field="kind"):
    """The property ``TUMBLE_END`` and the like."""

    reference: WindowReference


class SliceEnd(PlanPart, frozen=True, tag_field="kind"):
    """The end of the slice to which a partial aggregate belongs."""

    reference: WindowReference


class Rowtime(PlanPart, frozen=True, tag_field="kind"):
    """The event time attribute of a window."""

    reference: WindowReference


class Proctime(PlanPart, frozen=True, tag_field="kind"):
    """The processing time attribute of a window."""

    reference: WindowReference


class NamedWindowProperty(PlanPart, frozen=True):
    """A window property with the name of its output column."""

    name: str
    property: WindowStart | WindowEnd | SliceEnd | Rowtime | Proctime


class TimeField(PlanPart, frozen=True):
    """The time column by which a group window assigns rows."""

    field_name: str
    field_index: int
    input_index: int
    field_type: LogicalType


class TumblingGroupWindow(PlanPart, frozen=True, tag_field="kind", tag="TUMBLING"):
    """A tumbling window of GROUP BY; ``size``: a duration, or a number of rows where ``is_time_window`` is false."""

    alias: WindowReference
    time_field: TimeField
    is_time_window: bool
    size: str | int


class SlidingGroupWindow(PlanPart, frozen=True, tag_field="kind", tag="SLIDING"):
    """A sliding group window (``HOP``). ``size`` and ``slide``: durations as texts, or counts of rows."""

    alias: WindowReference
    time_field: TimeField
    is_time_window: bool
    size: str | int
    slide: str | int


class SessionGroupWindow(PlanPart, frozen=True, tag_field="kind", tag="SESSION"):
    """A session group window (``SESSION``)."""

    alias: WindowReference
    time_field: TimeField
    gap: str


GroupWindow: TypeAlias = TumblingGroupWindow | SlidingGroupWindow | SessionGroupWindow


# --- lookups ---------------------------------------------------------------------------------------


class LookupConstant(PlanPart, frozen=True, tag_field="type", tag="Constant"):
    """A key of a lookup join that is a constant."""

    source_type: LogicalType
    literal: RexLiteral


class LookupField(PlanPart, frozen=True, tag_field="type", tag="FieldRef"):
    """A key of a lookup join that is a column of the input."""

    index: int


LookupKey: TypeAlias = LookupConstant | LookupField


class AsyncOptions(PlanPart, frozen=True, tag_field="type", tag="AsyncOptions"):
    """The options of an asynchronous lookup. ``capacity``: encoded with a blank after it, as in Flink."""

    capacity: int = msgspec.field(name="capacity ")
    timeout: int
    output_mode: str = msgspec.field(name="output-mode")
    is_key_ordered: bool = msgspec.field(default=False, name="is-key-ordered")


class RetryOptions(PlanPart, frozen=True, tag_field="type", tag="RetryLookupOptions"):
    """The retries of a lookup join (hint ``LOOKUP``). ``fixed_delay``: in ms."""

    retry_predicate: str = msgspec.field(name="retry-predicate")
    retry_strategy: str | None = msgspec.field(default=None, name="retry-strategy")
    fixed_delay: int | None = msgspec.field(default=None, name="fixed-delay")
    max_attempts: int | None = msgspec.field(default=None, name="max-attempts")


# --- inputs ----------------------------------------------------------------------------------------


class AnyDistribution(PlanPart, frozen=True, tag_field="type", tag="ANY"):
    """The distribution that is not required to be a certain one."""


class HashDistribution(PlanPart, frozen=True, tag_field="type", tag="HASH"):
    """The distribution that sends rows with equal ``keys`` to one subtask."""

    keys: tuple[int, ...]


class BroadcastDistribution(PlanPart, frozen=True, tag_field="type", tag="BROADCAST"):
    """The distribution that sends every row to all subtasks."""


class SingletonDistribution(PlanPart, frozen=True, tag_field="type", tag="SINGLETON"):
    """The distribution that sends all rows to one subtask."""


class UnknownDistribution(PlanPart, frozen=True, tag_field="type", tag="UNKNOWN"):
    """The distribution without a requirement: that of the input is kept."""


class KeepInputAsIs(PlanPart, frozen=True, tag_field="type", tag="KEEP_INPUT_AS_IS"):
    """A required distribution that the input has already."""

    input_distribution: (
        HashDistribution | SingletonDistribution | BroadcastDistribution | AnyDistribution | UnknownDistribution
    )
    is_strict: bool


Distribution: TypeAlias = (
    AnyDistribution
    | HashDistribution
    | BroadcastDistribution
    | SingletonDistribution
    | UnknownDistribution
    | KeepInputAsIs
)


class InputProperty(PlanPart, frozen=True):
    """The requirements of a node for an input. ``priority``: inputs with a lower number are read first."""

    required_distribution: Distribution
    dam_behavior: str
    priority: int


class ForwardShuffle(PlanPart, frozen=True, tag_field="type", tag="FORWARD"):
    """An exchange that leaves every row in its subtask."""


class HashShuffle(PlanPart, frozen=True, tag_field="type", tag="HASH"):
    """An exchange by the hash of these columns."""

    keys: tuple[int, ...]


class OtherShuffle(PlanPart, frozen=True, tag_field="type", tag="ANY"):
    """An exchange whose kind does not matter."""


class SingletonShuffle(PlanPart, frozen=True, tag_field="type", tag="SINGLETON"):
    """An exchange that sends all rows to one subtask."""


class BroadcastShuffle(PlanPart, frozen=True, tag_field="type", tag="BROADCAST"):
    """An exchange that sends every row to all subtasks."""


Shuffle: TypeAlias = ForwardShuffle | HashShuffle | OtherShuffle | SingletonShuffle | BroadcastShuffle


class ExecEdge(PlanPart, frozen=True):
    """An edge between nodes, by their ids ``source`` and ``target``. The edges of one target are in the order of its inputs."""

    source: int
    target: int
    shuffle: Shuffle
    shuffle_mode: str
