"""The contexts of triggers, assigners, evictors and window functions."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.functions.interfaces import KeyedStateStore, RuntimeContext, WindowContext
from tidegate.functions.state import StateDescriptor
from tidegate.metrics import MetricGroup
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.operators.operator import Clock
from tidegate.taskmanager.operators.rows.timer_service import KeyedTimers
from tidegate.taskmanager.operators.user_code.boundary import FunctionContext


class TriggerCall:
    """The context of triggers, assigners and evictors: time, and timers and state of the current key and window.

    ``store``: state of the window; ``runtime``: of the operator. ``merged``, set before ``on_merge``: the namespaces of the windows that were merged.
    """

    def __init__(self, timers: KeyedTimers, store: StateStore, runtime: FunctionContext, clock: Clock) -> None:
        self.merged: Sequence[Namespace] = ()
        self.register_processing_time_timer = timers.register_processing_time_timer
        self.register_event_time_timer = timers.register_event_time_timer
        self.delete_processing_time_timer = timers.delete_processing_time_timer
        self.delete_event_time_timer = timers.delete_event_time_timer
        self.get_current_processing_time = clock.now_ms
        self._timers = timers
        self._store = store
        self._runtime = runtime

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def get_metric_group(self) -> MetricGroup:
        return self._runtime.get_metrics_group()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> AssignedWindow:
        return self._store.of(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self._store.of(state_descriptor)
        if not hasattr(state, "merge_namespaces"):
            raise InvalidJob(
                f"state '{state_descriptor.name}' of a trigger cannot be merged: windows that merge need list, reducing or "
                "aggregating state without a time-to-live"
            )
        state.merge_namespaces(self.merged)


class FiringContext(WindowContext[AssignedWindow]):
    """The context of a ``ProcessWindowFunction``. ``current`` is set before each call."""

    def __init__(
        self, timers: KeyedTimers, backend: KeyedBackend, window_store: StateStore | None, global_store: StateStore
    ) -> None:
        """Connects the context to timers and state. ``window_store``: ``None`` where windows merge, since their state would have to be merged too."""
        self.current: AssignedWindow = None
        self._timers = timers
        self._backend = backend
        self._window_store = window_store
        self._global_store = global_store

    def window(self) -> AssignedWindow:
        return self.current

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        if self._window_store is None:
            raise InvalidJob(
                "window_state() is not available in windows that merge, such as sessions: use global_state()"
            )
        return self._window_store

    def global_state(self) -> KeyedStateStore:
        return self._global_store
