"""Joins rows of the same window and key: rows of a batch are stored together, and the keys of a window join together.

batch ─▶ lists of a key, a window and an input ─▶ their lengths, read at once ─▶ rows, lengths and timers, written at once
timers of one time ─▶ the lists of all keys ─▶ pairs of all of them at once ─▶ one batch
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.changelog import INSERT, has_kinds
from tidegate.functions.sql.rows import Row, rows_of, typed
from tidegate.functions.sql.time_shift import TimeShift
from tidegate.functions.sql.time_windows import Span
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.timers import DueTimers
from tidegate.taskmanager.operators.relational.matching import Matcher, OtherRows, Places
from tidegate.taskmanager.operators.relational.relational_operator import EntriesOfKey, KeyedChanges, Name, listed
from tidegate.taskmanager.operators.relational.windows import Spans, WindowRows

ROWS_FOR_ARRAYS = 32
"""Fewest rows of a batch that are stored together, and fewest rows or windows that join together. Chosen: what a batch costs, however small it is, is about
what so many rows cost by themselves.
"""


class WindowJoin(WindowRows):
    """Joins rows of the same window and key. ``matcher``: finds the rows of the other side. State: by ``(start, end, input)`` a list of the rows of a window
    and an input.
    """

    fires_together: ClassVar[bool] = True

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

    def work(self, batch: KeyedChanges, input_index: int) -> None:
        if len(batch.keys) < ROWS_FOR_ARRAYS:
            super().work(batch, input_index)
            return
        self.begin_batch()
        self._divide(batch.keys, batch.groups)
        lists, groups = self._lists_of(batch, input_index)
        entries = list(lists)
        made: list[Entry] = []
        values: list[Any] = []
        of_groups: list[int] = []
        for entry, group, held in zip(entries, groups, self._entries.peek_all(entries, groups), strict=True):
            key, name = entry
            rows, first = lists[entry], held or 0
            made += [(key, (*name, at)) for at in range(first, first + len(rows))]
            made.append(entry)
            values += rows
            values.append(first + len(rows))
            of_groups += [group] * (len(rows) + 1)
        self._entries.write_all(made, of_groups, values)
        self._note_ends(entries, groups)
        self.clean(len(batch.keys), batch.now_ms)
        self.end_batch([])

    def _lists_of(self, batch: KeyedChanges, input_index: int) -> tuple[dict[Entry, list[Row]], list[int]]:
        """Returns the rows of a batch by the entry of their list, without late ones, and the key group of each list."""
        spans_of, lists, groups = self._row_spans[input_index], dict[Entry, list[Row]](), list[int]()
        open_ones: dict[Span, tuple[int, int, int] | None] = {}
        """The name of the list of each window; ``None``: it has fired."""
        now = self.now()
        for key, group, row in zip(batch.keys, batch.groups, rows_of(batch.data), strict=True):
            for span in spans_of(row):
                if span not in open_ones:
                    is_late = self.is_event_time and self._shift.due(span[1] - 1) <= now
                    open_ones[span] = None if is_late else (*span, input_index)
                name = open_ones[span]
                if name is None:
                    continue
                found = lists.get((key, name))
                if found is None:
                    lists[key, name] = [row]
                    groups.append(group)
                else:
                    found.append(row)
        return lists, groups

    def _note_ends(self, entries: Sequence[Entry], groups: Sequence[int]) -> None:
        """Notes which windows of each key fire, and registers the timers. ``entries``: of lists."""
        ending: dict[Entry, list[Span]] = {}
        of_groups: list[int] = []
        dues = {name[:2]: self._shift.due(name[1] - 1) for _, name in entries}
        for (key, name), group in zip(entries, groups, strict=True):
            entry = key, (dues[name[:2]] + 1,)
            if entry not in ending:
                ending[entry] = []
                of_groups.append(group)
            ending[entry].append(name[:2])
        held = self._entries.peek_all(list(ending), of_groups)
        new: list[tuple[Entry, int, Any]] = []
        for (entry, spans), group, known in zip(ending.items(), of_groups, held, strict=True):
            found = dict.fromkeys((*(known or ()), *spans))
            if known is None or len(found) > len(known):
                new.append((entry, group, tuple(found)))
        self._entries.write_all(
            [entry for entry, _, _ in new], [group for _, group, _ in new], [made for *_, made in new]
        )
        at: dict[int, tuple[list[Any], list[int]]] = {}
        for (key, (moment,)), group, _ in new:
            keys, of_keys = at.setdefault(moment - 1, ([], []))
            keys.append(key)
            of_keys.append(group)
        for due, (keys, of_keys) in at.items():
            self.register_all(due, keys, of_keys)

    def _divide(self, keys: Sequence[Any], groups: Sequence[int]) -> None:
        """Divides the single value that earlier versions wrote for each key into entries."""
        if self._entries.has_undivided:
            now_ms = self.context.clock.now_ms()
            for key, group in zip(keys, groups, strict=True):
                self.read(group, key, now_ms)

    def fire_all(self, due: DueTimers) -> None:
        """Joins many rows at once, in the order of ``fire``, and few ones key by key."""
        self._divide(due.keys, due.groups)
        moment = (due.timestamp + 1,)
        ends: list[Entry] = [(key, moment) for key in due.keys]
        windows: list[tuple[Any, Span]] = []
        groups: list[int] = []
        for key, group, spans in zip(due.keys, due.groups, self._entries.peek_all(ends, due.groups), strict=True):
            windows += [(key, span) for span in sorted(spans or ())]
            groups += [group] * len(spans or ())
        if len(windows) < ROWS_FOR_ARRAYS and self._count(windows, groups) < ROWS_FOR_ARRAYS:
            super().fire_all(due)
            return
        self._entries.delete_all(ends, due.groups)
        left, left_sizes = self._taken(windows, groups, 0)
        right, right_sizes = self._taken(windows, groups, 1)
        if left or right:
            self._join(left, np.repeat(np.arange(len(windows)), left_sizes), right, right_sizes)

    def _count(self, windows: Sequence[tuple[Any, Span]], groups: Sequence[int]) -> int:
        """Returns the number of rows of windows, of both inputs."""
        lists: list[Entry] = [(key, (*span, index)) for index in (0, 1) for key, span in windows]
        return sum(size or 0 for size in self._entries.peek_all(lists, [*groups, *groups]))

    def _taken(
        self, windows: Sequence[tuple[Any, Span]], groups: Sequence[int], index: int
    ) -> tuple[list[Row], Places]:
        """Removes the rows of windows of an input. Returns them, and how many each window has."""
        lists: list[Entry] = [(key, (*span, index)) for key, span in windows]
        sizes = [size or 0 for size in self._entries.peek_all(lists, groups)]
        entries: list[Entry] = [
            (key, (*name, at)) for (key, name), size in zip(lists, sizes, strict=True) for at in range(size)
        ]
        of_groups = [group for group, size in zip(groups, sizes, strict=True) for _ in range(size)]
        rows = self._entries.peek_all(entries, of_groups)
        self._entries.delete_all([*lists, *entries], [*groups, *of_groups])
        return rows, np.array(sizes, np.intp)

    def _join(self, left: list[Row], window_of: Places, right: list[Row], sizes: Places) -> None:
        """Emits what joins. ``window_of``: the number of each left row's window; ``sizes``: how many right rows each window has."""
        mine, theirs = self._matcher.columns_of_rows(left, 0), self._matcher.columns_of_rows(right, 1)
        pairs = list(self._matcher.pairs(mine, left, OtherRows(right, sizes, window_of), theirs, 0))
        none = np.empty(0, np.intp)
        own, found = (np.concatenate([none, *parts]) for parts in (zip(*pairs, strict=True) if pairs else ((), ())))
        if self._type in ("SEMI", "ANTI"):
            has_any = np.zeros(len(left), np.bool_)
            has_any[own] = True
            rows = np.flatnonzero(has_any if self._type == "SEMI" else ~has_any)
            self._emit([column.take(pa.array(rows)) for column in mine], len(rows))
            return
        own, found = self._with_single_rows(own, found, window_of, np.repeat(np.arange(len(sizes)), sizes))
        places = pa.array(own, mask=own < 0), pa.array(found, mask=found < 0)
        columns = [column.take(at) for side, at in zip((mine, theirs), places, strict=True) for column in side]
        self._emit(columns, len(own))

    def _with_single_rows(self, own: Places, found: Places, left: Places, right: Places) -> tuple[Places, Places]:
        """Adds the rows of outer joins that join with none: -1 stands for the missing one. Within a window those of the right side are the last.
        ``left``, ``right``: the number of each row's window.
        """
        alone = [
            np.setdiff1d(np.arange(len(windows)), matched) if self._type in (outer, "FULL") else np.empty(0, np.intp)
            for windows, matched, outer in ((left, own, "LEFT"), (right, found, "RIGHT"))
        ]
        if not any(map(len, alone)):
            return own, found
        none = [np.full(len(rows), -1, np.intp) for rows in alone]
        windows = np.concatenate([left[own], left[alone[0]], right[alone[1]]])
        own, found = np.concatenate([own, alone[0], none[1]]), np.concatenate([found, none[0], alone[1]])
        order = np.lexsort((found, own, own < 0, windows))
        return own[order], found[order]

    def _emit(self, columns: Sequence[pa.Array], count: int) -> None:
        if not count:
            return
        made = [typed(column, field.type) for column, field in zip(columns, self._schema, strict=False)]
        if has_kinds(self._schema):
            made.append(pa.repeat(pa.scalar(INSERT, pa.int8()), count))
        self.emit_fired(pa.RecordBatch.from_arrays(made, schema=self._schema))

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


__all__ = ["WindowJoin"]
