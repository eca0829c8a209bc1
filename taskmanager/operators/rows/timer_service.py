"""The timer service and the contexts of records, timers and windows for user functions."""

from __future__ import annotations

from tidegate.functions.interfaces import KeyedTimerContext, TimedContext
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.timerservice import TimerService
from tidegate.model.channel_events import NO_WATERMARK
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key
from tidegate.model.whole_numbers import MAX_INT64, MIN_INT64, whole_number
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.timer_queue import KeyedTimerQueue
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from tidegate.taskmanager.operators.operator import OperatorContext


class UnkeyedTimers(TimerService):
    """The timer service of functions without keys: it has the time, but refuses timers."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self.watermark = NO_WATERMARK

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def _refuse(self) -> None:
        raise InvalidJob(
            f"operator '{self._context.operator_name}': timers belong to keys: put key_by before this function"
        )


class KeyedTimers(UnkeyedTimers):
    """The timers of the current key. ``namespace``: the window that they are for, if any."""

    def __init__(self, context: OperatorContext, backend: KeyedBackend) -> None:
        super().__init__(context)
        self.event = KeyedTimerQueue(backend, EVENT_TIMERS)
        self.processing = KeyedTimerQueue(backend, PROCESSING_TIMERS)
        self.namespace: Namespace = None
        self.is_quiesced = False
        """Whether new timers are ignored."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        if self.is_quiesced:
            return
        self.processing.register(self._checked(timestamp, "register_processing_time_timer"), self.namespace)

    def register_event_time_timer(self, timestamp: int) -> None:
        if self.is_quiesced:
            return
        self.event.register(self._checked(timestamp, "register_event_time_timer"), self.namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.processing.delete(self._checked(timestamp, "delete_processing_time_timer"), self.namespace)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.event.delete(self._checked(timestamp, "delete_event_time_timer"), self.namespace)

    def _checked(self, timestamp: int, call: str) -> int:
        """Returns the timestamp as an integer of 64 bits. Raises ``InvalidJob`` if it is none."""
        if timestamp.__class__ is int and MIN_INT64 <= timestamp <= MAX_INT64:
            return timestamp
        return whole_number(timestamp, f"operator '{self._context.operator_name}': {call}")


class RecordContext(TimedContext):
    """The context of a record, one object for all records of an operator: ``stamp`` is set before each call."""

    def __init__(self, timers: TimerService) -> None:
        self.stamp: int | None = None
        self._timers = timers

    def timestamp(self) -> int | None:
        return self.stamp

    def timer_service(self) -> TimerService:
        return self._timers


class KeyContext(RecordContext, KeyedTimerContext):
    """The context of a record or timer with its key. ``domain`` is set before ``on_timer`` is called."""

    def __init__(self, timers: TimerService, backend: KeyedBackend) -> None:
        super().__init__(timers)
        self.domain = TimeDomain.EVENT_TIME
        self._backend = backend

    def get_current_key(self) -> Key:
        return value_of(self._backend.key)

    def time_domain(self) -> TimeDomain:
        return self.domain
