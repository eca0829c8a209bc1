"""Overlays: rows written to slots that a snapshot still has to read, kept besides the state until they can be merged.

    put ─▶ rows ─▶ { group is written by all snapshots ─▶ fold: into the state, some rows at a time }* ─▶ empty ─▶ dropped

Used from the subtask's thread. A snapshot reads an overlay that was there when it froze, in its own thread: the rows of a
group stay as they are until that snapshot has written the group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.columnar.numpy_column import NumpyType
from tidegate.columnar.table.index import Places, Slots
from tidegate.columnar.table.layout import Packed


class Overlay:
    """Rows that were changed since a freeze. ``epoch``: of all its rows."""

    def __init__(self, epoch: int, packed_type: NumpyType, capacity: int) -> None:
        self.epoch = epoch
        self.live = 0
        """Rows that are not in the state yet."""
        self.end = 0
        """Rows that were ever written."""
        self._row_of: Slots = np.zeros(capacity, np.int32)
        """By slot: its row + 1; 0: none."""
        self._slots: Slots = np.empty(capacity, np.int32)
        self._groups: Places = np.empty(capacity, np.intp)
        self._rows: Packed = np.empty(capacity, packed_type)
        self._folded_to = 0

    def patch(self, slots: Slots, rows: Packed | None, epochs: npt.NDArray[np.uint32] | None = None) -> None:
        """Replaces rows that were read from the state by this overlay's for the same slots."""
        if not self.live:
            return
        at = self._row_of.take(slots)
        hits = np.flatnonzero(at)
        if not len(hits):
            return
        if rows is not None:
            rows[hits] = self._rows.take(at[hits] - 1)
        if epochs is not None:
            epochs[hits] = self.epoch

    def put(self, slots: Slots, groups: Places, rows: Packed) -> None:
        """Stores rows of slots, each once."""
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
        self._rows[at] = rows

    def forget(self, slots: Slots) -> None:
        """Drops rows whose slots were written in the state with newer values."""
        if self.live:
            hits = slots[np.flatnonzero(self._row_of.take(slots))]
            self._row_of[hits] = 0
            self.live -= len(hits)

    def fold(self, locked: npt.NDArray[np.bool_] | None, limit: int) -> tuple[Slots, Packed]:
        """Removes rows of groups that are not locked, looking at the next ``limit`` rows, and returns them to be written to the state."""
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
        return folded, self._rows.take(places)
