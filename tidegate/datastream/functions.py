"""The functions that a user writes, and the contexts that they are given (PyFlink: ``pyflink.datastream.functions``).

A function is pickled by the client and lives in one subtask: ``open(runtime_context)`` first, ``close()`` last. What it
emits it yields (or returns as an iterable); ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tidegate.datastream.checkpointed_function import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
)
from tidegate.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from tidegate.datastream.time_domain import TimeDomain
from tidegate.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "KeySelector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "MetricGroup",
    "OperatorStateStore",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "WindowFunction",
]

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")


class Counter(Protocol):
    """A metric that counts."""

    def inc(self, n: int = 1) -> None: ...

    def dec(self, n: int = 1) -> None: ...

    def get_count(self) -> int: ...


class MetricGroup(Protocol):
    """Where a function registers metrics of its own."""

    def counter(self, name: str) -> Counter: ...


class KeyedStateStore(ABC):
    """State of the current key, by descriptor."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]: ...

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]: ...

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]: ...

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]: ...

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]: ...


class RuntimeContext(KeyedStateStore):
    """What ``open`` is given. State may be asked for in functions on a KeyedStream only."""

    @abstractmethod
    def get_task_name(self) -> str: ...

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_index_of_this_subtask(self) -> int: ...

    @abstractmethod
    def get_attempt_number(self) -> int: ...

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str: ...

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str: ...

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup: ...


class Function(ABC):  # noqa: B024  (its methods are hooks)
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027  (optional hook)
        """Before the first record, in the subtask."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """After the last record, also when the subtask failed."""


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
    Context: TypeAlias = TimedContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: TimedContext) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: TimedContext) -> Iterable[Any] | None: ...


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


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Sees all that a window holds for one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]: ...


class WindowContext(ABC, Generic[W]):
    """The context of a window that fires."""

    @abstractmethod
    def window(self) -> W: ...

    @abstractmethod
    def current_processing_time(self) -> int: ...

    @abstractmethod
    def current_watermark(self) -> int: ...

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, in all windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Like WindowFunction, with a context."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: KEY, context: WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]: ...

    def clear(self, context: WindowContext[W]) -> None:
        """The window is purged: clear what was kept in ``window_state``."""
