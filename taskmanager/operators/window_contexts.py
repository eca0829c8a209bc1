"""What triggers, assigners and window functions may touch."""

from __future__ import annotations

from typing import Any

from taskmanager.operators.base import Clock
from taskmanager.operators.times import KeyedTimers
from taskmanager.state.backend import KeyedBackend
from taskmanager.state.handles import StateStore
from tidegate.datastream.functions import KeyedStateStore, WindowContext
from tidegate.datastream.state import StateDescriptor


class TriggerCall:
    """Context of triggers and assigners: time, and timers and state of the current key and window."""

    def __init__(self, timers: KeyedTimers, store: StateStore, clock: Clock) -> None:
        self._timers = timers
        self._store = store
        self._clock = clock

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms()

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._store.of(state_descriptor)


class FiringContext(WindowContext[Any]):
    """Context of a ``ProcessWindowFunction``: ``current`` is set before each call."""

    def __init__(
        self, timers: KeyedTimers, backend: KeyedBackend, window_store: StateStore, global_store: StateStore
    ) -> None:
        self.current: Any = None
        self._timers = timers
        self._backend = backend
        self._window_store = window_store
        self._global_store = global_store

    def window(self) -> Any:
        return self.current

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        return self._window_store

    def global_state(self) -> KeyedStateStore:
        return self._global_store
