"""The operator of windows that merge, such as sessions (Flink: ``WindowOperator.java`` with a ``MergingWindowAssigner``).

    record ─▶ its own window ─▶ merged with those of its key ─▶ the window that it now is ─▶ contents under the state window
                                          └ old windows: the trigger's state moves to the new one, their timers are gone

The windows of a key are keyed state, ``_merging_windows``, with the bounds of each window and of its state window. The namespace of the contents is the state
window, that of the trigger's state and the timers the window itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.windows import MergingWindowAssigner, TimeWindow, TimeWindowSerializer, TriggerResult
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, Record
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.windows.rows.merging_windows import MergingWindows
from tidegate.taskmanager.windows.rows.window import WindowOperator

MERGING_WINDOWS = "_merging_windows"


def merging_windows_type(assigner: MergingWindowAssigner[Record, AssignedWindow]) -> TypeInformation:
    """Returns the type of the state ``MERGING_WINDOWS``: columns for windows of time, pickled for other windows."""
    if not isinstance(assigner.get_window_serializer(), TimeWindowSerializer):
        return Types.PICKLED_BYTE_ARRAY()
    names = ["window_start", "window_end", "state_window_start", "state_window_end"]
    return Types.LIST(Types.ROW_NAMED(names, [Types.LONG()] * 4))


class MergingWindowOperator(WindowOperator):
    """A window operator whose windows merge, as sessions do."""

    _merges = True
    _assigner: MergingWindowAssigner[Record, AssignedWindow]

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        if not self._trigger.can_merge():
            raise InvalidJob(
                f"operator '{self._name}': {self._assigner!r} merges windows, but {type(self._trigger).__name__} cannot merge "
                "(can_merge() is False)"
            )
        self._windows_table = self._backend.table(MERGING_WINDOWS, "value", merging_windows_type(self._assigner))
        self._are_times = isinstance(self._assigner.get_window_serializer(), TimeWindowSerializer)

    def _take(self, value: Record, stamp: int) -> None:
        is_skipped, backend = True, self._backend
        windows = self._windows_of_key()
        for own in self._assign(value, stamp, self._calls):
            window = windows.add(own, self._on_merge)
            if self._is_event_time and self._is_over(window):
                windows.retire(window)
                continue
            is_skipped = False
            self._enter(window)
            entry = (backend.key, windows.state_window(window))
            self._contents.add(backend.group, entry, value if self._evictor is None else (value, stamp))
            decision = self._trigger.on_element(value, stamp, window, self._calls)
            if decision is not TriggerResult.CONTINUE:
                self._obey(decision, window, entry)
            self._register_cleanup(window)
        self._keep(windows)
        if is_skipped:
            self._skip(value, stamp)

    def _on_time(self, time_ms: int, window: AssignedWindow, is_event: bool) -> None:
        windows = self._windows_of_key()
        state_window = windows.state_window(window)
        if state_window is None:
            return  # a timer that its trigger did not delete when the window was merged
        self._enter(window)
        entry = (self._backend.key, state_window)
        self._call_trigger(time_ms, window, is_event, entry)
        if is_event is self._is_event_time and time_ms == self._cleanup_time(window):
            self._forget(window, entry)
            windows.retire(window)
            self._keep(windows)

    def _on_merge(
        self,
        result: AssignedWindow,
        old: list[AssignedWindow],
        state_window: AssignedWindow,
        merged_states: list[AssignedWindow],
    ) -> None:
        end_ms, now_ms = self._cleanup_time(result), self._timers.watermark
        if not self._is_event_time:
            now_ms = self._timers.current_processing_time()
        if end_ms <= now_ms and end_ms != END_OF_TIME:
            raise InvalidJob(
                f"{self._assigner!r} merged windows into {result!r}, which has already ended (the time is {now_ms}): merging must not make "
                "a window end earlier"
            )
        self._enter(result)
        self._calls.merged = old
        self._trigger.on_merge(result, self._calls)
        for window in old:
            if window != result:
                self._enter(window)
                self._trigger.clear(window, self._calls)
                self._delete_cleanup(window)
        key = self._backend.key
        sources: Sequence[Entry] = [(key, merged) for merged in merged_states]
        if sources:
            self._contents.merge(self._backend.group, (key, state_window), sources)

    def _delete_cleanup(self, window: AssignedWindow) -> None:
        at_ms = self._cleanup_time(window)
        if self._is_event_time:
            self._timers.delete_event_time_timer(at_ms)
        else:
            self._timers.delete_processing_time_timer(at_ms)

    def _windows_of_key(self) -> MergingWindows:
        found = self._windows_table.peek(self._backend.group, (self._backend.key, None)) or ()
        if not self._are_times:
            return MergingWindows(self._assigner, found)
        pairs = [(TimeWindow(start, end), TimeWindow(first, last)) for start, end, first, last in found]
        return MergingWindows(self._assigner, pairs)

    def _keep(self, windows: MergingWindows) -> None:
        if not windows.is_changed:
            return
        pairs: list[tuple[AssignedWindow, AssignedWindow]] = windows.pairs()
        place = (self._backend.group, (self._backend.key, None))
        if not pairs:
            self._windows_table.delete(*place)
        elif self._are_times:
            self._windows_table.write(*place, [(*window, *state) for window, state in pairs])
        else:
            self._windows_table.write(*place, pairs)
