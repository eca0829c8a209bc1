"""Windows of time with aggregate functions of users, as in PyFlink: with merged panes, or for functions that process all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from math import gcd
from typing import Any, ClassVar, Final, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.changelog import INSERT, adds
from tidegate.functions.sql.rows import Change, Row
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Span
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    KeyedChanges,
    Name,
    RelationalOperator,
)
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate

_OPEN: Final = ("open",)
_ROWS: Final = "rows"
Parts: TypeAlias = tuple[Name, ...]
"""The names of a window's lists of rows, and of accumulators that earlier versions kept."""


class PanedWindowAggregate(WindowAggregate):
    """Aggregates overlapping windows with an accumulator for each pane: a span of time that every window contains completely or not at all.

    The result of a window is an empty accumulator into which those of its panes are merged (Flink: ``PanedWindowProcessFunction``). State: by pane ``[values of
    the grouping, accumulator]``. Earlier versions stored that by window: the accumulator of such a window is merged with the panes of later rows.
    """

    fires_together: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        time: int | None,
        spans: Callable[[int], Sequence[Span]],
        size: int,
        slide: int,
        properties: Sequence[Callable[[Span], int | None]],
        shift: TimeShift,
        emits_empty: bool,
    ) -> None:
        super().__init__(
            name,
            grouping,
            aggregates,
            schema,
            time=time,
            spans=spans,
            attached=None,
            merges=False,
            properties=properties,
            shift=shift,
            emits_empty=emits_empty,
        )
        self._local_spans = spans
        self._size, self._pane = size, gcd(size, slide)

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Processes a batch row by row: functions of users are called once for each row."""
        RelationalOperator.work(self, batch, input_index)

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        local = self._shift.local(now if self._time is None else row[self._time])
        due = [self._shift.due(span[1] - 1) for span in self._local_spans(local)]
        due = [moment for moment in due if moment > now or not self.is_event_time]
        if not due:
            return KEEP  # too late, or between two windows
        start = local - local % self._pane
        pane = (start, start + self._pane)
        found = state.take(pane)
        if found is None:
            group = tuple([row[position] for position in self._grouping])
            found = state.begin(pane, [group, self._aggregates.create()])
        for moment in due:
            self.register(moment)
        self._aggregates.change(found[1], row, adds(kind))
        return state

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        held = dict(state.all())
        windows = {span for span in held if self._is_whole(span) and self._is_due(span, time_ms)}
        for start, end in held:
            if not self._is_whole((start, end)):
                windows.update(span for span in self._local_spans(start) if self._shift.due(span[1] - 1) == time_ms)
        for span in sorted(windows):
            self._emit(span, held, out)
        for start, end in held:
            last = (start, end) if self._is_whole((start, end)) else max(self._local_spans(start))
            if self._is_due(last, time_ms):
                state.put((start, end), None)
        return KEEP

    def _emit(self, span: Span, held: dict[Span, Any], out: list[Change]) -> None:
        names = [(start, start + self._pane) for start in range(span[0], span[1], self._pane)]
        if self._pane != self._size:
            names.insert(0, span)
        found = [held[name] for name in names if name in held]
        acc = self._aggregates.create()
        for _, part in found:
            # Copied, since a function may keep parts of it, and other windows have it too.
            self._aggregates.merge(acc, deepcopy(part))
        self.tell(span, found[0][0], acc, out)

    def _is_whole(self, span: Span) -> bool:
        """Tells whether an accumulator belongs to a whole window."""
        return span[1] - span[0] != self._pane

    def _is_due(self, span: Span, time_ms: int) -> bool:
        return self._shift.due(span[1] - 1) <= time_ms


class WindowRowsAggregate(EntriesOperator, TimedOperator):
    """Aggregates windows with functions that process all rows at once. Each row is an entry of state.

    State: by ``("open",)`` the windows that have not fired, with the names of their lists; by ``("rows", start, end)`` a list of ``(whether it is added,
    row)``. Earlier versions stored by window ``[values of the grouping, accumulator]``, which counts as one more list until the window fires. A session that
    merges with another one takes over its lists.
    """

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        time: int | None,
        spans: Callable[[int], Sequence[Span]],
        merges: bool,
        properties: Sequence[Callable[[Span], int | None]],
        shift: TimeShift,
    ) -> None:
        super().__init__(name, [grouping], schema, is_event_time=time is not None)
        self._grouping = grouping
        self._aggregates = aggregates
        self._time = time
        self._spans = spans
        self._merges = merges
        self._properties = properties
        self._shift = shift

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        opened = self._opened(state)
        for span in self._spans(self._shift.local(now if self._time is None else row[self._time])):
            meeting = self._meeting(opened, span)
            whole = (min(other[0] for other in (*meeting, span)), max(other[1] for other in (*meeting, span)))
            due = self._shift.due(whole[1] - 1)
            if due <= now and self.is_event_time:
                continue  # too late
            if meeting != [whole]:
                parts = tuple([name for other in meeting for name in opened[other]])
                kept = {other: found for other, found in opened.items() if other not in meeting}
                opened = {**kept, whole: parts or ((_ROWS, *span),)}
                state.put(_OPEN, opened)
                self.register(due)
            lists = [name for name in opened[whole] if name[0] == _ROWS]
            if not lists:  # all of it is of a version before
                lists = [(_ROWS, *span)]
                opened = {**opened, whole: (*opened[whole], *lists)}
                state.put(_OPEN, opened)
            state.append(lists[-1], (adds(kind), row))
        return state

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        opened = self._opened(state)
        due = sorted(span for span in opened if self._shift.due(span[1] - 1) <= time_ms)
        for span in due:
            group, acc = self._taken(state, opened[span])
            if acc[0] > 0:
                times = tuple([made(span) for made in self._properties])
                out.append((INSERT, group + self._aggregates.values(acc) + times))
        state.put(_OPEN, {span: parts for span, parts in opened.items() if span not in due} or None)
        return KEEP

    def split(self, whole: Any) -> Iterator[tuple[Name, Any, int | None]]:
        group, windows = whole
        for span, acc in windows.items():
            yield span, [group, acc], None

    def _opened(self, state: EntriesOfKey) -> dict[Span, Parts]:
        """Returns the windows that have not fired, with the names of their contents. They must not be changed."""
        opened: dict[Span, Parts] | None = state.get(_OPEN)
        return {span: (span,) for span in state.all()} if opened is None else opened

    def _meeting(self, opened: dict[Span, Parts], span: Span) -> list[Span]:
        """Returns the open windows to which a new window belongs: itself, or all sessions that overlap or touch it."""
        if not self._merges:
            return [span] if span in opened else []
        return sorted(other for other in opened if other[0] <= span[1] and span[0] <= other[1])

    def _taken(self, state: EntriesOfKey, parts: Parts) -> tuple[Row, Any]:
        """Removes a window's rows. Returns the values of its grouping, and the accumulator of all its rows."""
        acc, group = self._aggregates.create(), ()
        for name in parts:
            if name[0] == _ROWS:
                for added, row in state.listed(name):
                    self._aggregates.change(acc, row, added)
                    group = tuple([row[position] for position in self._grouping])
                state.remove_list(name)
            else:
                group, before = state.get(name)
                self._aggregates.merge(acc, before)
                state.put(name, None)
        return group, acc


__all__ = ["PanedWindowAggregate", "WindowRowsAggregate"]
