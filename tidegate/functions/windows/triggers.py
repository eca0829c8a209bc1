"""Triggers, which decide when a window fires (Flink: ``org.apache.flink.streaming.api.windowing.triggers``).

    record ─▶ on_element ─┐
    timer  ─▶ on_*_time  ─┴▶ CONTINUE │ FIRE (the function sees the window) │ PURGE (it is emptied) │ FIRE_AND_PURGE
    windows become one ─▶ on_merge (the new one) ─▶ clear (each old one)      the window is gone ─▶ clear

A trigger keeps nothing in itself, for it is the same object for all keys and windows: what it must remember is state of the
key and window (``ctx.get_partitioned_state``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar

from tidegate.common.time import Duration, Time
from tidegate.common.typeinfo import Types
from tidegate.functions.state import ReducingState, ReducingStateDescriptor, StateDescriptor
from tidegate.functions.windows.windows import TimeWindow, Window
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, Record
from tidegate.model.whole_numbers import whole_number
from tidegate.records.time import to_millis

T = TypeVar("T")
W = TypeVar("W")

Length = Time | Duration | int
"""A length of time; a number is ms."""


class TriggerResult(Enum):
    """The decision of a trigger: whether the window fires and whether it is purged (PyFlink: ``TriggerResult``)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Returns whether the window function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Returns whether the window is purged."""
        return self.value[1]


_CONTINUE, _FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class TriggerScope(Protocol):
    """The context of a trigger: time, timers and state of this key and window."""

    def get_current_processing_time(self) -> int:
        """Returns the clock's time in milliseconds since the epoch."""

    def get_metric_group(self) -> Record:
        """Returns the group in which the trigger registers metrics."""

    def get_current_watermark(self) -> int:
        """Returns the operator's watermark in milliseconds since the epoch."""

    def register_processing_time_timer(self, time: int) -> None:
        """Registers a timer that calls ``on_processing_time`` for this key and window when the clock reaches ``time``."""

    def register_event_time_timer(self, time: int) -> None:
        """Registers a timer that calls ``on_event_time`` for this key and window when the watermark reaches ``time``."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Deletes the timer of this key and window at ``time``, if there is one."""

    def delete_event_time_timer(self, time: int) -> None:
        """Deletes the timer of this key and window at ``time``, if there is one."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Record:
        """Returns the state of this key and window."""


class MergeScope(TriggerScope, Protocol):
    """The context of ``on_merge``, which can also merge the state of the old windows into that of the new one."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merges the state of the merged windows into that of the new one. For list, reducing and aggregating state."""


class Trigger(ABC, Generic[T, W]):
    """Decides when a window fires (PyFlink: ``Trigger``)."""

    TriggerContext: TypeAlias = TriggerScope
    OnMergeContext: TypeAlias = MergeScope

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerScope) -> TriggerResult:
        """Decides what happens when a record enters the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerScope) -> TriggerResult:
        """Decides what happens when a timer of the clock fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerScope) -> TriggerResult:
        """Decides what happens when a timer of event time fires."""

    def can_merge(self) -> bool:
        """Returns whether it can be used with merging windows; ``on_merge`` must then be implemented."""
        return False

    def on_merge(self, window: W, ctx: MergeScope) -> None:
        """Handles the merge of windows to ``window``: registers its timers and merges state. The old windows are cleared afterwards."""
        raise InvalidJob(f"{type(self).__name__} returns True from can_merge(), but does not define on_merge()")

    @abstractmethod
    def clear(self, window: W, ctx: TriggerScope) -> None:
        """Deletes the timers and state of a window that has ended."""


