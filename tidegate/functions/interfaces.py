"""The functions that a user writes, and the contexts that they are given (PyFlink: ``pyflink.datastream.functions``).

A function is pickled by the client and lives in one subtask: ``open(runtime_context)`` first, ``close()`` last. What it
emits it yields (or returns as an iterable); ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from tidegate.functions.async_functions import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from tidegate.functions.base import Function, KeyedStateStore, RuntimeContext
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
    "WindowContext",
    "WindowFunction",
]


class MapFunction(Function):
    @abstractmethod
    def map(self, value: Any) -> Any: ...


class FlatMapFunction(Function):
    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None: ...


class FilterFunction(Function):
    @abstractmethod
    def filter(self, value: Any) -> bool: ...


class ReduceFunction(Function):
    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any: ...


class AggregateFunction(Function):
    """An accumulator per key and window: ``create_accumulator``, ``add`` each record, ``get_result``."""

    @abstractmethod
    def create_accumulator(self) -> Any: ...

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any: ...

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any: ...

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any: ...


class KeySelector(Function):
    """A deterministic key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any: ...


class Partitioner(Function):
    """For ``partition_custom``: the subtask for a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """From 0 to ``num_partitions - 1``."""


class CoMapFunction(Function):
    @abstractmethod
    def map1(self, value: Any) -> Any: ...

    @abstractmethod
    def map2(self, value: Any) -> Any: ...


class CoFlatMapFunction(Function):
    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None: ...

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None: ...


class TimedContext(ABC):
    """The context of one record: its timestamp (``None`` when it has none) and the timer service."""

    @abstractmethod
    def timestamp(self) -> int | None: ...

    @abstractmethod
    def timer_service(self) -> TimerService: ...


class KeyedContext(TimedContext):
    @abstractmethod
    def get_current_key(self) -> Any: ...


class KeyedTimerContext(KeyedContext):
    """The context of a timer that fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain: ...


class ProcessFunction(Function):
    Context: TypeAlias = TimedContext

    @abstractmethod
    def process_element(self, value: Any, ctx: TimedContext) -> Iterable[Any] | None: ...


class KeyedProcessFunction(Function):
    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any] | None:
        """A timer registered for ``timestamp`` fires."""
        return None


class CoProcessFunction(Function):
    """State and timers need keys: both streams keyed. Then the context knows the key, too."""

    Context: TypeAlias = TimedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: TimedContext) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: TimedContext) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any] | None:
        """A timer registered for ``timestamp`` fires (as in Flink's Java class; PyFlink's has no such method)."""
        return None


class KeyedCoProcessFunction(Function):
    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = KeyedTimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: KeyedTimerContext) -> Iterable[Any] | None:
        """A timer registered for ``timestamp`` fires."""
        return None
