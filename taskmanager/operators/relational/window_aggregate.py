"""Aggregates of windows of time: a key's windows fire at their ends, all keys of a window together.

    batch ─▶ pairs of a key and a slice, window or session ─▶ accumulators, added to by arrays ─▶ state, timers of new pairs
    timers of one time ─▶ accumulators of all keys ─▶ results by arrays ─▶ one batch

Windows that overlap by event time share accumulators of slices (``slices.py``), where aggregates can be merged. What arrays cannot compute, and small batches,
go row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.aggregates import CompiledAggregates
from tidegate.functions.sql.aggregates.folding import fold
from tidegate.functions.sql.aggregates.merging import merge_all
from tidegate.functions.sql.aggregates.running import RunningAggregates
from tidegate.functions.sql.changelog import INSERT, adds, has_kinds, is_insert_only
from tidegate.functions.sql.rows import Change, Row, array_of_values, rows_of, values_of
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Grid, Span
from tidegate.taskmanager.keyed_state.timers import DueTimers
from tidegate.taskmanager.operators.relational.relational_operator import (
    KEEP,
    EntriesOfKey,
    EntriesOperator,
    KeyedChanges,
    Name,
)
from tidegate.taskmanager.operators.relational.slices import Slices
from tidegate.taskmanager.operators.relational.timed import TimedOperator
from tidegate.taskmanager.operators.relational.window_pairs import (
    Places,
    cells_of_times,
    find_pairs,
    find_sessions,
    local_times,
    runs_of,
)
from tidegate.taskmanager.operators.relational.windows import Spans

ROWS_FOR_ARRAYS = 250
"""Fewest rows of a batch that are added to their windows by arrays. Chosen: 125 rows take as long row by row, 500 a third less by arrays."""
ROWS_FOR_SESSIONS = 50
"""Fewest rows of a batch that are added to sessions by arrays, where each would change the windows of its key. Chosen: 60 rows take less so already."""
KEYS_FOR_ARRAYS = 32
"""Fewest keys whose windows fire by arrays. Chosen: a few columns cost about as much as so many rows."""


class WindowAggregate(EntriesOperator, TimedOperator):
    """Emits the aggregates of a key's window at its end. State: by window, or by slice, ``[values of the grouping, accumulator]``.

    ``spans``: returns the windows of a row that arrived at the given time. ``attached``: reads them from the row, whose columns at
    ``attached_at`` they are; -1: there is no such column. ``slices``: of windows that overlap; state of
    versions before is by window, and what it has of a window is merged with the slices. ``grid``: cells of time whose rows have the same windows; sessions have
    none. ``merges``: windows that overlap or touch become one (sessions). ``properties``: compute the columns after the aggregates from the window. ``shift``:
    converts points in time to local time. ``emits_empty``: also emits windows in which as many rows were retracted as added.
    """

    fires_together: ClassVar[bool] = True
    keeps_watermark: ClassVar[bool] = True

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
        slices: Slices | None = None,
        grid: Grid | None = None,
        attached_at: Sequence[int] = (),
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
        can_merge = aggregates.merges_alike or aggregates.running is not None
        self._slices = slices if time is not None and can_merge else None
        self._grid = grid
        self._attached_at = [position for position in attached_at if position >= 0]
        self._emits_empty = emits_empty
        self._dues: tuple[int, dict[Span, int | None]] = (0, {})

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        """Adds the rows of a large batch to their windows by arrays, if all aggregates can be computed so. Otherwise adds up the rows with the same key and
        windows before state is read, if the aggregates allow that.
        """
        running = self._aggregates.running
        fewest = ROWS_FOR_SESSIONS if self._merges else ROWS_FOR_ARRAYS
        if running is not None and len(batch.keys) >= fewest and self._ran(batch, running):
            return
        if self._merges or not self._aggregates.merges_alike:
            super().work(batch, input_index)
            return
        self.begin_batch()
        states: dict[Any, EntriesOfKey] = {}
        for (key, *_), (group, names, row, acc) in self._gathered(batch).items():
            self._backend.key, self._backend.group = key, group
            state = states.get(key)
            if state is None:
                state = states[key] = self.read(group, key, batch.now_ms)
            for found in self._accumulators(state, names, row):
                self._aggregates.merge(found, acc)
        for state in states.values():
            state.flush()
        self.clean(len(batch.changes), batch.now_ms)
        self.end_batch([])

    def _ran(self, batch: KeyedChanges, running: RunningAggregates) -> bool:
        """Adds the rows of a batch to their windows by arrays. Returns ``False`` when they have to be added one by one."""
        if has_kinds(batch.data.schema) and not is_insert_only(batch.data):
            return False
        return self._ran_sessions(batch, running) if self._merges else self._ran_windows(batch, running)

    def _ran_windows(self, batch: KeyedChanges, running: RunningAggregates) -> bool:
        found = self._sets_of(batch)
        if found is None:
            return False
        self.begin_batch()
        group_of, key_of = batch.by_key()
        pairs = find_pairs(key_of, *found)
        if not pairs.keys:  # all rows are late
            self.clean(len(batch.keys), batch.now_ms)
            return True
        self._divide(group_of.keys(), group_of.values())
        keys = list(group_of)
        keys = [keys[number] for number in pairs.keys]
        groups = [group_of[key] for key in keys]
        entries = list(zip(keys, pairs.spans, strict=True))
        if running.can_retract:
            values = self._entries.peek_all(entries, groups)
        else:  # counts of distinct values are changed in place
            values = [
                self.read(group, key, batch.now_ms).take(name)
                for (key, name), group in zip(entries, groups, strict=True)
            ]
        is_new = [value is None for value in values]
        accs = [None if value is None else value[1] for value in values]
        if any(acc is not None and acc[0] <= 0 for acc in accs):
            return False
        accs = _added(running, accs, _needed(batch.data, running.positions, pairs.rows), pairs.pair_of)
        of_groups = self._groups_of(batch.data, pairs.firsts, values)
        self._entries.write_all(entries, groups, list(map(list, zip(of_groups, accs, strict=True))))
        self._register_new(compress(zip(entries, groups, strict=True), is_new))
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])
        return True

    def _register_new(self, new: Iterable[tuple[tuple[Any, Span], int]]) -> None:
        """Registers a timer for each new entry. ``new``: entries and their key groups."""
        of_name: dict[Span, tuple[list[Any], list[int]]] = {}
        by_due: dict[int | None, tuple[list[Any], list[int]]] = {}
        for (key, name), group in new:
            found = of_name.get(name)
            if found is None:
                found = of_name[name] = by_due.setdefault(self._due(name), ([], []))
            found[0].append(key)
            found[1].append(group)
        for due, (keys, groups) in by_due.items():
            if due is not None:
                self.register_all(due, keys, groups)

    def _ran_sessions(self, batch: KeyedChanges, running: RunningAggregates) -> bool:
        """Adds the rows of a batch to sessions. Rows that belong together are added up first. Returns ``False`` where one might be late: rows before it
        in the batch may have made its session longer.
        """
        assert self._spans is not None
        if self._time is None or not self._aggregates.merges_alike:
            return False
        times = batch.data.column(self._time)
        if times.null_count:
            return False
        ms = local_times(np.asarray(times.view(pa.int64())), self._shift)
        gap = self._spans(0)[0][1]
        if self._shift.due(int(ms.min()) + gap - 1) <= self.now():
            return False
        self.begin_batch()
        group_of, key_of = batch.by_key()
        self._divide(group_of.keys(), group_of.values())
        found = find_sessions(key_of, ms, gap)
        places = list(group_of.items())
        accs = _added(running, [None] * len(found.keys), batch.data, found.pair_of)
        of_groups = self._groups_of(batch.data, found.firsts, [None] * len(found.keys))
        for number, span, group, acc in zip(found.keys, found.spans, of_groups, accs, strict=True):
            key, key_group = places[number]
            self._add_session(key, key_group, span, [group, acc], batch.now_ms)
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])
        return True

    def _add_session(self, key: Any, group: int, span: Span, value: Any, now_ms: int) -> None:
        """Adds rows of a session to those of the key that overlap or touch it. A timer of a session that has become longer is deleted."""
        held = self._entries.all_of(group, key)
        meeting = [other for other in held if other[0] <= span[1] and span[0] <= other[1]] if held else []
        state = self.read(group, key, now_ms)
        if meeting:
            earliest, *_ = meeting = sorted(meeting)
            value[0] = held[earliest][0]
            for other in meeting:
                self._aggregates.merge(value[1], held[other][1])
            last = max(other[1] for other in meeting)
            whole = (min(earliest[0], span[0]), max(last, span[1]))
        else:
            whole, last = span, None
        self._backend.key, self._backend.group = key, group
        timers = self._timers.event
        for other in meeting:
            if other != whole:
                state.put(other, None)
                if other[1] != whole[1]:
                    timers.delete(self._shift.due(other[1] - 1))
        state.put(whole, value)
        if last is None or last < whole[1]:
            timers.register(self._shift.due(whole[1] - 1))

    def _divide(self, keys: Collection[Any], groups: Collection[int]) -> None:
        """Divides the single value that earlier versions wrote for each key into entries."""
        if self._entries.has_undivided:
            now_ms = self.context.clock.now_ms()
            for key, group in zip(keys, groups, strict=True):
                self.read(group, key, now_ms)

    def _names_of(self, local_ms: int) -> Sequence[Span]:
        """Returns what a row of a time is added to: its slice, or its windows."""
        assert self._spans is not None
        return self._spans(local_ms) if self._slices is None else (self._slices.of(local_ms),)

    def _due(self, name: Span) -> int | None:
        """Returns when the first window of a slice, or the window itself, fires; ``None``: its windows have fired."""
        now = self.now()
        if self._slices is None:
            due = self._shift.due(name[1] - 1)
            return None if self.is_event_time and due <= now else due
        if self._dues[0] != now:
            self._dues = now, {}
        known = self._dues[1]
        if name not in known:
            dues = (self._shift.due(window[1] - 1) for window in self._slices.windows(name))
            known[name] = next((due for due in dues if due > now), None)
        return known[name]

    def _sets_of(self, batch: KeyedChanges) -> tuple[Places, list[Sequence[Span]]] | None:
        """Returns for each row the place of what it is added to, without windows that have fired, and what that is; ``None`` where a time is missing."""

        def open_ones(names: Sequence[Span]) -> Sequence[Span]:
            return [name for name in names if self._due(name) is not None]

        if self._attached is not None:
            starts = runs_of([batch.data.column(position) for position in self._attached_at])
            if starts is None:
                return None
            of_runs = list(map(self._attached, rows_of(batch.data.take(pa.array(starts)))))
            return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(batch.keys))), list(
                map(open_ones, of_runs)
            )
        if self._time is None:
            return np.zeros(len(batch.keys), np.intp), [open_ones(self._names_of(self._shift.local(self.now())))]
        times = batch.data.column(self._time)
        if times.null_count or self._grid is None:
            return None
        ms = local_times(np.asarray(times.view(pa.int64())), self._shift)
        set_of, firsts = cells_of_times(ms, self._grid)
        return set_of, [open_ones(self._names_of(first)) for first in firsts]

    def _groups_of(self, data: pa.RecordBatch, firsts: Places, values: Sequence[Any]) -> list[Row]:
        """Returns the grouping of each pair of a key and a window: that of its state, otherwise that of its first row."""
        is_new = [value is None for value in values]
        rows = pa.array(firsts[np.array(is_new, np.bool_)])
        columns = [values_of(data.column(position).take(rows)) for position in self._grouping]
        made = zip(*columns, strict=True) if columns else iter([()] * len(rows))
        return [next(made) if value is None else value[0] for value in values]

    def _gathered(self, batch: KeyedChanges) -> dict[tuple[Any, Span, Span], tuple[int, Sequence[Span], Row, Any]]:
        """Returns, by key and by the first and the last name, the key group, the names, a row and the accumulator of the rows of a batch."""
        aggregates, names_at = self._aggregates, self._names_at()
        gathered: dict[tuple[Any, Span, Span], tuple[int, Sequence[Span], Row, Any]] = {}
        for (kind, row), key, group in zip(batch.changes, batch.keys, batch.groups, strict=True):
            names = names_at(row)
            if not names:
                continue
            place = (key, names[0], names[-1])
            found = gathered.get(place)
            if found is None:
                found = gathered[place] = (group, names, row, aggregates.create())
            aggregates.change(found[3], row, adds(kind))
        return gathered

    def _names_at(self) -> Spans:
        """Returns the function that tells what a row is added to. It computes that once for rows with the same time."""
        if self._attached is not None:
            return self._attached
        names_of, local, time, now = self._names_of, self._shift.local, self._time, self.now()
        known: dict[int, Sequence[Span]] = {}

        def names_at(row: Row) -> Sequence[Span]:
            ms = now if time is None else row[time]
            found = known.get(ms)
            if found is None:
                found = known[ms] = names_of(local(ms))
            return found

        return names_at

    def change(self, state: EntriesOfKey, kind: int, row: Row, input_index: int, out: list[Change]) -> Any:
        for found in self._accumulators(state, self._names_at()(row), row):
            self._aggregates.change(found, row, adds(kind))
        return state

    def _accumulators(self, state: EntriesOfKey, names: Sequence[Span], row: Row) -> Iterator[Any]:
        """Yields the accumulators of those windows or slices of a key that have not fired. ``row``: a row of this key."""
        for name in names:
            if self._merges:
                name = self._merged(state, name)
            due = self._due(name)
            if due is None:
                continue  # too late
            found = state.take(name)
            if found is None:
                group = tuple([row[position] for position in self._grouping])
                found = state.begin(name, [group, self._aggregates.create()])
                self.register(due)
            elif self._merges:
                self.register(due)
            yield found[1]

    def fire(self, state: EntriesOfKey, time_ms: int, out: list[Change]) -> Any:
        if self._slices is not None:
            self._fire_slices(state, time_ms, self._slices, out)
            return KEEP
        due = [(span, found) for span, found in state.all().items() if self._shift.due(span[1] - 1) <= time_ms]
        for span, (group, acc) in sorted(due, key=itemgetter(0)):
            self.tell(span, group, acc, out)
            state.put(span, None)
        return KEEP

    def _fire_slices(self, state: EntriesOfKey, time_ms: int, slices: Slices, out: list[Change]) -> None:
        held = dict(state.all())
        for window in self._ending(time_ms, held):
            names = [window, *slices.parts(window)]
            found = [held.get(name) for name in names]
            parts = [value for value in found if value is not None]
            if not parts:
                continue
            self.tell(window, parts[0][0], self._whole([acc for _, acc in parts]), out)
            gone = 1 + slices.left_behind
            if any(found[gone:]):
                self._register_next(window, time_ms)
            for name, value in zip(names[:gone], found, strict=False):
                if value is not None:
                    state.put(name, None)

    def _register_next(self, window: Span, time_ms: int) -> None:
        """Registers the timer of the window after one that fires, for the current key."""
        assert self._slices is not None
        due = self._shift.due(self._slices.next(window)[1] - 1)
        if due > time_ms:
            self.register(due)

    def _ending(self, time_ms: int, names: Collection[Span]) -> list[Span]:
        """Returns the windows that fire at a time, in their order. ``names``: those of slices, which are looked at where windows follow the clocks of a time
        zone with summer time.
        """
        assert self._spans is not None
        if self._shift.is_utc:
            return [span for span in self._spans(time_ms) if span[1] - 1 == time_ms]
        return sorted(
            {span for name in names for span in self._spans(name[0]) if self._shift.due(span[1] - 1) == time_ms}
        )

    def _whole(self, accs: Sequence[Any]) -> Any:
        """Returns an accumulator of the rows of all accumulators, which stay as they are."""
        if len(accs) == 1:
            return accs[0]
        whole = self._aggregates.create()
        for acc in accs:
            self._aggregates.merge(whole, acc)
        return whole

    def fire_all(self, due: DueTimers) -> None:
        """Fires the windows of many keys, by arrays where they can compute the aggregates. Windows and their order are those of ``fire``."""
        if len(due.keys) < KEYS_FOR_ARRAYS:
            super().fire_all(due)
            return
        self._divide(due.keys, due.groups)
        if self._attached is not None or self._merges or not self._shift.is_utc:
            if self._slices is not None:
                super().fire_all(due)
            else:
                self._fire_found(due)
            return
        for window in self._ending(due.timestamp, ()):
            self._fire_window(window, due)

    def _fire_found(self, due: DueTimers) -> None:
        """Fires those windows in the state of keys that have ended."""
        known: dict[int, bool] = {}
        spans: list[Span] = []
        values: list[Any] = []
        entries: list[tuple[Any, Span]] = []
        groups: list[int] = []
        all_of, due_of = self._entries.all_of, self._shift.due
        for key, group in zip(due.keys, due.groups, strict=True):
            ended = []
            held = all_of(group, key)
            for span in held:
                has_ended = known.get(span[1])
                if has_ended is None:
                    has_ended = known[span[1]] = due_of(span[1] - 1) <= due.timestamp
                if has_ended:
                    ended.append(span)
            for span in sorted(ended):
                spans.append(span)
                values.append(held[span])
                entries.append((key, span))
                groups.append(group)
        self._tell_all(spans, values, np.arange(len(values)))
        self._entries.delete_all(entries, groups)

    def _fire_window(self, window: Span, due: DueTimers) -> None:
        """Fires a window of many keys."""
        slices = self._slices
        names = [window] if slices is None else [window, *slices.parts(window)]
        found = self._entries.named(due.groups, due.keys, names)
        begins = np.flatnonzero(np.diff(found.keys, prepend=-1))
        self._tell_all([window] * len(begins), found.values, begins)
        gone = 1
        if slices is not None:
            gone += slices.left_behind
            goes_on = np.zeros(len(due.keys), np.bool_)
            goes_on[found.keys[found.names >= gone]] = True
            keys, groups = list(compress(due.keys, goes_on)), list(compress(due.groups, goes_on))
            self.register_all(self._shift.due(slices.next(window)[1] - 1), keys, groups)
        ended = found.names < gone
        of_keys, of_names = found.keys[ended].tolist(), found.names[ended].tolist()
        entries = [(due.keys[key], names[name]) for key, name in zip(of_keys, of_names, strict=True)]
        self._entries.delete_all(entries, [due.groups[key] for key in of_keys])

    def _tell_all(self, spans: Sequence[Span], values: Sequence[Any], begins: Places) -> None:
        """Emits the results of windows. ``values``: those of state, of each window one or more next to each other; ``begins``: where those of each begin."""
        if not spans:
            return
        running = self._aggregates.running
        accs = [acc for _, acc in values]
        first_of = begins.tolist()
        if running is None or (not running.can_retract and len(spans) < len(accs)):
            for span, first, end in zip(spans, first_of, [*first_of[1:], len(accs)], strict=True):
                self.tell(span, values[first][0], self._whole(accs[first:end]), self._fired)
            return
        fields = list(self._schema)
        before, after = len(self._grouping), len(self._grouping) + len(running.calls)
        rows, results = merge_all(running, accs, begins, [field.type for field in fields[before:after]])
        of_groups = zip(*[values[first][0] for first in first_of], strict=True)
        columns = [array_of_values(column, field.type) for column, field in zip(of_groups, fields, strict=False)]
        columns += [found.column(field.type) for found, field in zip(results, fields[before:after], strict=True)]
        different = dict.fromkeys(spans)
        for made, field in zip(self._properties, fields[after:], strict=False):
            times = {span: made(span) for span in different}
            columns.append(array_of_values([times[span] for span in spans], field.type))
        if has_kinds(self._schema):
            columns.append(pa.repeat(pa.scalar(INSERT, pa.int8()), len(spans)))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if not self._emits_empty and not (rows > 0).all():
            batch = batch.filter(pa.array(rows > 0))
        self.emit_fired(batch)

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


def _added(running: RunningAggregates, accs: Sequence[Any], data: pa.RecordBatch, pair_of: Places) -> list[Any]:
    """Returns accumulators with rows added; ``None`` stands for an empty one, and others have rows. ``pair_of``: the accumulator of each row."""
    return running.accumulators(fold(running, data, pair_of, accs).after)


def _needed(data: pa.RecordBatch, positions: Collection[int], rows: Places) -> pa.RecordBatch:
    """Returns some rows with their columns at ``positions``; others are null."""
    if len(rows) == data.num_rows and bool((rows == np.arange(len(rows))).all()):
        return data
    count, indices = len(rows), pa.array(rows)
    columns = [
        column.take(indices) if position in positions else pa.nulls(count)
        for position, column in enumerate(data.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=data.schema.names)


__all__ = ["WindowAggregate"]