class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for each late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger[Record]:
        """Creates the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Record, timestamp: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return _CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return _FIRE if time == window.max_timestamp() else _CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeScope) -> None:
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerScope) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[Record]:
        """Creates the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Record, timestamp: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return _CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return _FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeScope) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerScope) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _ContinuousTrigger(Trigger[T, Window]):
    """Fires repeatedly; the next time of a window is in its state ``fire-time``."""

    def __init__(self, interval: Length) -> None:
        interval_ms = to_millis(interval, f"{type(self).__name__}: the interval in ms")
        if interval_ms <= 0:
            raise InvalidJob(f"{type(self).__name__}: the interval must be positive, not {interval_ms} ms")
        self.interval = interval_ms
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @abstractmethod
    def _register(self, ctx: TriggerScope, time: int) -> None: ...

    @abstractmethod
    def _delete(self, ctx: TriggerScope, time: int) -> None: ...

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: MergeScope) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        at = ctx.get_partitioned_state(self.state_desc).get()
        if at is not None:
            self._register(ctx, at)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        at = state.get()
        if at is not None:
            self._delete(ctx, at)
            state.clear()

    def _first(self, timestamp: int, window: Window, ctx: TriggerScope) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, state)

    def _is_due(self, time: int, window: Window, ctx: TriggerScope) -> bool:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return False
        state.clear()
        if time < window.max_timestamp():  # behind the end nothing is due until the next record comes
            self.register_next_fire_timestamp(time, window, ctx, state)
        return True

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: TriggerScope, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Registers the next firing: an interval after ``time``, or at the window's end if that comes first (at once, if it has passed)."""
        at = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(at)
        self._register(ctx, at)


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the watermark has advanced by the interval, and at the end of the window."""

    @staticmethod
    def of(interval: Length) -> ContinuousEventTimeTrigger[Record]:
        """Creates a trigger that fires every ``interval`` of event time."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: Record, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._first(timestamp, window, ctx)
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        is_due = time == window.max_timestamp() or self._is_due(time, window, ctx)
        return _FIRE if is_due else _CONTINUE

    def on_merge(self, window: Window, ctx: MergeScope) -> None:
        super().on_merge(window, ctx)
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())

    def _register(self, ctx: TriggerScope, time: int) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, ctx: TriggerScope, time: int) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the clock has advanced by the interval, and at the end of the window. Records of an event-time window whose end has passed by the
    clock, as in a replay, fire at once, possibly together.

    Flink's fires such a window again and again in PyFlink, and only once in Java, where what comes later is lost."""

    @staticmethod
    def of(interval: Length) -> ContinuousProcessingTimeTrigger[Record]:
        """Creates a trigger that fires every ``interval`` by the clock."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: Record, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        self._first(ctx.get_current_processing_time(), window, ctx)
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _FIRE if self._is_due(time, window, ctx) else _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fires before an event-time window ends if a processing-time firing is due whose timer has not fired yet."""
        at = ctx.get_partitioned_state(self.state_desc).get()
        if at is None or at > ctx.get_current_processing_time():
            return _CONTINUE
        self.clear(window, ctx)
        return _FIRE

    def _register(self, ctx: TriggerScope, time: int) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, ctx: TriggerScope, time: int) -> None:
        ctx.delete_processing_time_timer(time)


class CountTrigger(Trigger[T, Window]):
    """Fires with every ``window_size``-th record of a window."""

    def __init__(self, window_size: int) -> None:
        window_size = whole_number(window_size, "CountTrigger: the number of records")
        if window_size <= 0:
            raise InvalidJob(f"CountTrigger: the number of records must be positive, not {window_size}")
        self.window_size = window_size
        self._count = ReducingStateDescriptor("count", _sum, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Record]:
        """Creates a trigger that fires with every ``window_size``-th record."""
        return CountTrigger(window_size)

    def on_element(self, element: Record, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self.window_size:
            return _CONTINUE
        count.clear()
        return _FIRE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: MergeScope) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        ctx.get_partitioned_state(self._count).clear()


class NeverTrigger(Trigger[T, Window]):
    """Never fires: the default trigger of global windows."""

    def on_element(self, element: Record, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _CONTINUE

    def on_merge(self, window: Window, ctx: MergeScope) -> None:
        """Does nothing."""

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Does nothing."""


class PurgingTrigger(Trigger[T, Window]):
    """Follows another trigger, and purges the window whenever that fires (PyFlink: ``PurgingTrigger``)."""

    def __init__(self, nested_trigger: Trigger[Record, AssignedWindow]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise InvalidJob(f"PurgingTrigger needs a Trigger, not {nested_trigger!r}")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Record, AssignedWindow]) -> PurgingTrigger[Record]:
        """Creates a trigger that purges wherever ``nested_trigger`` fires."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Record, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: MergeScope) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(decision: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if decision.is_fire() else decision


def _sum(a: int, b: int) -> int:
    return a + b
