"""The operator of windows of record functions (Flink: ``WindowOperator.java``, ``EvictingWindowOperator.java``); those that merge are in ``sessions``.

    record ─▶ assigner ─▶ windows ─▶ state of (key, window) ─▶ trigger ─┬─ CONTINUE
                             └ all late: side output, or counted        ├─ FIRE   ─▶ evictor ─▶ function ─▶ emitted at max_timestamp()
    timer  ─▶ trigger ──────────────────────────────────────────────────┴─ PURGE  ─▶ contents are gone
    cleanup timer (end + allowed lateness) ─▶ contents, window state and the trigger's timers are gone

``reduce`` and ``aggregate`` keep one value for each key and window; ``process``, and every window with an evictor, keep all records. The namespace of a
window's state and timers is the window; that of a global window is ``None``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.common.typeinfo import TypeInformation
from tidegate.functions.time_domain import TimeDomain
from tidegate.functions.windows import (  # fmt: skip
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    ProcessingTimeTrigger,
    TimestampedValue,
    TimeWindow,
    TriggerResult,
    WindowAssigner,
)
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.model.values import Accumulated, AssignedWindow, Record, UserObject
from tidegate.model.whole_numbers import whole_number
from tidegate.operator_options import WindowOptions
from tidegate.records.batch import MIN_TIMESTAMP, Batch, RecordsBatch
from tidegate.records.canonical.forms import value_of
from tidegate.records.record_copy import record_copy
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.user_code.boundary import (
    FunctionContext,
    close_function,
    open_function,
    timer_error,
    user_error,
)
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction
from tidegate.taskmanager.windows.rows.contents import contents_type, fold_of, open_contents
from tidegate.taskmanager.windows.rows.contexts import FiringContext, TriggerCall

LATE_RECORDS = "numLateRecordsDropped"

TRIGGER_STATES = "trigger."
"""Prefix of the names of a trigger's states."""


def _is_ours(assigner: WindowAssigner[Record, AssignedWindow]) -> bool:
    """Tells whether the bounds of an assigner's windows are surely whole numbers, since its own were checked when it was made."""
    if isinstance(assigner, (DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows)):
        return False
    return type(assigner).assign_windows.__module__.startswith("tidegate.functions.windows.")


