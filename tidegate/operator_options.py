"""The options of operators by kind: user functions, sources and sinks, windows, columns.

The DSL gathers them by name; ``make_options`` makes the value of the kind when the graph is built, and a subtask builds its operator from it
(``tidegate.taskmanager.runtime.operator_factory``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.columnar.aggregates.plan import Aggregates
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Sink, Source, Split
from tidegate.functions.async_batches import AsyncBatchFunction
from tidegate.functions.async_functions import AsyncFunction
from tidegate.functions.async_retry_strategies import AsyncRetryStrategy
from tidegate.functions.base import UserCode
from tidegate.functions.expressions import Expression
from tidegate.functions.interfaces import ProcessJoinFunction
from tidegate.functions.state import MapStateDescriptor
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.functions.windows import Evictor, Trigger, WindowAssigner
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import OperatorId
from tidegate.model.program import OperatorKind, OperatorOptions
from tidegate.model.values import AssignedWindow, Record, UserObject

if TYPE_CHECKING:
    from tidegate.functions.cep.functions import PatternProcessFunction
    from tidegate.functions.cep.pattern import Pattern
    from tidegate.functions.sql.aggregates import UserAggregates
    from tidegate.plan.logical_types import LogicalType
    from tidegate.plan.nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(OperatorOptions):
    """Options of a source. ``splits``: those that are assigned in advance, for all subtasks. ``is_coordinated``: whether further ones are requested."""

    source: Source
    splits: Sequence[Split]
    is_coordinated: bool = False
    watermark_strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumeratedSourceOptions(OperatorOptions):
    """Options of a source with an enumerator. ``enumerator``: the operator that assigns the splits, in a vertex of its own."""

    source: Source
    enumerator: OperatorId
    watermark_strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(OperatorOptions):
    """Options of a sink. ``commits_apart``: whether its committables go to the sink's committer, in a vertex of its own."""

    sink: Sink
    commits_apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions(OperatorOptions):
    """Options of an operator with a user function. ``func``: the function of the kind, or a callable where that is enough."""

    func: UserCode


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastOptions(FunctionOptions):
    """Options of a broadcast process function, whose input 1 is the broadcast one."""

    states: Sequence[MapStateDescriptor]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncWaitOptions(OperatorOptions):
    """Options of asynchronous I/O. ``capacity``: the most pending records. ``ordered``: whether results are emitted in the order of their records."""

    func: AsyncFunction[Record, Record]
    timeout_ms: int
    strategy: AsyncRetryStrategy[Record]
    capacity: int
    ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncBatchesOptions(OperatorOptions):
    """Options of asynchronous calls for batches."""

    func: AsyncBatchFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinOptions(OperatorOptions):
    """Options of an interval join. ``late_tags``: ids or ``None``, by side."""

    func: ProcessJoinFunction
    lower_ms: int
    upper_ms: int
    late_tags: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CepOptions(OperatorOptions):
    """Options of a pattern. ``comparator``: the order of events with equal timestamps. ``late_tag``: the side output of late events."""

    func: PatternProcessFunction
    pattern: Pattern
    is_event_time: bool = True
    comparator: Callable[[Record, Record], int] | None = None
    late_tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsWatermarksOptions(OperatorOptions):
    """Options of timestamps and watermarks that are assigned after a source."""

    strategy: WatermarkStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions(OperatorOptions):
    """Options of a window. ``function``: (``reduce`` | ``aggregate`` | ``process``, function[, process function]). ``accumulator_type``: of an aggregate."""

    assigner: WindowAssigner[Record, AssignedWindow]
    function: Sequence[UserObject]
    trigger: Trigger[Record, AssignedWindow] | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    accumulator_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions(OperatorOptions):
    """Options of a projection: the names of the new columns, and their expressions."""

    columns: Sequence[tuple[str, Expression]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterColumnsOptions(OperatorOptions):
    """Options of a filter on columns: rows for which the predicate is true are kept."""

    predicate: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatchesOptions(OperatorOptions):
    """Options of a function on batches. ``func``: from a RecordBatch to one with the columns of the output type."""

    func: Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateOptions(OperatorOptions):
    """Options of an aggregate on columns. ``is_final``: whether it emits one result for each key, at the end of the input (BATCH)."""

    keys: Sequence[str]
    aggregates: Aggregates
    is_final: bool = False
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindowOptions(OperatorOptions):
    """Options of the local phase of a window aggregate on columns. For sliding windows, ``size_ms`` is the slide. ``input`` is always ``raw``."""

    keys: Sequence[str]
    aggregates: Aggregates
    size_ms: int
    offset_ms: int
    input: str = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnarWindowOptions(LocalWindowOptions):
    """Options of a window aggregate on columns. ``input``: ``partial`` (after local windows) or ``raw``. ``slide_ms``: of sliding windows."""

    slide_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(OperatorOptions):
    """Options of a session window aggregate on columns. ``input``: ``partial`` after local sessions, which themselves have none."""

    keys: Sequence[str]
    aggregates: Aggregates
    gap_ms: int
    input: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationalOptions(OperatorOptions):
    """Options of a node of a compiled plan. ``row_types``: of its inputs, without the column of row kinds; ``keys``: for each input the positions of
    the columns by which rows are distributed, none: all rows go to one subtask. ``functions``: aggregate functions of users, which the operator
    opens and closes. ``emits_each``: see ``WatermarkAssigner``."""

    node: Node
    row_types: Sequence[LogicalType]
    keys: Sequence[Sequence[int]]
    time_zone: str
    functions: UserAggregates | None = None
    emits_each: bool = False


OPTIONS: Mapping[OperatorKind, type[OperatorOptions]] = {
    "source": SourceOptions,
    "enumerated_source": EnumeratedSourceOptions,
    "map": FunctionOptions,
    "flat_map": FunctionOptions,
    "filter": FunctionOptions,
    "process": FunctionOptions,
    "keyed_process": FunctionOptions,
    "keyed_reduce": FunctionOptions,
    "co_process": FunctionOptions,
    "keyed_co_process": FunctionOptions,
    "broadcast_process": BroadcastOptions,
    "keyed_broadcast_process": BroadcastOptions,
    "async_wait": AsyncWaitOptions,
    "async_batches": AsyncBatchesOptions,
    "interval_join": IntervalJoinOptions,
    "cep": CepOptions,
    "window": WindowOptions,
    "timestamps_watermarks": TimestampsWatermarksOptions,
    "sink": SinkOptions,
    "committer": SinkOptions,
    "select": SelectOptions,
    "filter_columns": FilterColumnsOptions,
    "map_batches": MapBatchesOptions,
    "columnar_window": ColumnarWindowOptions,
    "columnar_window_local": LocalWindowOptions,
    "columnar_session": SessionOptions,
    "columnar_session_local": SessionOptions,
    "columnar_aggregate": AggregateOptions,
    "relational": RelationalOptions,
}


def make_options(kind: OperatorKind, name: str, gathered: Mapping[str, UserObject]) -> OperatorOptions:
    """Creates the options of an operator of a kind. Raises ``InvalidJob`` where one is missing, or does not belong to the kind."""
    try:
        return OPTIONS[kind](**gathered)
    except TypeError as error:
        raise InvalidJob(f"operator '{name}' of kind '{kind}': {error}") from error


__all__ = [
    "OPTIONS",
    "AggregateOptions",
    "AsyncBatchesOptions",
    "AsyncWaitOptions",
    "BroadcastOptions",
    "CepOptions",
    "ColumnarWindowOptions",
    "EnumeratedSourceOptions",
    "FilterColumnsOptions",
    "FunctionOptions",
    "IntervalJoinOptions",
    "LocalWindowOptions",
    "MapBatchesOptions",
    "RelationalOptions",
    "SelectOptions",
    "SessionOptions",
    "SinkOptions",
    "SourceOptions",
    "TimestampsWatermarksOptions",
    "WindowOptions",
    "make_options",
]
