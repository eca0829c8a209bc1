"""Windows, their assigners and triggers (PyFlink: ``pyflink.datastream.window``).

An assigner says which windows a record belongs to; a trigger says when a window fires. Times are ms since the epoch;
a window holds ``start <= t < end`` and fires when the watermark reaches ``max_timestamp()``, which is ``end - 1``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from tidegate.common.time import Duration, Time, to_millis
from tidegate.model.errors import InvalidJob

__all__ = [
    "EventTimeTrigger",
    "ProcessingTimeTrigger",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]

_MIN_TIMESTAMP = -(2**63)


class Window(ABC):
    """A group of records of one key."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that still belongs to it."""


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow(Window):
    start: int
    end: int

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether they overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the tumbling window that holds ``timestamp``, also before the epoch."""
        return timestamp - (timestamp - offset) % window_size


class TriggerResult(Enum):
    """(fire, purge)"""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class TriggerScope(Protocol):
    """What a trigger may touch: time, timers of this key and window, and state."""

    def get_current_processing_time(self) -> int: ...

    def get_current_watermark(self) -> int: ...

    def register_processing_time_timer(self, time: int) -> None: ...

    def register_event_time_timer(self, time: int) -> None: ...

    def delete_processing_time_timer(self, time: int) -> None: ...

    def delete_event_time_timer(self, time: int) -> None: ...

    def get_partitioned_state(self, state_descriptor: Any) -> Any: ...


class AssignerScope(Protocol):
    def get_current_processing_time(self) -> int: ...


class Trigger(ABC):
    """Decides when a window fires."""

    TriggerContext: TypeAlias = TriggerScope

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerScope) -> TriggerResult: ...

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult: ...

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult: ...

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerScope) -> None:
        """The window is gone: delete its timers."""

    def can_merge(self) -> bool:
        return False


class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and for each late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: TriggerScope) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: TriggerScope) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class WindowAssigner(ABC):
    """Gives each record its windows."""

    WindowAssignerContext: TypeAlias = AssignerScope

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, context: AssignerScope) -> Collection[Any]: ...

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger: ...

    @abstractmethod
    def is_event_time(self) -> bool: ...


class _TimeWindows(WindowAssigner):
    """Base of the assigners by time: windows of ``size_ms``, one each ``slide_ms``, shifted by ``offset_ms``."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or slide <= 0:
            raise InvalidJob(
                f"{type(self).__name__}: size and slide must be positive (size {size} ms, slide {slide} ms)"
            )
        if abs(offset) >= slide:
            raise InvalidJob(f"{type(self).__name__}: the offset {offset} ms must be smaller than {slide} ms")
        self.size_ms = size
        self.slide_ms = slide
        self.offset_ms = offset

    def _windows_of(self, timestamp: int) -> list[TimeWindow]:
        last = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.slide_ms)
        starts = range(last, timestamp - self.size_ms, -self.slide_ms)
        return [TimeWindow(start, start + self.size_ms) for start in starts]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class _EventTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        if timestamp is None or timestamp == _MIN_TIMESTAMP:
            raise InvalidJob(
                "a record without a timestamp came to an event-time window: "
                "give the stream a WatermarkStrategy with a timestamp assigner before the window"
            )
        return self._windows_of(timestamp)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        return self._windows_of(context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


Length = Time | Duration | int
"""What an assigner takes as a length of time; a number is ms."""


class TumblingEventTimeWindows(_EventTimeWindows):
    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        return TumblingEventTimeWindows(to_millis(size), to_millis(offset or 0))


class TumblingProcessingTimeWindows(_ProcessingTimeWindows):
    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        return TumblingProcessingTimeWindows(to_millis(size), to_millis(offset or 0))


class SlidingEventTimeWindows(_EventTimeWindows):
    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        return SlidingEventTimeWindows(to_millis(size), to_millis(slide), to_millis(offset or 0))


class SlidingProcessingTimeWindows(_ProcessingTimeWindows):
    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        return SlidingProcessingTimeWindows(to_millis(size), to_millis(slide), to_millis(offset or 0))
