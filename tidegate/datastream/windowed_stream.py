"""`WindowedStream`: the records of one key and one window together (PyFlink: ``pyflink.datastream.data_stream``).

Functions of one record: ``reduce``, ``aggregate``, ``apply``, ``process``. Columns: ``agg(count(), sum("x"), ...)``, which
aggregates before the exchange and merges behind it, and never leaves Arrow:

    producer ─▶ local aggregation ──HASH by key──▶ merge ─▶ window_start, window_end, keys ..., aggregates ...
                (in the producer's chain)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.common.time import Duration, Time, to_millis
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.datastream.aggregates import Aggregate, check_aggregates, distinct, key_fields
from tidegate.datastream.data_stream import DataStream
from tidegate.datastream.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from tidegate.datastream.output_tag import OutputTag
from tidegate.datastream.record_functions import ApplyWindow, check_function
from tidegate.datastream.stream_types import TypeHint, type_of
from tidegate.datastream.transformation import PartitionTransformation
from tidegate.datastream.window import Trigger, TumblingEventTimeWindows, WindowAssigner
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner

if TYPE_CHECKING:
    from tidegate.datastream.keyed_stream import KeyedStream
    from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["WindowedStream"]

AnyWindowFunction = WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any]


class WindowedStream:
    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidJob(
                f"window needs a WindowAssigner, such as TumblingEventTimeWindows, not {window_assigner!r}"
            )
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger | None = None
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        return self._keyed_stream.get_type()

    def trigger(self, trigger: Trigger) -> WindowedStream:
        if not isinstance(trigger, Trigger):
            raise InvalidJob(f"not a Trigger: {trigger!r}")
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> WindowedStream:
        """How long after its end (in event time) a window still takes records and fires again."""
        if to_millis(time_ms) < 0:
            raise InvalidJob(f"the allowed lateness must not be negative: {time_ms}")
        self._allowed_lateness_ms = to_millis(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        """Records that come too late go to this side output instead of being dropped."""
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: AnyWindowFunction | None = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        check_function(reduce_function, ReduceFunction, "reduce")
        kind = self.get_input_type() if window_function is None and output_type is None else type_of(output_type)
        return self._window(("reduce", reduce_function, *_with(window_function)), kind)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AnyWindowFunction | None = None,
        accumulator_type: TypeHint = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidJob(f"aggregate needs an AggregateFunction, not {aggregate_function!r} (columns: use agg)")
        made = self._window(("aggregate", aggregate_function, *_with(window_function)), type_of(output_type))
        made._operator("").options["accumulator_type"] = type_of(accumulator_type)
        return made

    def apply(self, window_function: WindowFunction[Any, Any, Any, Any], output_type: TypeHint = None) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        if not isinstance(window_function, WindowFunction):
            raise InvalidJob(f"apply needs a WindowFunction, not {window_function!r}")
        return self._window(("process", ApplyWindow(window_function)), type_of(output_type))

    def process(
        self, process_window_function: ProcessWindowFunction[Any, Any, Any, Any], output_type: TypeHint = None
    ) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        if not isinstance(process_window_function, ProcessWindowFunction):
            raise InvalidJob(f"process needs a ProcessWindowFunction, not {process_window_function!r}")
        return self._window(("process", process_window_function), type_of(output_type))

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Ours: one row of ``window_start, window_end`` (int64, ms), the key columns and the aggregates for each key and
        window. Needs ``key_by("column", ...)`` and tumbling event-time windows."""
        keyed, assigner = self._keyed_stream, self._assigner
        keys = list(keyed.exchange_key().columns)
        if not keys:
            raise InvalidJob('agg works on columns: use key_by("column", ...) before the window')
        if not isinstance(assigner, TumblingEventTimeWindows):
            raise InvalidJob(
                f"agg works on TumblingEventTimeWindows, not on {assigner!r}; others take reduce or aggregate"
            )
        if self._trigger is not None or self._allowed_lateness_ms or self._late_tag is not None:
            raise InvalidJob("agg knows no trigger, allowed lateness or side output for late data")
        local_type, output_type = _aggregate_types(keyed._columns("agg"), keys, aggregates)
        options = {
            "size_ms": assigner.size_ms,
            "offset_ms": assigner.offset_ms,
            "keys": keys,
            "aggregates": [(a.output_name, a.function, a.column) for a in aggregates],
        }
        env = self.get_execution_environment()
        local = env.add_operator(
            "columnar_window_local",
            "LocalWindowAggregate",
            {**options, "input": "raw"},
            local_type,
            (keyed._values_transformation(),),
        )
        local.follows_input = True
        exchange = PartitionTransformation(
            env.next_transformation_id(),
            local_type,
            input=local,
            partitioner=Partitioner.HASH,
            key=keyed.exchange_key(),
        )
        made = env.add_operator(
            "columnar_window",
            "GlobalWindowAggregate",
            {**options, "input": "partial"},
            output_type,
            (exchange,),
            keyed.exchange_key(),
        )
        return DataStream(env, made)

    def _window(self, function: tuple[Any, ...], output_type: TypeInformation) -> DataStream:
        options = {
            "assigner": self._assigner,
            "trigger": self._trigger,
            "allowed_lateness_ms": self._allowed_lateness_ms,
            "late_tag": None if self._late_tag is None else self._late_tag.tag_id,
            "function": function,
        }
        return self._keyed_stream._keyed("window", type(self._assigner).__name__, options, output_type)

    def __getattr__(self, name: str) -> Any:
        """Only reached for names that are not there."""
        raise AttributeError(name if name.startswith("_") else f"WindowedStream.{name} is not available in tidegate")


def _with(window_function: AnyWindowFunction | None) -> tuple[ProcessWindowFunction[Any, Any, Any, Any], ...]:
    match window_function:
        case None:
            return ()
        case WindowFunction():
            return (ApplyWindow(window_function),)
        case ProcessWindowFunction():
            return (window_function,)
    raise InvalidJob(f"window_function must be a WindowFunction or ProcessWindowFunction, not {window_function!r}")


def _aggregate_types(
    schema: pa.Schema, keys: list[str], aggregates: tuple[Aggregate, ...]
) -> tuple[TypeInformation, TypeInformation]:
    """Types of the stream of partial aggregates, and of the results."""
    check_aggregates(aggregates)
    named = key_fields(schema, keys)
    start, end = pa.field("window_start", pa.int64()), pa.field("window_end", pa.int64())
    partials = [field for aggregate in aggregates for field in aggregate.partial_fields(schema)]
    results = [aggregate.output_field(schema) for aggregate in aggregates]
    return (
        Types.SCHEMA(distinct([start, *named, *partials])),
        ArrowTypeInfo(distinct([start, end, *named, *results])),
    )
