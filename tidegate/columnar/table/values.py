"""Rows of values by slot, with overlays for rows that snapshots still have to read.

    take ◀─ overlays over ─ rows ◀─ put                    until a group is written: put ─▶ overlay ─ merged some rows at a time ─▶ rows

Every row has the epoch of its last change: how many freezes came before it. What was restored counts as a freeze too, also what is put in
place later.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from tidegate.columnar.table.free_slots import Locked
from tidegate.columnar.table.index import Places, Slots
from tidegate.columnar.table.layout import Packed, RowLayout, Rows
from tidegate.columnar.table.overlay import Overlay
from tidegate.columnar.table.prefault import populated
from tidegate.columnar.table.reserved import Reserved

FOLD_ROWS = 1 << 13
"""How many rows are merged per step: 6.4 ms of processor time with 3 M keys (docs/adr/0025)."""
_FILL_ROWS = 1 << 12
"""How many rows are filled at a time: few enough to be in the processor's cache when their next column is written."""
_MIN_RUN_ROWS = 64
"""The average length of runs of adjacent slots below which one scatter of all rows costs less than a call for each run."""

_RESTORED = 0
"""The epoch of restored rows, whenever they are put in place."""

Epochs = npt.NDArray[np.uint32]


class RowValues:
    """Rows of values by slot. ``capacity``: the most slots. For the subtask's thread; what ``freeze`` returns, for the snapshot's."""

    def __init__(self, layout: RowLayout, capacity: int, reserved: Reserved) -> None:
        self._layout = layout
        self._capacity = capacity
        self._reserved = reserved
        self._rows: Packed = reserved.zeros(capacity, layout.packed_type)
        self._epochs: Epochs = reserved.zeros(capacity, np.dtype(np.uint32))
        self._epoch = 0
        self._overlays: list[Overlay] = []

    @property
    def overlay_rows(self) -> int:
        """Returns how many rows changed since they were frozen and are kept in overlays while their snapshots last."""
        return sum(overlay.live for overlay in self._overlays)

    def ensure(self, slots: int) -> None:
        """Makes the first ``slots`` writable. Raises ``StorageError``."""
        self._reserved.ensure(self._rows, slots)
        self._reserved.ensure(self._epochs, slots)

    def expecting(self, slots: int) -> AbstractContextManager[None]:
        """Prepares memory for the first ``slots``, in the background, while the block runs."""
        return populated(self._rows, slots)

    def begin_epoch(self) -> None:
        """Starts a new epoch: existing rows were restored, and what is written from now on has changed since."""
        self._epoch += 1

    def begin(self, slots: Slots) -> None:
        """Marks slots as having new keys, which no snapshot knows."""
        self._epochs[slots] = self._epoch

    def take(self, slots: Slots) -> Rows:
        """Returns copies of the rows of slots."""
        packed = self._rows.take(slots)
        for overlay in self._overlays:
            overlay.patch(slots, packed)
        return self._layout.unpack(packed)

    def put(self, slots: Slots, groups: Places, rows: Rows, locked: Locked) -> None:
        """Stores rows of slots in these groups, each once."""
        packed = self._layout.pack(rows, len(slots))
        waiting = self._fold(locked()) if self._overlays else None
        if waiting is None:
            self._write_below(slots, packed)
            return
        is_frozen = waiting.take(groups)
        is_frozen &= self._epochs.take(slots) < self._epoch
        aside, below = np.flatnonzero(is_frozen), np.flatnonzero(~is_frozen)
        if len(below):
            self._write_below(slots.take(below), packed.take(below))
        if len(aside):
            self._overlays[-1].put(slots.take(aside), groups.take(aside), packed.take(aside))

    def put_restored(self, slots: Slots, rows: Rows) -> None:
        """Stores restored rows of groups that no snapshot has to read."""
        self._write(slots, self._layout.pack(rows, len(slots)), _RESTORED)

    def fill_restored(self, slots: Slots, rows: Rows) -> None:
        """Stores restored rows of new slots, which no snapshot knows. Slots of one group are adjacent, so rows are written directly to their places."""
        self._epochs[slots] = _RESTORED
        ends = np.append(np.flatnonzero(np.diff(slots) != 1) + 1, len(slots))
        if len(slots) < _MIN_RUN_ROWS * len(ends):
            self._rows[slots] = self._layout.pack(rows, len(slots))
            return
        first = 0
        for end in ends.tolist():
            for at in range(first, end, _FILL_ROWS):
                to = int(slots[at])
                self._layout.pack_into(self._rows[to : to + min(_FILL_ROWS, end - at)], rows, at)
            first = end

    def freeze(self) -> FrozenValues:
        """Freezes the rows by reference: a frozen row that changes from now on goes to an overlay while its group is locked."""
        frozen = FrozenValues(self._epoch, self._layout, self._rows, self._epochs, tuple(self._overlays))
        self._epoch += 1
        self._overlays.append(Overlay(self._epoch, self._layout.packed_type, self._capacity))
        return frozen

    def _fold(self, locked: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Merges some rows of the oldest overlay; returns the groups that are locked."""
        oldest = self._overlays[0]
        if oldest.live:
            slots, rows = oldest.fold(locked, FOLD_ROWS)
            self._write(slots, rows, oldest.epoch)
        if not oldest.live and (len(self._overlays) > 1 or locked is None):
            del self._overlays[0]
        return locked

    def _write_below(self, slots: Slots, rows: Packed) -> None:
        for overlay in self._overlays:
            overlay.forget(slots)
        self._write(slots, rows, self._epoch)

    def _write(self, slots: Slots, rows: Packed, epoch: int) -> None:
        self._epochs[slots] = epoch
        self._rows[slots] = rows


class FrozenValues:
    """The values as they were when frozen: the rows with the overlays of that time. Thread-safe."""

    def __init__(
        self, epoch: int, layout: RowLayout, rows: Packed, epochs: Epochs, overlays: tuple[Overlay, ...]
    ) -> None:
        self.epoch = epoch
        self._layout = layout
        self._rows = rows
        self._epochs = epochs
        self._overlays = overlays

    def read(self, slots: Slots) -> tuple[Rows, Epochs]:
        """Returns rows and the epochs of their last change, as they were when frozen."""
        packed, epochs = self._rows.take(slots), self._epochs.take(slots)
        for overlay in self._overlays:
            overlay.patch(slots, packed, epochs)
        return self._layout.unpack(packed), epochs

    def epochs_of(self, slots: Slots) -> Epochs:
        """Returns the epoch of each slot's last change, as it was when frozen."""
        epochs = self._epochs.take(slots)
        for overlay in self._overlays:
            overlay.patch(slots, None, epochs)
        return epochs
