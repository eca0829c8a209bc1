"""`WindowedStream`: the records of one key and one window together; `AllWindowedStream`: of one window, whatever their key
(PyFlink: ``pyflink.datastream.data_stream``).

Functions of one record: ``reduce``, ``aggregate``, ``apply``, ``process``. Columns: ``agg(count(), sum("x"), ...)``, which
aggregates before the exchange and merges behind it, and never leaves Arrow:

    producer ─▶ local aggregation ──HASH by key──▶ merge ─▶ window_start, window_end, keys ..., aggregates ...
                (in the producer's chain)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar

import pyarrow as pa

from tidegate.common.records.partial_names import internal_name
from tidegate.common.time import Duration, Time, to_millis
from tidegate.common.typeinfo import ArrowTypeInfo, TypeInformation, Types
from tidegate.datastream._graph.transformation import PartitionTransformation
from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.datastream.aggregates import Aggregate, check_aggregates, distinct, key_fields
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    Evictor,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.functions.adapters import ApplyAllWindow, ApplyWindow, OneKey, ProcessAllWindow, check_function
from tidegate.functions.interfaces import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import AssignedWindow, Key, Record, UserObject

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream, KeyedStream
    from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream"]


def _as_it_is(function: UserObject) -> UserObject:
    return function


WINDOW_TIMES = ("window_start", "window_end")

Self = TypeVar("Self", bound="WindowsOfStream")


class WindowsOfStream:
    """What streams in windows have in common, with keys or without. ``_functions``: the kinds of function that see a window,
    each with the adapter that makes a ProcessWindowFunction of it."""

    _functions: ClassVar[
        Mapping[type[Function], Callable[[UserObject], ProcessWindowFunction[Record, Record, Key, AssignedWindow]]]
    ]

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Record, AssignedWindow]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidJob(
                f"window needs a WindowAssigner, such as TumblingEventTimeWindows, not {window_assigner!r}"
            )
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Record, AssignedWindow] | None = None
        self._evictor: Evictor | None = None
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment of the stream."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Returns the type of the records that enter the windows."""
        return self._keyed_stream.get_type()

    def trigger(self: Self, trigger: Trigger[Record, AssignedWindow]) -> Self:
        """In place of the assigner's own trigger."""
        if not isinstance(trigger, Trigger):
            raise InvalidJob(f"not a Trigger: {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidJob(
                f"{type(trigger).__name__} cannot be used with {self._assigner!r}, whose windows merge: its can_merge() must "
                "be True, and it needs on_merge"
            )
        self._trigger = trigger
        return self

    def evictor(self: Self, evictor: Evictor) -> Self:
        """Takes records out of the window when it fires (Flink's Java API; PyFlink has no evictors). The window then keeps
        all its records until it is over."""
        if not isinstance(evictor, Evictor):
            raise InvalidJob(f"not an Evictor: {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self: Self, time_ms: int | Time | Duration) -> Self:
        """How long after its end (in event time) a window still takes records and fires again."""
        lateness_ms = to_millis(time_ms, "allowed_lateness")
        if lateness_ms < 0:
            raise InvalidJob(f"the allowed lateness must not be negative: {time_ms}")
        self._allowed_lateness_ms = lateness_ms
        return self

    def side_output_late_data(self: Self, output_tag: OutputTag) -> Self:
        """Records that come too late go to this side output instead of being dropped."""
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Record, Record], Record] | ReduceFunction,
        window_function: UserObject = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        """One value for each window. ``window_function`` sees the reduced value and the window."""
        check_function(reduce_function, ReduceFunction, "reduce")
        kind = self.get_input_type() if window_function is None and output_type is None else type_of(output_type)
        return self._window(("reduce", reduce_function, *self._with(window_function)), kind)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: UserObject = None,
        accumulator_type: TypeHint = None,
        output_type: TypeHint = None,
    ) -> DataStream:
        """One accumulator for each window. ``window_function`` sees the result and the window."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidJob(f"aggregate needs an AggregateFunction, not {aggregate_function!r} (columns: use agg)")
        function = ("aggregate", aggregate_function, *self._with(window_function))
        return self._window(function, type_of(output_type), type_of(accumulator_type))

    def _of_kind(self, index: int, function: UserObject, method: str) -> UserObject:
        kind, adapter = list(self._functions.items())[index]
        if not isinstance(function, kind):
            raise InvalidJob(f"{method} needs {_a(kind)}, not {function!r}")
        return adapter(function)

    def _with(
        self, window_function: UserObject
    ) -> tuple[ProcessWindowFunction[Record, Record, Key, AssignedWindow], ...]:
        if window_function is None:
            return ()
        for kind, adapter in self._functions.items():
            if isinstance(window_function, kind):
                return (adapter(window_function),)
        names = " or ".join(map(_a, self._functions))
        raise InvalidJob(f"window_function must be {names}, not {window_function!r}")

    def _window(
        self,
        function: tuple[UserObject, ...],
        output_type: TypeInformation,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        options = {
            "assigner": self._assigner,
            "trigger": self._trigger,
            "evictor": self._evictor,
            "allowed_lateness_ms": self._allowed_lateness_ms,
            "late_tag": None if self._late_tag is None else self._late_tag.tag_id,
            "function": function,
            "accumulator_type": accumulator_type,
        }
        return self._keyed_stream._keyed("window", type(self._assigner).__name__, options, output_type)

    def __getattr__(self, name: str) -> NoReturn:
        """Only reached for names that are not there."""
        raise AttributeError(
            name if name.startswith("_") else f"{type(self).__name__}.{name} is not available in tidegate"
        )


class WindowedStream(WindowsOfStream):
    """Windows of the records of each key."""

    _functions: ClassVar = {WindowFunction: ApplyWindow, ProcessWindowFunction: _as_it_is}

    def apply(
        self, window_function: WindowFunction[Record, Record, Key, AssignedWindow], output_type: TypeHint = None
    ) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        return self._window(("process", self._of_kind(0, window_function, "apply")), type_of(output_type))

    def process(
        self,
        process_window_function: ProcessWindowFunction[Record, Record, Key, AssignedWindow],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        return self._window(("process", self._of_kind(1, process_window_function, "process")), type_of(output_type))

    def agg(self, *aggregates: Aggregate) -> DataStream:
        """Ours: one row of ``window_start, window_end`` (int64, ms), the key columns and the aggregates for each key and
        window. Needs ``key_by("column", ...)`` and windows of event time: tumbling ones, sliding ones whose slide divides their
        size (a row is aggregated once for each slide, not for each window), or sessions with a fixed gap."""
        keyed, assigner = self._keyed_stream, self._assigner
        keys = list(keyed.exchange_key().columns)
        if not keys:
            raise InvalidJob('agg works on columns: use key_by("column", ...) before the window')
        if not isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows)):
            raise InvalidJob(
                "agg works on TumblingEventTimeWindows, SlidingEventTimeWindows and EventTimeSessionWindows with a fixed "
                f"gap, not on {assigner!r}; others take reduce or aggregate"
            )
        self._refuse_settings()
        options = {"keys": keys, "aggregates": [(a.output_name, a.spec, a.column) for a in aggregates]}
        local_type, output_type = _aggregate_types(keyed._columns("agg"), keys, aggregates, times=WINDOW_TIMES[:1])
        if isinstance(assigner, EventTimeSessionWindows):
            local_type, _ = _aggregate_types(keyed._columns("agg"), keys, aggregates, times=WINDOW_TIMES)
            options["gap_ms"] = assigner.gap_ms
            return self._in_two_steps(
                ("columnar_session_local", "columnar_session"), options, options, local_type, output_type
            )
        slide_ms = _slide_of(assigner)
        options |= {"size_ms": assigner.size_ms, "offset_ms": assigner.offset_ms}
        of_local = {**options, "size_ms": slide_ms}
        return self._in_two_steps(
            ("columnar_window_local", "columnar_window"),
            of_local,
            {**options, "slide_ms": slide_ms},
            local_type,
            output_type,
        )

    def _in_two_steps(
        self,
        kinds: tuple[OperatorKind, OperatorKind],
        of_local: dict[str, UserObject],
        of_window: dict[str, UserObject],
        local_type: TypeInformation,
        output_type: TypeInformation,
    ) -> DataStream:
        """The local aggregation in the producer's chain, the exchange, and the merge behind it."""
        keyed, env = self._keyed_stream, self.get_execution_environment()
        key = keyed.exchange_key()
        key = replace(key, columns=tuple(map(internal_name, key.columns)))
        local = env.add_operator(
            kinds[0],
            "LocalWindowAggregate",
            {**of_local, "input": "raw"},
            local_type,
            (keyed.before_exchange(),),
        )
        local.follows_input = True
        exchange = PartitionTransformation(
            env.next_transformation_id(),
            local_type,
            input=local,
            partitioner=Partitioner.HASH,
            key=key,
        )
        made = env.add_operator(
            kinds[1],
            "GlobalWindowAggregate",
            {**of_window, "input": "partial"},
            output_type,
            (exchange,),
            key,
        )
        return keyed._behind(made)

    def _refuse_settings(self) -> None:
        settings = (self._trigger, self._evictor, self._late_tag, self._allowed_lateness_ms or None)
        if any(setting is not None for setting in settings):
            raise InvalidJob("agg knows no trigger, evictor, allowed lateness or side output for late data")


