"""Windows of record functions (Flink: ``WindowOperator.java``), for assigners that do not merge windows.

    record ─▶ assigner ─▶ windows ─▶ state of (key, window) ─▶ trigger ─┬─ CONTINUE
                             └ all late: side output, or counted        ├─ FIRE   ─▶ function ─▶ emitted at max_timestamp()
    timer  ─▶ trigger ──────────────────────────────────────────────────┴─ PURGE  ─▶ contents are gone
    cleanup timer (end + allowed lateness) ─▶ contents, window state and the trigger's timers are gone

``reduce`` and ``aggregate`` keep one value for each key and window; ``process`` keeps all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskmanager.operators.base import OperatorContext
from taskmanager.operators.keyed import KeyedOperator
from taskmanager.operators.user_code import FunctionContext, close_function, open_function, user_error
from taskmanager.operators.user_function import FunctionOperatorBase, UserFunction
from taskmanager.operators.window_contents import open_contents
from taskmanager.operators.window_contexts import FiringContext, TriggerCall
from taskmanager.state.handles import StateStore
from taskmanager.state.layers import detached
from taskmanager.state.timers import Timer
from tidegate.common.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, Batch, RecordsBatch
from tidegate.common.typeinfo import ListTypeInfo, TypeInformation, Types
from tidegate.datastream.time_domain import TimeDomain
from tidegate.datastream.window import Trigger, TriggerResult, WindowAssigner
from tidegate.model.program import KeySpec

LATE_RECORDS = "numLateRecordsDropped"


class WindowOperator(FunctionOperatorBase, KeyedOperator):
    def __init__(
        self,
        name: str,
        key: KeySpec,
        input_type: TypeInformation,
        *,
        assigner: WindowAssigner,
        trigger: Trigger | None,
        function: Sequence[Any],
        allowed_lateness_ms: int = 0,
        late_tag: str | None = None,
        accumulator_type: TypeInformation | None = None,
    ) -> None:
        """``function``: (``reduce`` | ``aggregate`` | ``process``, function[, process function])."""
        super().__init__(name, [key])
        self._assigner = assigner
        self._trigger = trigger if trigger is not None else assigner.get_default_trigger()
        self._lateness_ms = allowed_lateness_ms
        self._late_tag = late_tag
        kind, self._function = function[0], function[1]
        self._process: Any = function[2] if len(function) > 2 else self._function if kind == "process" else None
        self._kind = kind
        self._user = UserFunction(self._process or self._function, name)
        self._type: TypeInformation = {
            "reduce": input_type,
            "aggregate": accumulator_type or Types.PICKLED_BYTE_ARRAY(),
            "process": ListTypeInfo(input_type),
        }[kind]
        self._is_event_time = assigner.is_event_time()

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._contents = open_contents(self._kind, self._function, self._backend, self._type)
        store = StateStore(self._backend)
        self._firing = FiringContext(
            self._timers, self._backend, StateStore(self._backend, windowed=True, prefix="window."), store
        )
        trigger_store = StateStore(self._backend, windowed=True, prefix="trigger.")
        self._calls = TriggerCall(self._timers, trigger_store, context.clock)

    def open(self) -> None:
        store = StateStore(self._backend)
        if self._has_two_functions:
            open_function(self._function, self.context, FunctionContext(self.context, store))
        self._user.open(self.context, store)
        super().open()

    def close(self) -> None:
        try:
            self._user.close()
            if self._has_two_functions:
                close_function(self._function, self._name)
        finally:
            super().close()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        for value, stamp in self._keyed_records(batch, input_index):
            try:
                self._take(value, stamp)
            except Exception as error:
                raise user_error(self._name, error) from error
            if self._collector.is_full():
                self._collector.flush()
        self._collector.flush()
        self._schedule()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        window = timer.namespace
        self._enter(window)
        is_event = domain is TimeDomain.EVENT_TIME
        is_cleanup = is_event is self._is_event_time and timer.timestamp == self._cleanup_time(window)
        try:
            if not self._contents.is_empty(timer.group, (timer.key, window)):
                call = self._trigger.on_event_time if is_event else self._trigger.on_processing_time
                self._obey(call(timer.timestamp, window, self._calls), window)
            if is_cleanup:
                self._forget(window)
        except Exception as error:
            raise user_error(self._name, error) from error

    def _take(self, value: Any, stamp: int | None) -> None:
        windows = self._assigner.assign_windows(value, MIN_TIMESTAMP if stamp is None else stamp, self._calls)
        backend, is_late = self._backend, True
        for window in windows:
            if self._is_over(window):
                continue
            is_late = False
            self._enter(window)
            self._contents.add(backend.group, (backend.key, window), value)
            self._obey(self._trigger.on_element(value, stamp or 0, window, self._calls), window)
            self._register_cleanup(window)
        if is_late and windows:
            if self._late_tag is not None:
                self._collector.add_late(self._late_tag, value, stamp)
            else:
                self.context.metrics.add(LATE_RECORDS)

    def _obey(self, decision: TriggerResult, window: Any) -> None:
        backend = self._backend
        entry = (backend.key, window)
        if decision.is_fire():
            for result in self._contents.results(backend.group, entry):
                self._emit(detached(result), window)
        if decision.is_purge():
            self._contents.clear(backend.group, entry)

    def _emit(self, result: Any, window: Any) -> None:
        stamp = window.max_timestamp()
        if self._process is None:
            self._collector.add_all((result,), stamp)
        else:
            elements = result if self._kind == "process" else [result]
            self._firing.current = window
            self._collector.add_all(self._process.process(self._backend.key, self._firing, elements), stamp)

    def _forget(self, window: Any) -> None:
        self._contents.clear(self._backend.group, (self._backend.key, window))
        self._trigger.clear(window, self._calls)
        if self._process is not None:
            self._firing.current = window
            self._process.clear(self._firing)

    def _enter(self, window: Any) -> None:
        self._backend.namespace = window
        self._timers.namespace = window

    def _is_over(self, window: Any) -> bool:
        return self._is_event_time and self._cleanup_time(window) <= self._timers.watermark

    def _cleanup_time(self, window: Any) -> int:
        end: int = window.max_timestamp()
        return min(end + self._lateness_ms, MAX_TIMESTAMP) if self._is_event_time else end

    def _register_cleanup(self, window: Any) -> None:
        at_ms = self._cleanup_time(window)
        if at_ms == MAX_TIMESTAMP:
            return
        if self._is_event_time:
            self._timers.register_event_time_timer(at_ms)
        else:
            self._timers.register_processing_time_timer(at_ms)

    @property
    def _has_two_functions(self) -> bool:
        """``_function`` fills the window, and ``_process`` looks at it."""
        return self._process is not None and self._process is not self._function
