"""Windows of time: Top-N and deduplication of a window's rows, and rows of sessions.

Times are in ms. A window is ``(start, end)`` in local time, the end exclusive; it fires when time reaches its last millisecond. Rows for windows that have
fired are dropped (Flink: ``SlicingWindowOperator.java``, ``WindowOperator.java``).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT
from tidegate.functions.sql.rows import Change, Row
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Span, WindowedRows
from tidegate.plan.specs import SortField
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    Name,
)
from tidegate.taskmanager.operators.relational.timed import TimedOperator

Spans: TypeAlias = Callable[[Row], Sequence[Span]]
"""A function that returns the windows of a row."""


def merged(windows: dict[Span, Any], span: Span, merge: Callable[[Any, Any], None]) -> Span:
    """Merges the windows that overlap or touch the given one into one window, and their contents by ``merge``. Returns the window."""
    meeting = sorted(other for other in windows if other[0] <= span[1] and span[0] <= other[1])
    if not meeting:
        return span
    whole = (min(span[0], meeting[0][0]), max(span[1], *(other[1] for other in meeting)))
    first, *others = [windows.pop(other) for other in meeting]
    for other in others:
        merge(first, other)
    windows[whole] = first
    return whole


class SessionRows(TimedOperator):
    """Emits the rows of each session when it ends, with its start, its end and its last ms as further columns.

    State: ``{window: rows with their kinds}``. ``time``: the field of event time; ``None``: processing time. ``gap``: in ms (Flink:
    ``UnalignedWindowTableFunctionOperator.java``).
    """

    def __init__(
        self, name: str, partition: Sequence[int], schema: pa.Schema, *, time: int | None, gap: int, shift: TimeShift
    ) -> None:
        super().__init__(name, [partition], schema, is_event_time=time is not None)
        self._time = time
        self._gap = gap
        self._shift = shift

    def change(self, state: Any, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        time = now if self._time is None else row[self._time]
        if time is None:
            return KEEP
        windows: dict[Span, list[Change]] = state or {}
        start = self._shift.local(time)
        span = merged(windows, (start, start + self._gap), list.extend)
        due = self._shift.due(span[1] - 1)
        if due <= now and self.is_event_time:
            return state  # too late
        windows.setdefault(span, []).append((kind, row))
        self.register(due)
        return windows

    def fire(self, state: Any, time_ms: int, out: list[Change]) -> Any:
        for span in sorted(span for span in state if self._shift.due(span[1] - 1) <= time_ms):
            last = self._shift.moment(span[1] - 1)
            out.extend((kind, (*row, *span, last)) for kind, row in state.pop(span))
        return state or None


class ProcessingTimeRows(Operator):
    """Emits each row once for each of its windows, which are assigned by processing time."""

    works_on = "arrow"

    def __init__(self, rows: WindowedRows) -> None:
        self._rows = rows

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        made = self._rows(batch.data, self.context.clock.now_ms())
        if made.num_rows:
            self.context.output.emit(ArrowBatch(made))


class WindowRows(EntriesOperator, TimedOperator):
    """Base class of operators that store the rows of a window until it ends. The window is in columns of the rows.

    State: by ``(moment,)`` the windows that fire right before it; the name of every other entry begins with its window. ``spans``: for each input, returns the
    window of a row. ``shift``: converts points in time to local time.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        spans: Sequence[Spans],
        is_event_time: bool,
        shift: TimeShift,
    ) -> None:
        super().__init__(name, keys, schema, is_event_time=is_event_time)
        self._row_spans = spans
        self._shift = shift

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        now = self.now()
        for span in self._row_spans[input_index](row):
            due = self._shift.due(span[1] - 1)
            if due <= now and self.is_event_time:
                continue  # too late
            ending = state.get((due + 1,)) or ()
            if span not in ending:
                state.put((due + 1,), (*ending, span))
                self.register(due)
            self.keep(state, span, input_index, row)
        return state

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        name = (time_ms + 1,)
        for span in sorted(state.get(name) or ()):
            out.extend((INSERT, row) for row in self.results(state, span))
        state.put(name, None)
        return KEEP

    def split(self, whole: Any) -> Iterator[tuple[Name, Any, int | None]]:
        ending: dict[int, tuple[Span, ...]] = {}
        for span, rows in whole.items():
            ending[span[1]] = (*ending.get(span[1], ()), span)
            yield from self.split_window(span, rows)
        for end, found in ending.items():
            yield (end,), found, None

    @abstractmethod
    def split_window(self, span: Span, rows: Sequence[list[Row]]) -> Iterable[tuple[Name, Any, int | None]]:
        """Divides the rows of a window, by input, that earlier versions kept into entries."""

    @abstractmethod
    def keep(self, state: EntriesOfKey, span: Span, input_index: int, row: Row) -> None:
        """Stores a row in its window."""

    @abstractmethod
    def results(self, state: EntriesOfKey, span: Span) -> Iterable[Row]:
        """Returns the rows to emit for a window, and removes its stored rows."""