class AllWindowedStream(WindowsOfStream):
    """Windows of all records together, in one subtask."""

    _functions: ClassVar = {AllWindowFunction: ApplyAllWindow, ProcessAllWindowFunction: ProcessAllWindow}

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Record, AssignedWindow]) -> None:
        one_key = KeySpec(selector=OneKey(), key_type=Types.BYTE())
        super().__init__(data_stream._keyed_by(one_key), window_assigner)

    def apply(
        self, window_function: AllWindowFunction[Record, Record, AssignedWindow], output_type: TypeHint = None
    ) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        return self._window(("process", self._of_kind(0, window_function, "apply")), type_of(output_type))

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[Record, Record, AssignedWindow],
        output_type: TypeHint = None,
    ) -> DataStream:
        """Sees all records of the window at once; they are kept in state until then."""
        return self._window(("process", self._of_kind(1, process_window_function, "process")), type_of(output_type))

    def _window(
        self,
        function: tuple[UserObject, ...],
        output_type: TypeInformation,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        return super()._window(function, output_type, accumulator_type).force_non_parallel()


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"


def _slide_of(assigner: TumblingEventTimeWindows[Record] | SlidingEventTimeWindows[Record]) -> int:
    """Raises ``InvalidJob`` unless it divides the size."""
    slide_ms = assigner.slide_ms if isinstance(assigner, SlidingEventTimeWindows) else assigner.size_ms
    if assigner.size_ms % slide_ms:
        raise InvalidJob(
            f"agg works on sliding windows whose slide divides their size, {assigner.size_ms} ms each {slide_ms} ms "
            "does not; reduce and aggregate take any"
        )
    return slide_ms


def _aggregate_types(
    schema: pa.Schema, keys: list[str], aggregates: tuple[Aggregate, ...], times: Sequence[str]
) -> tuple[TypeInformation, TypeInformation]:
    """Types of the stream of partial aggregates, which begins with the columns ``times``, and of the results."""
    check_aggregates(aggregates)
    named = key_fields(schema, keys)
    start, end = (pa.field(name, pa.int64()) for name in WINDOW_TIMES)
    inside = [field.with_name(internal_name(field.name)) for field in named]
    partials = [field for aggregate in aggregates for field in aggregate.partial_fields(schema)]
    results = [aggregate.output_field(schema) for aggregate in aggregates]
    output_type = ArrowTypeInfo(distinct([start, end, *named, *results]))
    return Types.SCHEMA(pa.schema([*(pa.field(name, pa.int64()) for name in times), *inside, *partials])), output_type
