"""Windows of time: aggregates, Top-N and deduplication of a window's rows, and joins within a window.

Times are in ms. A window is ``(start, end)`` in local time, the end exclusive; it fires when time reaches its last millisecond. Rows for windows that have
fired are dropped (Flink: ``SlicingWindowOperator.java``, ``WindowOperator.java``).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.aggregates.running import RunningAggregates, Segments
from tidegate.functions.sql.changelog import INSERT, adds, has_kinds, is_insert_only
from tidegate.functions.sql.rows import Change, Row, values_of
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Span, WindowedRows
from tidegate.plan.specs import SortField
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.relational.matching import Matcher
from tidegate.taskmanager.operators.relational.ranks import sort_key
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    KeyedChanges,
    Name,
    listed,
)
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.relational.window_pairs import Places, find_pairs, sets_of_times

Spans: TypeAlias = Callable[[Row], Sequence[Span]]
"""A function that returns the windows of a row."""


ROWS_FOR_ARRAYS = 1_000
"""Fewest rows of a batch that are added to their windows by arrays. Chosen: 500 rows take as long row by row, 2,000 a tenth to a half less by arrays."""


class WindowAggregate(EntriesOperator, TimedOperator):
    """Emits the aggregates of a key's window at its end. State: by window ``[values of the grouping, accumulator]``.

    ``spans``: returns the windows of a row that arrived at the given time. ``attached``: reads them from the row. ``merges``: windows that overlap or touch
    become one (sessions). ``properties``: compute the columns after the aggregates from the window. ``shift``: converts points in time to local time.
    ``emits_empty``: also emits windows in which as many rows were retracted as added.
    """

    def __init__(
        self,
        name: str,
        grouping: Sequence[int],
        aggregates: CompiledAggregates,
        schema: pa.Schema,
        *,
        time: int | None,
        spans: Callable[[int], Sequence[Span]] | None,
        attached: Spans | None,
        merges: bool,
        properties: Sequence[Callable[[Span], int | None]],
        shift: TimeShift,
        emits_empty: bool = False,
    ) -> None:
        super().__init__(name, [grouping], schema, is_event_time=time is not None or attached is not None)
        self._grouping = grouping
        self._aggregates = aggregates
        self._time = time
        self._spans = spans
        self._attached = attached
        self._merges = merges
        self._properties = properties
        self._shift = shift
        self._emits_empty = emits_empty

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Adds the rows of a large batch to their windows by arrays, if all aggregates can be computed so. Otherwise adds up the rows with the same key and
        windows before state is read, if the aggregates allow that.
        """
        running = self._aggregates.running
        if (
            not self._merges
            and running is not None
            and len(batch.keys) >= ROWS_FOR_ARRAYS
            and self._ran(batch, running)
        ):
            return
        if self._merges or not self._aggregates.merges_alike:
            super().work(batch, input_index)
            return
        self.begin_batch()
        states: dict[Any, EntriesOfKey] = {}
        for (key, *_), (group, spans, row, acc) in self._gathered(batch).items():
            self._backend.key, self._backend.group = key, group
            state = states.get(key)
            if state is None:
                state = states[key] = self.read(group, key, batch.now_ms)
            for found in self._windows(state, spans, row):
                self._aggregates.merge(found, acc)
        for state in states.values():
            state.flush()
        self.clean(len(batch.changes), batch.now_ms)
        self.end_batch([])

    def _ran(self, batch: KeyedChanges, running: RunningAggregates) -> bool:
        """Adds the rows of a batch to their windows by arrays. Returns ``False`` when they have to be added one by one."""
        if has_kinds(batch.data.schema) and not is_insert_only(batch.data):
            return False
        found = self._sets_of(batch)
        if found is None:
            return False
        self.begin_batch()
        group_of, key_of = batch.by_key()
        pairs = find_pairs(key_of, *found)
        if not pairs.keys:  # all rows are late
            self.clean(len(batch.keys), batch.now_ms)
            return True
        places = list(group_of.items())
        states = [self.read(group, key, batch.now_ms) for key, group in places]
        take = EntriesOfKey.get if running.can_retract else EntriesOfKey.take
        values = [take(states[key], span) for key, span in zip(pairs.keys, pairs.spans, strict=True)]
        accs = [None if value is None else value[1] for value in values]
        if any(acc is not None and acc[0] <= 0 for acc in accs):
            return False
        data = _needed(batch.data, running.positions, pairs.rows)
        held = running.held(accs, data)
        added = np.ones(data.num_rows, np.bool_)
        segments = Segments(pairs.pair_of, added, held.rows)
        totals = running.run(data, segments, added, held).at(segments.lasts)
        groups = self._groups_of(batch.data, pairs.firsts, values)
        for key, span, group, value, acc in zip(
            pairs.keys, pairs.spans, groups, values, running.accumulators(totals), strict=True
        ):
            if value is None:
                self._backend.key, self._backend.group = places[key]
                self.register(self._shift.due(span[1] - 1))
            states[key].put(span, [group, acc])
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])
        return True

    def _sets_of(self, batch: KeyedChanges) -> tuple[Places, list[Sequence[Span]]] | None:
        """Returns for each row the place of those of its windows that have not fired, and the windows of each place; ``None`` where a time is missing."""
        now, due, is_event_time = self.now(), self._shift.due, self.is_event_time

        def open_ones(spans: Sequence[Span]) -> Sequence[Span]:
            return [span for span in spans if due(span[1] - 1) > now] if is_event_time else spans

        if self._attached is not None:
            of_rows = list(map(self._attached, batch.values))
            place_of = {spans: place for place, spans in enumerate(dict.fromkeys(map(tuple, of_rows)))}
            return np.array([place_of[tuple(spans)] for spans in of_rows], np.intp), list(map(open_ones, place_of))
        assert self._spans is not None
        spans_of, local = self._spans, self._shift.local
        if self._time is None:
            return np.zeros(len(batch.keys), np.intp), [open_ones(spans_of(local(now)))]
        times = batch.data.column(self._time)
        if times.null_count:
            return None
        return sets_of_times(np.asarray(times.view(pa.int64())), lambda ms: open_ones(spans_of(local(ms))))

    def _groups_of(self, data: pa.RecordBatch, firsts: Places, values: Sequence[Any]) -> list[Row]:
        """Returns the grouping of each pair of a key and a window: that of its state, otherwise that of its first row."""
        is_new = [value is None for value in values]
        rows = pa.array(firsts[np.array(is_new, np.bool_)])
        columns = [values_of(data.column(position).take(rows)) for position in self._grouping]
        made = zip(*columns, strict=True) if columns else iter([()] * len(rows))
        return [next(made) if value is None else value[0] for value in values]

    def _gathered(self, batch: KeyedChanges) -> dict[tuple[Any, Span, Span], tuple[int, Sequence[Span], Row, Any]]:
        """Returns, by key and by the first and the last window, the key group, the windows, a row and the accumulator of the rows of a batch."""
        aggregates, spans_at = self._aggregates, self._spans_at()
        gathered: dict[tuple[Any, Span, Span], tuple[int, Sequence[Span], Row, Any]] = {}
        for (kind, row), key, group in zip(batch.changes, batch.keys, batch.groups, strict=True):
            spans = spans_at(row)
            if not spans:
                continue
            place = (key, spans[0], spans[-1])
            found = gathered.get(place)
            if found is None:
                found = gathered[place] = (group, spans, row, aggregates.create())
            aggregates.change(found[3], row, adds(kind))
        return gathered

    def _spans_at(self) -> Spans:
        """Returns the function that assigns a row to its windows. It computes them once for rows with the same time."""
        if self._attached is not None:
            return self._attached
        assert self._spans is not None
        spans_of, local, time, now = self._spans, self._shift.local, self._time, self.now()
        known: dict[int, Sequence[Span]] = {}

        def spans_at(row: Row) -> Sequence[Span]:
            ms = now if time is None else row[time]
            found = known.get(ms)
            if found is None:
                found = known[ms] = spans_of(local(ms))
            return found

        return spans_at

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        for found in self._windows(state, self._spans_at()(row), row):
            self._aggregates.change(found, row, adds(kind))
        return state

    def _windows(self, state: EntriesOfKey, spans: Sequence[Span], row: Row) -> Iterator[Any]:
        """Yields the accumulators of those windows of a key that have not fired. ``row``: a row of this key."""
        now = self.now()
        for span in spans:
            if self._merges:
                span = self._merged(state, span)
            due = self._shift.due(span[1] - 1)
            if due <= now and self.is_event_time:
                continue  # too late
            found = state.take(span)
            if found is None:
                group = tuple([row[position] for position in self._grouping])
                found = state.begin(span, [group, self._aggregates.create()])
                self.register(due)
            elif self._merges:
                self.register(due)
            yield found[1]

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        due = [(span, found) for span, found in state.all().items() if self._shift.due(span[1] - 1) <= time_ms]
        for span, (group, acc) in sorted(due, key=itemgetter(0)):
            self.tell(span, group, acc, out)
            state.put(span, None)
        return KEEP

    def tell(self, span: Span, group: Row, acc: Any, out: list[Change]) -> None:
        """Emits the result of a window, if it has rows or ``emits_empty`` is set."""
        if self._emits_empty or acc[0] > 0:
            times = tuple([made(span) for made in self._properties])
            out.append((INSERT, group + self._aggregates.values(acc) + times))

    def split(self, whole: Any) -> Iterator[tuple[Name, Any, int | None]]:
        group, windows = whole
        for span, acc in windows.items():
            yield span, [group, acc], None

    def _merged(self, state: EntriesOfKey, span: Span) -> Span:
        """Merges the windows that overlap or touch the given one into one window. Returns it."""
        meeting = sorted(other for other in state.all() if other[0] <= span[1] and span[0] <= other[1])
        if not meeting:
            return span
        whole = (min(span[0], meeting[0][0]), max(span[1], *(other[1] for other in meeting)))
        if meeting == [whole]:
            return whole
        first, *others = [state.take(other) for other in meeting]
        for other in others:
            self._aggregates.merge(first[1], other[1])
        for window in meeting:
            state.put(window, None)
        state.begin(whole, first)
        return whole


