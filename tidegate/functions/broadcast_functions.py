"""Functions of a stream that is connected to a broadcast stream (PyFlink: ``pyflink.datastream.functions``, which re-exports them).

    records    ─▶ process_element            reads broadcast state; keyed state and timers if the stream has keys
    broadcast  ─▶ process_broadcast_element  changes broadcast state, in every subtask alike

Every subtask sees all broadcast elements, but each in an order of its own when they come from several producers: what a
subtask makes of its copy must not depend on that order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tidegate.functions.base import Function
from tidegate.functions.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.timerservice import TimerService
from tidegate.model.values import Key, MapKey, Record, StateValue

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
    """A function that ``apply_to_keyed_state`` calls for each key (Flink: ``KeyedStateFunction.java``)."""

    @abstractmethod
    def process(self, key: Key, state: StateValue) -> None:
        """Handles the state of one key."""


class BaseBroadcastProcessFunction(Function):
    """The base class of broadcast functions, with their contexts."""

    class BaseContext(ABC):
        """The timestamp of a record, and the operator's current time."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the event time of the element or timer in milliseconds, or ``None`` when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the clock's time in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the operator's watermark in milliseconds since the epoch."""

    class Context(BaseContext):
        """The context of a record of the broadcast stream."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[MapKey, StateValue]:
            """Returns a broadcast state. Raises ``InvalidJob`` for a descriptor that was not passed to ``broadcast``."""

    class ReadOnlyContext(BaseContext):
        """Returns a broadcast state, which must not be changed here. Raises ``InvalidJob`` for a descriptor that was not passed to ``broadcast``."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[MapKey, StateValue]:
            """Returns a broadcast state, which must not be changed here. Raises ``InvalidJob`` for a descriptor that
            ``broadcast`` did not get."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Handles a stream that is connected to a broadcast stream: ``data_stream.connect(broadcast_stream)`` (PyFlink: ``BroadcastProcessFunction``)."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of a record of the broadcast stream."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Returns a broadcast state, which must not be changed here. Raises ``InvalidJob`` for a descriptor that was not passed to ``broadcast``."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[Record] | None:
        """Handles a record of the stream that is not broadcast; it may read broadcast state."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[Record] | None:
        """Handles a record of the broadcast stream; it may change broadcast state, in every subtask in the same way."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Handles a keyed stream that is connected to a broadcast stream: ``keyed_stream.connect(broadcast_stream)``. The broadcast side has no current
    key: it reaches keyed state only by ``ctx.apply_to_keyed_state``."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of a record of the broadcast stream."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Key, StateValue], object]
        ) -> None:
            """Calls ``function(key, state)`` for every key of this subtask that has such state (Flink:
            ``KeyedBroadcastProcessFunction.Context.applyToKeyedState``; PyFlink has none)."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of a record of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the service for time and timers."""

        @abstractmethod
        def get_current_key(self) -> Key:
            """Returns the key of the record, or of the timer that fires."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """The context of a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns whether the timer fires by event time or by the clock."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[Record] | None:
        """Handles a record of the keyed stream; it may use keyed state and read broadcast state."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[Record] | None:
        """Handles a record of the broadcast stream; it may change broadcast state, in every subtask in the same way."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Record] | None:
        """Handles a timer that was registered for ``timestamp``; yields or returns what is emitted."""
        return None
