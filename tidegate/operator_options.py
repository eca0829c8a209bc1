"""What an operator of each kind is made with: user functions, sources and sinks, windows, columns.

The DSL gathers them by name; ``make_options`` makes the value of the kind when the graph is built, and a subtask builds its operator from it
(``tidegate.taskmanager.runtime.operator_factory``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.columnar.aggregates.plan import Aggregates
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.base import Sink, Source, Split
from tidegate.functions.async_functions import AsyncFunction
from tidegate.functions.async_retry_strategies import AsyncRetryStrategy
from tidegate.functions.base import UserCode
from tidegate.functions.cep.functions import PatternProcessFunction
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.expressions import Expression
from tidegate.functions.interfaces import ProcessJoinFunction
from tidegate.functions.sql.aggregates import UserAggregates
from tidegate.functions.state import MapStateDescriptor
from tidegate.functions.state_ttl import StateTtlConfig
from tidegate.functions.windows import Evictor, Trigger, WindowAssigner
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import OperatorId
from tidegate.model.program import OperatorKind, OperatorOptions
from tidegate.model.values import AssignedWindow, Record, UserObject
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(OperatorOptions):
    """``splits``: those that are dealt in advance, for all subtasks. ``is_coordinated``: further ones are asked for."""

    source: Source
    splits: Sequence[Split]
    is_coordinated: bool = False
    watermark_strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumeratedSourceOptions(OperatorOptions):
    """``enumerator``: the operator that hands the splits out, in a vertex of its own."""

    source: Source
    enumerator: OperatorId
    watermark_strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(OperatorOptions):
    """The sink that an operator writes to. ``commits_apart``: what it votes for goes to the sink's committer, in a vertex of its own."""

    sink: Sink
    commits_apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions(OperatorOptions):
    """``func``: the function of the kind, or a callable where one is enough."""

    func: UserCode


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastOptions(FunctionOptions):
    """Input 1 is the broadcast one."""

    states: Sequence[MapStateDescriptor]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncWaitOptions(OperatorOptions):
    """``capacity``: so many records may wait for their answers. ``ordered``: results leave in the order of their records."""

    func: AsyncFunction[Record, Record]
    timeout_ms: int
    strategy: AsyncRetryStrategy[Record]
    capacity: int
    ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinOptions(OperatorOptions):
    """``late_tags``: ids or ``None``, by side."""

    func: ProcessJoinFunction
    lower_ms: int
    upper_ms: int
    late_tags: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CepOptions(OperatorOptions):
    """``comparator``: the order of events of one time. ``late_tag``: where late events go."""

    func: PatternProcessFunction
    pattern: Pattern
    is_event_time: bool = True
    comparator: Callable[[Record, Record], int] | None = None
    late_tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsWatermarksOptions(OperatorOptions):
    """Timestamps and watermarks that are assigned behind a source."""

    strategy: WatermarkStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions(OperatorOptions):
    """``function``: (``reduce`` | ``aggregate`` | ``process``, function[, process function]). ``accumulator_type``: of an aggregate."""

    assigner: WindowAssigner[Record, AssignedWindow]
    function: Sequence[UserObject]
    trigger: Trigger[Record, AssignedWindow] | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    accumulator_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions(OperatorOptions):
    """Names of the new columns, and what computes them."""

    columns: Sequence[tuple[str, Expression]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterColumnsOptions(OperatorOptions):
    """Rows stay where the predicate is true."""

    predicate: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatchesOptions(OperatorOptions):
    """``func``: RecordBatch -> RecordBatch of the output type's columns."""

    func: Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateOptions(OperatorOptions):
    """``is_final``: one result for each key, at the end of the input (BATCH)."""

    keys: Sequence[str]
    aggregates: Aggregates
    is_final: bool = False
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindowOptions(OperatorOptions):
    """Of windows that slide, ``size_ms`` is the slide. ``input`` is always ``raw``."""

    keys: Sequence[str]
    aggregates: Aggregates
    size_ms: int
    offset_ms: int
    input: str = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnarWindowOptions(LocalWindowOptions):
    """``input``: ``partial`` (behind local windows) or ``raw``. ``slide_ms``: if they slide."""

    slide_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(OperatorOptions):
    """``input``: ``partial`` behind local sessions, which have none."""

    keys: Sequence[str]
    aggregates: Aggregates
    gap_ms: int
    input: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationalOptions(OperatorOptions):
    """A node of a compiled plan. ``row_types``: of its inputs, without the column of row kinds; ``keys``: for each input the positions of
    the columns by which rows are dealt, none: all rows come to one subtask. ``functions``: aggregate functions of users, which the operator opens and
    closes."""

    node: Node
    row_types: Sequence[LogicalType]
    keys: Sequence[Sequence[int]]
    time_zone: str
    functions: UserAggregates | None = None


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
    """The options of an operator of that kind. Raises ``InvalidJob`` where one is missing, or not of its kind."""
    try:
        return OPTIONS[kind](**gathered)
    except TypeError as error:
        raise InvalidJob(f"operator '{name}' of kind '{kind}': {error}") from error


__all__ = [
    "OPTIONS",
    "AggregateOptions",
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