def _needed(data: pa.RecordBatch, positions: Collection[int], rows: Places) -> pa.RecordBatch:
    """Returns some rows with their columns at ``positions``; others are null."""
    count, indices = len(rows), pa.array(rows)
    columns = [
        column.take(indices) if position in positions else pa.nulls(count)
        for position, column in enumerate(data.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=data.schema.names)


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


class WindowJoin(WindowRows):
    """Joins rows of the same window and key. ``matcher``: finds the rows of the other side. State: by ``(start, end, input)`` a list of the rows of a window
    and an input.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[Sequence[int]],
        schema: pa.Schema,
        *,
        join_type: str,
        matcher: Matcher,
        widths: tuple[int, int],
        spans: Sequence[Spans],
        is_event_time: bool,
        shift: TimeShift,
    ) -> None:
        super().__init__(name, keys, schema, spans=spans, is_event_time=is_event_time, shift=shift)
        self._type = join_type
        self._matcher = matcher
        self._nothing = [(None,) * width for width in widths]

    def keep(self, state: EntriesOfKey, span: Span, input_index: int, row: Row) -> None:
        state.append((*span, input_index), row)

    def results(self, state: EntriesOfKey, span: Span) -> Iterable[Row]:
        left, right = [state.listed((*span, index)) for index in (0, 1)]
        for index in (0, 1):
            state.remove_list((*span, index))
        matched: set[int] = set()
        for row, found in zip(left, self._matcher.positions_of_each(left, right), strict=True):
            if self._type in ("SEMI", "ANTI"):
                if bool(found) == (self._type == "SEMI"):
                    yield row
                continue
            for at in found:
                matched.add(at)
                yield row + right[at]
            if not found and self._type in ("LEFT", "FULL"):
                yield row + self._nothing[1]
        if self._type in ("RIGHT", "FULL"):
            yield from (self._nothing[0] + row for at, row in enumerate(right) if at not in matched)

    def split_window(self, span: Span, rows: Sequence[list[Row]]) -> Iterable[tuple[Name, Any, int | None]]:
        for index, side in enumerate(rows):
            yield from listed((*span, index), side)
