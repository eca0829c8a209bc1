"""The function classes that users implement, and their contexts (PyFlink: ``pyflink.datastream.functions``).

A function is pickled by the client and lives in one subtask: ``open(runtime_context)`` first, ``close()`` last. What it
emits it yields (or returns as an iterable); ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeAlias

from tidegate.functions.async_functions import AsyncFunction
from tidegate.functions.async_retry_strategies import AsyncRetryPredicate, AsyncRetryStrategy
from tidegate.functions.base import (
    AggregateFunction,
    EventListener,
    Function,
    KeyedStateStore,
    ReduceFunction,
    RuntimeContext,
    TaskEventListener,
)
from tidegate.functions.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from tidegate.functions.checkpointed_function import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
)
from tidegate.functions.java_functions import SinkFunction, SourceFunction
from tidegate.functions.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.timerservice import TimerService
from tidegate.functions.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)
from tidegate.metrics import MetricGroup
from tidegate.model.values import Key, Record

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "EventListener",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "MapFunction",
    "MetricGroup",
    "OperatorStateStore",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TaskEventListener",
    "WindowContext",
    "WindowFunction",
]


class MapFunction(Function):
    """Turns each record into one record (PyFlink: ``MapFunction``)."""

    @abstractmethod
    def map(self, value: Record) -> Record:
        """Returns the record that is emitted for ``value``."""


class FlatMapFunction(Function):
    """Turns each record into any number of records (PyFlink: ``FlatMapFunction``)."""

    @abstractmethod
    def flat_map(self, value: Record) -> Iterable[Record] | None:
        """Yields or returns the records that are emitted for ``value``; ``None`` means none."""


class FilterFunction(Function):
    """Decides which records stay in the stream (PyFlink: ``FilterFunction``)."""

    @abstractmethod
    def filter(self, value: Record) -> bool:
        """Returns whether ``value`` stays."""


class KeySelector(Function):
    """Extracts the key of a record (PyFlink: ``KeySelector``). It must be deterministic: a record that is read again
    must have the same key."""

    @abstractmethod
    def get_key(self, value: Record) -> Key:
        """Returns the key of ``value``."""


class Partitioner(Function):
    """Chooses the subtask for a key in ``partition_custom`` (PyFlink: ``Partitioner``)."""

    @abstractmethod
    def partition(self, key: Key, num_partitions: int) -> int:
        """Returns the index of the subtask, from 0 to ``num_partitions - 1``."""


class CoMapFunction(Function):
    """Turns each record of two connected streams into one record (PyFlink: ``CoMapFunction``)."""

    @abstractmethod
    def map1(self, value: Record) -> Record:
        """Returns the record that is emitted for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Record) -> Record:
        """Returns the record that is emitted for a record of the second stream."""


class CoFlatMapFunction(Function):
    """Turns each record of two connected streams into any number of records (PyFlink: ``CoFlatMapFunction``)."""

    @abstractmethod
    def flat_map1(self, value: Record) -> Iterable[Record] | None:
        """Yields or returns the records that are emitted for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Record) -> Iterable[Record] | None:
        """Yields or returns the records that are emitted for a record of the second stream."""


class TimedContext(ABC):
    """The context of one record: its timestamp (``None`` when it has none) and the timer service."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Returns the record's event time in milliseconds since the epoch, or ``None`` when it has none."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Returns the service for time and timers."""


class KeyedContext(TimedContext):
    """The context of one record on a KeyedStream: timestamp, timers and the current key."""

    @abstractmethod
    def get_current_key(self) -> Key:
        """Returns the key of the record, or of the timer that fires."""


class KeyedTimerContext(KeyedContext):
    """The context of a timer that fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Returns whether the timer fires by event time or by the clock."""


class ProcessFunction(Function):
    """Handles each record with its timestamp, and may emit to side outputs (PyFlink: ``ProcessFunction``)."""

    Context: TypeAlias = TimedContext

    @abstractmethod
    def process_element(self, value: Record, ctx: TimedContext) -> Iterable[Record] | None:
        """Handles one record; yields or returns what is emitted. ``yield tag, value`` goes to a side output."""


class KeyedProcessFunction(Function):
    """Handles the records of a KeyedStream, with state and timers for each key (PyFlink: ``KeyedProcessFunction``).

    A function that counts the records of each key::

        class Count(KeyedProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                self.count.update((self.count.value() or 0) + 1)
                yield ctx.get_current_key(), self.count.value()
    """

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element(self, value: Record, ctx: KeyedContext) -> Iterable[Record] | None:
        """Handles one record; yields or returns what is emitted. ``yield tag, value`` goes to a side output."""

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Record] | None:
        """Handles a timer that was registered for ``timestamp``; yields or returns what is emitted."""
        return None


class CoProcessFunction(Function):
    """Handles the records of two connected streams (PyFlink: ``CoProcessFunction``). State and timers need both streams
    keyed; then the context knows the key, too."""

    Context: TypeAlias = TimedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element1(self, value: Record, ctx: TimedContext) -> Iterable[Record] | None:
        """Handles a record of the first stream; yields or returns what is emitted."""

    @abstractmethod
    def process_element2(self, value: Record, ctx: TimedContext) -> Iterable[Record] | None:
        """Handles a record of the second stream; yields or returns what is emitted."""

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Record] | None:
        """Handles a timer that was registered for ``timestamp`` (as in Flink's Java class; PyFlink's has no such method)."""
        return None


class KeyedCoProcessFunction(Function):
    """Handles the records of two keyed streams, which share state and timers of the key (PyFlink:
    ``KeyedCoProcessFunction``)."""

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element1(self, value: Record, ctx: KeyedContext) -> Iterable[Record] | None:
        """Handles a record of the first stream; yields or returns what is emitted."""

    @abstractmethod
    def process_element2(self, value: Record, ctx: KeyedContext) -> Iterable[Record] | None:
        """Handles a record of the second stream; yields or returns what is emitted."""

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Record] | None:
        """Handles a timer that was registered for ``timestamp``; yields or returns what is emitted."""
        return None
