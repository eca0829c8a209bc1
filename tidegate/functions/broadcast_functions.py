"""Functions of a stream beside a broadcast one (PyFlink: ``pyflink.datastream.functions``, which re-exports them).

    records    ─▶ process_element            reads broadcast state; keyed state and timers if the stream has keys
    broadcast  ─▶ process_broadcast_element  changes broadcast state, in every subtask alike

Every subtask sees all broadcast elements, but each in an order of its own when they come from several producers: what a
subtask makes of its copy must not depend on that order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from tidegate.functions.base import Function
from tidegate.functions.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.timerservice import TimerService

__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedStateFunction",
]

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class KeyedStateFunction(ABC):
    """What ``apply_to_keyed_state`` calls for each key (Flink: ``KeyedStateFunction.java``)."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None: ...


class BaseBroadcastProcessFunction(Function):
    """What both kinds share: their contexts."""

    class BaseContext(ABC):
        @abstractmethod
        def timestamp(self) -> int | None:
            """Of the element or timer, ms; ``None`` when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

    class Context(BaseContext):
        """Of the broadcast side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Raises ``InvalidJob`` for a state that ``broadcast`` was not given."""

    class ReadOnlyContext(BaseContext):
        """Of the other side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Raises ``InvalidJob`` for a state that ``broadcast`` was not given. What it holds must not be changed."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """For ``data_stream.connect(broadcast_stream)``."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Of the other side."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[Any] | None: ...


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """For ``keyed_stream.connect(broadcast_stream)``. The broadcast side has no current key: keyed state is reached there
    by ``ctx.apply_to_keyed_state`` alone."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Of the broadcast side."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], object]
        ) -> None:
            """Calls ``function(key, state)`` for every key of this subtask that has such state (Flink:
            ``KeyedBroadcastProcessFunction.Context.applyToKeyedState``; PyFlink has none)."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Of the keyed side."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    class OnTimerContext(ReadOnlyContext, ABC):
        """Of a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """A timer registered for ``timestamp`` fires."""
        return None
