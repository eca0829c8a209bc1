"""The state of window joins: the rows of a key group, a time and an input, of all keys and windows that fire then, as lists of blocks.

    ``("rows", moment, input)`` of the key ``()`` of a key group    a list of blocks of rows (``RowBlocks``) whose windows fire right before the moment, in ms

Each key group with rows has a timer of the key ``()``. Versions before kept rows by key, and registered the timers of their keys:

    ``(moment,)``                 the windows of the key that fire right before it
    ``(start, end, input)``       a list of the rows of a window, start and end in ms of local time
    none                          all of it in one value, ``{(start, end): rows of each input}``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.hashing import Hashes
from tidegate.functions.sql.rows import Row
from tidegate.functions.sql.time_windows import Span
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.timers import DueTimers
from tidegate.taskmanager.operators.relational.held_rows import TimedRows
from tidegate.taskmanager.operators.relational.relational_operator import EntriesOfKeys, Name, listed
from tidegate.taskmanager.operators.relational.row_blocks import RowBlocks

NO_KEY: Final[Any] = ()
"""The key of what belongs to a key group, or to rows without keys."""


class WindowJoinState:
    """``entries``: the state. ``schemas``: of the rows of each input."""

    def __init__(self, entries: EntriesOfKeys, schemas: Sequence[pa.Schema]) -> None:
        self._entries = entries
        self._blocks = [RowBlocks(schema) for schema in schemas]

    def add(self, index: int, rows: TimedRows, groups: Hashes) -> Iterator[tuple[int, list[int]]]:
        """Stores rows of an input behind those that are there. ``groups``: the key group of each. Yields each time at which windows fire, with the key groups
        that have such windows.
        """
        order = np.lexsort((groups, rows.dues))
        data, dues, groups = rows.data.take(pa.array(order)), rows.dues[order], groups[order]
        is_new = np.append(True, (dues[1:] != dues[:-1]) | (groups[1:] != groups[:-1]))
        begins = np.flatnonzero(is_new)
        times, of_groups = dues[begins].tolist(), groups[begins].tolist()
        lists: list[Entry] = [(NO_KEY, ("rows", time + 1, index)) for time in times]
        held = [count or 0 for count in self._entries.peek_all(lists, of_groups)]
        values_of, sizes = self._blocks[index].values_of, np.diff(begins, append=len(dues)).tolist()
        entries: list[Entry] = []
        values: list[Any] = []
        of_entries: list[int] = []
        for (key, name), group, count, begin, size in zip(lists, of_groups, held, begins.tolist(), sizes, strict=True):
            made = values_of(data.slice(begin, size))
            entries += [(key, (*name, count + at)) for at in range(len(made))]
            entries.append((key, name))
            values += made
            values.append(count + len(made))
            of_entries += [group] * (len(made) + 1)
        self._entries.write_all(entries, of_entries, values)
        by_time: dict[int, list[int]] = {}
        for time, group in zip(times, of_groups, strict=True):
            by_time.setdefault(time, []).append(group)
        yield from by_time.items()

    def take(self, due: DueTimers, now_ms: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Removes and returns the rows of each input whose windows fire with timers."""
        if self._entries.has_undivided:
            for key, group in zip(due.keys, due.groups, strict=True):
                self._entries.of(group, key, now_ms)
        before = self._names_of_before(due)
        blocks = [group for key, group in zip(due.keys, due.groups, strict=True) if key == NO_KEY]
        left, right = (
            self._blocks[index].batches_of(
                [
                    *self._taken([(key, (*span, index)) for key, span in before[0]], before[1]),
                    *self._taken([(NO_KEY, ("rows", due.timestamp + 1, index))] * len(blocks), blocks),
                ]
            )
            for index in (0, 1)
        )
        return left, right

    def _names_of_before(self, due: DueTimers) -> tuple[list[tuple[Any, Span]], list[int]]:
        """Removes which windows of each key fire, as versions before noted it. Returns them with their keys, and the key group of each."""
        ends: list[Entry] = [(key, (due.timestamp + 1,)) for key in due.keys]
        windows: list[tuple[Any, Span]] = []
        groups: list[int] = []
        held = self._entries.peek_all(ends, due.groups)
        for (key, _), group, spans in zip(ends, due.groups, held, strict=True):
            windows += [(key, span) for span in spans or ()]
            groups += [group] * len(spans or ())
        if windows:
            self._entries.delete_all(ends, due.groups)
        return windows, groups

    def _taken(self, lists: list[Entry], groups: list[int]) -> list[Any]:
        """Removes lists. Returns their values."""
        if not lists:
            return []
        sizes = [size or 0 for size in self._entries.peek_all(lists, groups)]
        entries: list[Entry] = [
            (key, (*name, at)) for (key, name), size in zip(lists, sizes, strict=True) for at in range(size)
        ]
        of_groups = [group for group, size in zip(groups, sizes, strict=True) for _ in range(size)]
        values = self._entries.peek_all(entries, of_groups)
        self._entries.delete_all([*lists, *entries], [*groups, *of_groups])
        return values


def entries_of_windows(
    whole: Mapping[Span, Sequence[list[Row]]], moment_of: Callable[[int], int]
) -> Iterator[tuple[Name, Any, int | None]]:
    """Divides the value that versions before kept for a key into entries. ``moment_of``: returns right before which moment a window with that end fires."""
    ending: dict[int, tuple[Span, ...]] = {}
    for span, rows in whole.items():
        moment = moment_of(span[1])
        ending[moment] = (*ending.get(moment, ()), span)
        for index, side in enumerate(rows):
            yield from listed((*span, index), side)
    for moment, spans in ending.items():
        yield (moment,), spans, None


__all__ = ["NO_KEY", "WindowJoinState", "entries_of_windows"]