class WindowFirstRows(WindowRows):
    """Base class of operators that store a few rows of each window, in one entry."""

    keeps_watermark: ClassVar[bool] = True

    def keep(self, state: EntriesOfKey, span: Span, input_index: int, row: Row) -> None:
        rows = state.take(span)
        self.choose(state.begin(span, []) if rows is None else rows, row)

    def results(self, state: EntriesOfKey, span: Span) -> Iterable[Row]:
        rows = state.get(span) or []
        state.put(span, None)
        return self.shown(rows)

    def split_window(self, span: Span, rows: Sequence[list[Row]]) -> Iterable[tuple[Name, Any, int | None]]:
        yield span, rows[0], None

    @abstractmethod
    def choose(self, rows: list[Row], row: Row) -> None:
        """Adds a row to the stored rows of its window, if it is one of those to emit."""

    def shown(self, rows: list[Row]) -> Iterable[Row]:
        """Returns the rows to emit from the stored ones."""
        return rows


class WindowTopN(WindowFirstRows):
    """Emits the first rows of a window in an order (Top-N), with their ranks if requested."""

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        schema: pa.Schema,
        *,
        order: Sequence[SortField],
        ranks: tuple[int, int],
        outputs_number: bool,
        spans: Sequence[Spans],
        is_event_time: bool,
        shift: TimeShift,
    ) -> None:
        super().__init__(name, [partition], schema, spans=spans, is_event_time=is_event_time, shift=shift)
        self._sort_key = sort_key(order)
        self._first, self._last = ranks[0] - 1, ranks[1]
        self._outputs_number = outputs_number

    def choose(self, rows: list[Row], row: Row) -> None:
        rows.insert(bisect_right(rows, self._sort_key(row), key=self._sort_key), row)
        del rows[self._last :]

    def shown(self, rows: list[Row]) -> Iterable[Row]:
        ranked = rows[self._first :]
        return [(*row, rank) for rank, row in enumerate(ranked, self._first + 1)] if self._outputs_number else ranked


class WindowDeduplicate(WindowFirstRows):
    """Emits the first or last row of a window by a field of time."""

    def __init__(
        self,
        name: str,
        partition: Sequence[int],
        schema: pa.Schema,
        *,
        time: int,
        keeps_last: bool,
        spans: Sequence[Spans],
        is_event_time: bool,
        shift: TimeShift,
    ) -> None:
        super().__init__(name, [partition], schema, spans=spans, is_event_time=is_event_time, shift=shift)
        self._time = time
        self._keeps_last = keeps_last

    def choose(self, rows: list[Row], row: Row) -> None:
        time = self._time
        if not rows or (row[time] >= rows[0][time] if self._keeps_last else row[time] < rows[0][time]):
            rows[:] = [row]
