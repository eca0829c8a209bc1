"""Adapters between users' functions and those that operators run, projections, and key selectors.

They are pickled into programs, so they live in a module that every worker has. Each adapter opens and closes the user
function inside it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence

from tidegate.common.row import Row
from tidegate.common.time import Instant
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.functions.interfaces import (
    AllWindowFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    Function,
    KeyedContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedTimerContext,
    KeySelector,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    RuntimeContext,
    TimedContext,
    WindowContext,
    WindowFunction,
)
from tidegate.functions.state import ReducingStateDescriptor
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, FieldValue, Key, Record, UserObject


def check_function(func: UserObject, kind: type[Function], method: str) -> None:
    """Raises ``InvalidJob`` unless ``func`` is a function of this kind or callable."""
    if isinstance(func, kind):
        return
    is_class = isinstance(func, type) and issubclass(func, Function)
    if is_class or isinstance(func, Function) or not callable(func):
        raise InvalidJob(f"{method} needs a {kind.__name__} or a function, not {func!r}")


def key_function(selector: Callable[[Record], Key] | KeySelector) -> Callable[[Record], Key]:
    """Returns a callable ``record -> key``."""
    return KeyOf(selector) if isinstance(selector, KeySelector) else selector


def field_key(stream_type: TypeInformation, columns: Sequence[str]) -> Callable[[Record], Key]:
    """Returns a callable ``record -> key`` for key columns: their value, or a tuple of several."""
    if not (stream_type.is_columnar or hasattr(stream_type, "get_field_types")):
        return FieldKey(None)  # the only column is the record itself
    names = stream_type.arrow_schema().names
    return FieldKey([names.index(column) for column in columns])


class FieldKey:
    """Returns the fields of a record at some positions as its key; the record itself when there are none."""

    def __init__(self, positions: Sequence[int] | None) -> None:
        self.positions = None if positions is None else tuple(positions)

    def __call__(self, value: Record) -> Record:
        if self.positions is None:
            return value
        if len(self.positions) == 1:
            return value[self.positions[0]]
        return tuple([value[position] for position in self.positions])


class KeyOf:
    """Calls a KeySelector. The runtime opens ``selector`` on both sides of the exchange."""

    def __init__(self, selector: KeySelector) -> None:
        self.selector = selector

    def __call__(self, value: Record) -> Record:
        return self.selector.get_key(value)


class Projection:
    """Returns the fields of a tuple or row at some positions."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = tuple(positions)

    def __call__(self, value: Record) -> tuple[FieldValue, ...]:
        return tuple(value[position] for position in self.positions)


class FieldTimestamp(TimestampAssigner):
    """Returns a field of a record as its event time (the record itself when ``position`` is ``None``): ms, or a time object."""

    def __init__(self, position: int | None) -> None:
        self.position = position

    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        found = value if self.position is None else value[self.position]
        return found if isinstance(found, int) else _epoch_ms(found)


class Wrapping:
    """The base of adapters, which opens and closes the wrapped function."""

    def __init__(self, wrapped: UserObject) -> None:
        self.wrapped = wrapped

    def open(self, runtime_context: RuntimeContext) -> None:
        """Opens the wrapped function, if it is a rich function and not a plain callable."""
        if isinstance(self.wrapped, Function):
            self.wrapped.open(runtime_context)

    def close(self) -> None:
        """Closes the wrapped function, if it is a rich function and not a plain callable."""
        if isinstance(self.wrapped, Function):
            self.wrapped.close()


class KeyAndRecord(Wrapping):
    """Converts a record to ``Row(f0=key, f1=record)``."""

    def __init__(self, selector: Callable[[Record], Key]) -> None:
        super().__init__(selector.selector if isinstance(selector, KeyOf) else selector)
        self._selector = selector

    def __call__(self, value: Record) -> Row:
        return Row(f0=self._selector(value), f1=value)


def user_function_of(func: UserObject) -> UserObject:
    """Returns the user's function inside our adapters."""
    while isinstance(func, Wrapping):
        func = func.wrapped
    return func


class KeyedMap(Wrapping, KeyedProcessFunction):
    """A MapFunction on a KeyedStream, which may use keyed state."""

    def process_element(self, value: Record, ctx: KeyedContext) -> Iterable[Record]:
        """Emits what the MapFunction returns."""
        return (self.wrapped.map(value),)


class KeyedFlatMap(Wrapping, KeyedProcessFunction):
    """A FlatMapFunction on a KeyedStream, which may use keyed state."""

    def process_element(self, value: Record, ctx: KeyedContext) -> Iterable[Record] | None:
        """Emits every element of what the FlatMapFunction returns."""
        found: Iterable[Record] | None = self.wrapped.flat_map(value)
        return found