class WindowOperator(FunctionOperatorBase, KeyedOperator):
    """Assigns records to windows and fires them by a trigger (Flink: ``WindowOperator.java``, ``EvictingWindowOperator.java``)."""

    _merges = False

    def __init__(self, name: str, key: KeySpec, input_type: TypeInformation, options: WindowOptions) -> None:
        super().__init__(name, [key])
        assigner, trigger = options.assigner, options.trigger
        self._assigner = assigner
        self._assign = assigner.assign_windows if _is_ours(assigner) else self._assign_checked
        self._trigger = trigger if trigger is not None else assigner.get_default_trigger(None)
        self._evictor = options.evictor
        self._lateness_ms = options.allowed_lateness_ms
        self._late_tag = options.late_tag
        kind, self._function, *more = options.function
        self._process: UserObject = more[0] if more else self._function if kind == "process" else None
        self._kind = kind
        self._user = UserFunction(self._process or self._function, name)
        is_timed = self._evictor is not None
        self._held_kind, self._type = contents_type(kind, input_type, options.accumulator_type, is_timed=is_timed)
        self._is_event_time = assigner.is_event_time()
        at_end = EventTimeTrigger if self._is_event_time else ProcessingTimeTrigger
        self._fires_once = type(self._trigger) is at_end and not self._lateness_ms
        """Whether windows fire only at their end, when they are cleaned up too, by one timer that is registered with the first record."""
        self._restored_until = MIN_TIMESTAMP
        """The latest end of a restored window. Restored contents may have come with another trigger, and other timers."""

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        timers = self._timers.event if self._is_event_time else self._timers.processing
        self._restored_until = timers.last_timestamp()
        self._contents = open_contents(self._held_kind, self._function, self._backend, self._type)
        self._own = record_copy(None, f"operator '{self._name}'").copy
        """Copies contents for user code, which may change them; also with object reuse."""
        self._is_copied_when_emitted = self._process is None and context.emitted_copies().keeps_apart
        store = StateStore(self._backend)
        of_window = None if self._merges else StateStore(self._backend, windowed=True, prefix="window.")
        self._firing = FiringContext(self._timers, self._backend, of_window, store)
        trigger_store = StateStore(self._backend, windowed=True, prefix=TRIGGER_STATES)
        self._calls = TriggerCall(self._timers, trigger_store, FunctionContext(context, store), context.clock)

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
        take, collector = self._take, self._collector
        for value, stamp in self._keyed_records(batch, input_index):
            try:
                take(value, MIN_TIMESTAMP if stamp is None else stamp)
            except Exception as error:
                raise user_error(self._name, error, value) from error
            if collector.is_full():
                collector.flush()
        collector.flush()
        self._schedule()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        window = GlobalWindow.get() if timer.namespace is None else timer.namespace
        try:
            self._on_time(timer.timestamp, window, domain is TimeDomain.EVENT_TIME)
        except Exception as error:
            raise timer_error(self._name, error, timer, domain) from error

    def _take(self, value: Record, stamp: int) -> None:
        is_skipped, contents, backend = True, self._contents, self._backend
        for window in self._assign(value, stamp, self._calls):
            if self._is_event_time and self._is_over(window):
                continue
            is_skipped = False
            entry = (backend.key, self._enter(window))
            was_there = contents.add(backend.group, entry, value if self._evictor is None else (value, stamp))
            end_ms = window.max_timestamp()
            if self._fires_once and end_ms > self._restored_until:
                if not was_there:
                    self._register(end_ms)
                continue
            decision = self._trigger.on_element(value, stamp, window, self._calls)
            if decision is not TriggerResult.CONTINUE:
                self._obey(decision, window, entry)
            self._register_cleanup(window)
        if is_skipped:
            self._skip(value, stamp)

    def _assign_checked(self, value: Record, stamp: int, calls: TriggerCall) -> Sequence[AssignedWindow]:
        """Returns the windows of an assigner of the user's, or with gaps by a user function. Raises ``InvalidJob`` when bounds are not whole numbers."""
        try:
            windows = list(self._assigner.assign_windows(value, stamp, calls))
        except InvalidJob as error:
            raise InvalidJob(f"operator '{self._name}': {error.message}") from error
        for place, window in enumerate(windows):
            if window.__class__ is TimeWindow:
                named = f"operator '{self._name}': {type(self._assigner).__name__}: a bound of {window!r}"
                windows[place] = TimeWindow(whole_number(window[0], named), whole_number(window[1], named))
        return windows

    def _on_time(self, time_ms: int, window: AssignedWindow, is_event: bool) -> None:
        entry = (self._backend.key, self._enter(window))
        self._call_trigger(time_ms, window, is_event, entry)
        if is_event is self._is_event_time and time_ms == self._cleanup_time(window):
            self._forget(window, entry)

    def _call_trigger(self, time_ms: int, window: AssignedWindow, is_event: bool, entry: Entry) -> None:
        call = self._trigger.on_event_time if is_event else self._trigger.on_processing_time
        self._obey(call(time_ms, window, self._calls), window, entry)

    def _skip(self, value: Record, stamp: int) -> None:
        """Handles a record that is in no window: if its time is over it is late, and goes to the side output or is counted."""
        if not self._is_event_time or stamp + self._lateness_ms > self._timers.watermark:
            return
        if self._late_tag is not None:
            self._collector.add_to_side(self._late_tag, value, stamp)
        else:
            self.context.metrics.add(LATE_RECORDS)

    def _obey(self, decision: TriggerResult, window: AssignedWindow, entry: Entry) -> None:
        if decision.is_fire():
            for held in self._contents.results(self._backend.group, entry):
                if self._evictor is None:
                    self._emit(held if self._is_copied_when_emitted else self._own(held), window)
                else:
                    self._fire_evicting(held, window, entry, self._evictor)
        if decision.is_purge():
            self._contents.clear(self._backend.group, entry)

    def _fire_evicting(self, held: Sequence[Record], window: AssignedWindow, entry: Entry, evictor: Evictor) -> None:
        elements = [TimestampedValue(value, stamp) for value, stamp in self._own(held)]
        evictor.evict_before(elements, len(elements), window, self._calls)
        values = [element.value for element in elements]
        if self._kind == "process":
            self._emit(values, window)
        elif values:
            fold, found = fold_of(self._kind, self._function), None
            for value in values:
                found = fold(found, value)
            self._emit(found if self._kind == "reduce" else self._function.get_result(found), window)
        evictor.evict_after(elements, len(elements), window, self._calls)
        if len(elements) != len(held):
            left = [(element.value, element.timestamp) for element in elements]
            self._contents.replace(self._backend.group, entry, left)

    def _emit(self, result: Accumulated, window: AssignedWindow) -> None:
        stamp = window.max_timestamp()
        if self._process is None:
            self._collector.add_all((result,), stamp)
        else:
            elements = result if self._kind == "process" else [result]
            self._firing.current = window
            self._collector.add_all(self._process.process(value_of(self._backend.key), self._firing, elements), stamp)

    def _forget(self, window: AssignedWindow, entry: Entry) -> None:
        self._contents.clear(self._backend.group, entry)
        self._trigger.clear(window, self._calls)
        if self._process is not None:
            self._firing.current = window
            self._process.clear(self._firing)

    def _enter(self, window: AssignedWindow) -> AssignedWindow:
        """Makes the window's state and timers the current ones. Returns its namespace."""
        space = None if window.__class__ is GlobalWindow else window
        self._backend.namespace = space
        self._timers.namespace = space
        return space

    def _is_over(self, window: AssignedWindow) -> bool:
        """Tells whether a window of event time is over, its allowed lateness included."""
        return self._cleanup_time(window) <= self._timers.watermark

    def _cleanup_time(self, window: AssignedWindow) -> int:
        end: int = window.max_timestamp()
        return min(end + self._lateness_ms, END_OF_TIME) if self._is_event_time else end

    def _register_cleanup(self, window: AssignedWindow) -> None:
        at_ms = self._cleanup_time(window)
        if at_ms != END_OF_TIME:
            self._register(at_ms)

    def _register(self, at_ms: int) -> None:
        if self._is_event_time:
            self._timers.register_event_time_timer(at_ms)
        else:
            self._timers.register_processing_time_timer(at_ms)

    @property
    def _has_two_functions(self) -> bool:
        """Whether ``_function`` fills the window and another function, ``_process``, processes it."""
        return self._process is not None and self._process is not self._function
