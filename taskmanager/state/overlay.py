"""What was written to slots that a snapshot still has to read: one row for each, beside the state, until it may be merged.

    put ─▶ rows ─▶ { group is written by all snapshots ─▶ fold: into the state, some rows at a time }* ─▶ empty ─▶ dropped

Used from the subtask's thread. A snapshot reads an overlay that was there when it froze, in its own thread: the rows of a
group stay as they are until that snapshot has written the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from taskmanager.state.fixed_width import Nulls, Numbers
from taskmanager.state.slot_index import Places, Slots

Rows = list[tuple[Numbers, Nulls | None]]
"""For each value column: its values and which of them are null (``None``: the column never has nulls)."""


class Overlay:
    """``epoch``: of all that is written here. ``like``: arrays of the columns, to have the same types."""

    def __init__(self, epoch: int, like: Rows, capacity: int) -> None:
        self.epoch = epoch
        self.live = 0
        """Rows that are not in the state yet."""
        self.end = 0
        """Rows that were ever written."""
        self._row_of: Slots = np.zeros(capacity, np.int32)
        """By slot: its row + 1; 0: none."""
        self._slots: Slots = np.empty(capacity, np.int32)
        self._groups: Places = np.empty(capacity, np.intp)
        self._columns: Rows = [
            (np.empty(capacity, values.dtype), None if nulls is None else np.empty(capacity, np.bool_))
            for values, nulls in like
        ]
        self._folded_to = 0

    def patch(self, slots: Slots, rows: Rows | None, epochs: npt.NDArray[np.uint32] | None = None) -> None:
        """Put what is here in place of what was taken from below for these slots."""
        if not self.live:
            return
        at = self._row_of.take(slots)
        hits = np.flatnonzero(at)
        if not len(hits):
            return
        places = at[hits] - 1
        for (values, nulls), (mine, my_nulls) in zip(rows or (), self._columns, strict=rows is not None):
            values[hits] = mine.take(places)
            if nulls is not None and my_nulls is not None:
                nulls[hits] = my_nulls.take(places)
        if epochs is not None:
            epochs[hits] = self.epoch

    def put(self, slots: Slots, groups: Places, rows: Rows) -> None:
        """Each slot once."""
        at = self._row_of.take(slots).astype(np.intp) - 1
        new = np.flatnonzero(at < 0)
        count = len(new)
        if count:
            at[new] = np.arange(self.end, self.end + count)
            self._slots[self.end : self.end + count] = slots[new]
            self._groups[self.end : self.end + count] = groups[new]
            self._row_of[slots[new]] = at[new] + 1
            self.end += count
            self.live += count
        for (mine, my_nulls), (values, nulls) in zip(self._columns, rows, strict=True):
            mine[at] = values
            if my_nulls is not None:
                my_nulls[at] = False if nulls is None else nulls

    def forget(self, slots: Slots) -> None:
        """They were written below, with newer values."""
        if self.live:
            hits = slots[np.flatnonzero(self._row_of.take(slots))]
            self._row_of[hits] = 0
            self.live -= len(hits)

    def fold(self, locked: npt.NDArray[np.bool_] | None, limit: int) -> tuple[Slots, Rows]:
        """Take rows away whose groups are not locked, from the next ``limit`` rows: to be written below."""
        first = 0 if self._folded_to >= self.end else self._folded_to
        last = min(first + limit, self.end)
        self._folded_to = last
        slots = self._slots[first:last]
        may = self._row_of.take(slots) == np.arange(first + 1, last + 1)
        if locked is not None:
            may &= ~locked.take(self._groups[first:last])
        places = np.flatnonzero(may) + first
        folded = self._slots.take(places)
        self._row_of[folded] = 0
        self.live -= len(places)
        return folded, taken(self._columns, places)


def taken(columns: Sequence[tuple[Numbers, Nulls | None]], places: npt.NDArray[Any]) -> Rows:
    return [(values.take(places), None if nulls is None else nulls.take(places)) for values, nulls in columns]