class KeyedFilter(Wrapping, KeyedProcessFunction):
    """A FilterFunction on a KeyedStream, which may use keyed state."""

    def process_element(self, value: Record, ctx: KeyedContext) -> Iterable[Record]:
        """Emits the record if the FilterFunction accepts it."""
        return (value,) if self.wrapped.filter(value) else ()


class FinalReduce(Wrapping, KeyedProcessFunction):
    """``reduce`` in BATCH execution mode: one result for each key, when all input was read."""

    def __init__(self, wrapped: UserObject, value_type: TypeInformation) -> None:
        super().__init__(wrapped)
        self.value_type = value_type

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._reduced = runtime_context.get_reducing_state(
            ReducingStateDescriptor("reduced", self.wrapped, self.value_type)
        )

    def process_element(self, value: Record, ctx: KeyedContext) -> None:
        """Reduces the record into state; the key's first record registers the timer that emits the result."""
        if self._reduced.get() is None:
            ctx.timer_service().register_event_time_timer(END_OF_TIME)
        self._reduced.add(value)

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Record]:
        return (self._reduced.get(),)


class ApplyWindow(Wrapping, ProcessWindowFunction[Record, Record, Key, AssignedWindow]):
    """A WindowFunction as a ProcessWindowFunction."""

    wrapped: WindowFunction[Record, Record, Key, AssignedWindow]

    def process(self, key: Key, context: WindowContext[AssignedWindow], elements: Iterable[Record]) -> Iterable[Record]:
        """Calls the WindowFunction with the window itself in place of the context."""
        return self.wrapped.apply(key, context.window(), elements)


class ApplyAllWindow(Wrapping, ProcessWindowFunction[Record, Record, Key, AssignedWindow]):
    """Adapts an AllWindowFunction to a ProcessWindowFunction whose key is the same for all records."""

    wrapped: AllWindowFunction[Record, Record, AssignedWindow]

    def process(self, key: Key, context: WindowContext[AssignedWindow], elements: Iterable[Record]) -> Iterable[Record]:
        """Calls the AllWindowFunction without the key."""
        return self.wrapped.apply(context.window(), elements)


class ProcessAllWindow(Wrapping, ProcessWindowFunction[Record, Record, Key, AssignedWindow]):
    """A ProcessAllWindowFunction as a ProcessWindowFunction."""

    wrapped: ProcessAllWindowFunction[Record, Record, AssignedWindow]

    def process(self, key: Key, context: WindowContext[AssignedWindow], elements: Iterable[Record]) -> Iterable[Record]:
        """Calls the ProcessAllWindowFunction without the key."""
        return self.wrapped.process(context, elements)

    def clear(self, context: WindowContext[AssignedWindow]) -> None:
        self.wrapped.clear(context)


class OneKey:
    """The key selector of ``window_all``: all records have the same key (PyFlink's ``NullByteKeySelector``)."""

    def __call__(self, value: Record) -> int:
        return 0


class _CoMap(Wrapping):
    """The base of adapters of CoMapFunctions. As in PyFlink ``None`` emits nothing here, while a MapFunction emits it."""

    wrapped: CoMapFunction

    def process_element1(self, value: Record, ctx: TimedContext) -> Iterable[Record]:
        found = self.wrapped.map1(value)
        return () if found is None else (found,)

    def process_element2(self, value: Record, ctx: TimedContext) -> Iterable[Record]:
        found = self.wrapped.map2(value)
        return () if found is None else (found,)


class _CoFlatMap(Wrapping):
    wrapped: CoFlatMapFunction

    def process_element1(self, value: Record, ctx: TimedContext) -> Iterable[Record] | None:
        return self.wrapped.flat_map1(value)

    def process_element2(self, value: Record, ctx: TimedContext) -> Iterable[Record] | None:
        return self.wrapped.flat_map2(value)


class CoMap(_CoMap, CoProcessFunction):
    """A CoMapFunction on two streams."""


class KeyedCoMap(_CoMap, KeyedCoProcessFunction):
    """A CoMapFunction on two keyed streams, which may use keyed state."""


class CoFlatMap(_CoFlatMap, CoProcessFunction):
    """A CoFlatMapFunction on two streams."""


class KeyedCoFlatMap(_CoFlatMap, KeyedCoProcessFunction):
    """A CoFlatMapFunction on two keyed streams, which may use keyed state."""


def _epoch_ms(moment: FieldValue) -> int:
    if isinstance(moment, Instant):
        return moment.to_epoch_milli()
    if isinstance(moment, dt.datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if isinstance(moment, dt.date):
        return (moment - dt.date(1970, 1, 1)).days * 86_400_000
    raise InvalidJob(f"{moment!r} is not an event time, which is ms since the epoch, a datetime or a date")
