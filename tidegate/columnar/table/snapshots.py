"""Snapshots of a table and its values, until they are written.

Law 3 without a copy: ``freeze`` remembers how far each group went. Until a group is written, a change of one of its frozen
slots goes to an overlay (``overlay``); as soon as it is, the overlay's rows of that group are merged, some with each batch. What is new since
the freeze lies in slots that the snapshot does not know, so it needs no overlay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.table.index import Slots
from tidegate.columnar.table.key_table import KeyTable
from tidegate.columnar.table.layout import Rows
from tidegate.columnar.table.pages import Counts
from tidegate.columnar.table.values import Epochs, FrozenValues, RowValues


class RowSnapshots:
    """The snapshots of ``table`` and ``values`` that are not released yet. For the subtask's thread."""

    def __init__(self, table: KeyTable, values: RowValues) -> None:
        self._table = table
        self._values = values
        self._frozen: list[FrozenRows] = []

    def freeze(self, without: npt.NDArray[np.bool_] | None = None) -> FrozenRows:
        """Freezes the rows: takes references, and copies the numbers of rows by group. ``without``: groups to leave out."""
        frozen = FrozenRows(self._table, self._values.freeze(), self._frozen)
        if without is not None:
            frozen.counts[without] = 0
            frozen.written[without] = True
        return frozen

    def locked(self) -> npt.NDArray[np.bool_] | None:
        """Returns the groups that a snapshot still has to write; ``None``: none."""
        locked: npt.NDArray[np.bool_] | None = None
        for frozen in self._frozen:
            waiting = ~frozen.written
            locked = waiting if locked is None else locked | waiting
        return locked if locked is not None and locked.any() else None


class FrozenRows:
    """The rows as they were when they were frozen. Read in the snapshot thread, released in the subtask's. ``written[i]``: whether the snapshot is done
    with group i; the subtask's thread checks it with every batch. ``counts[i]``: rows of group i."""

    def __init__(self, table: KeyTable, values: FrozenValues, unreleased: list[FrozenRows]) -> None:
        """Adds the snapshot to ``unreleased``, from which ``release`` removes it."""
        self._pages = table.frozen_pages()
        self.epoch = values.epoch
        self.counts: Counts = self._pages.counts
        self.written = np.zeros(len(self.counts), np.bool_)
        self._held: tuple[KeyTable, FrozenValues] | None = table, values
        self._unreleased = unreleased
        unreleased.append(self)

    def slots_of(self, group: int) -> Slots:
        """Returns the slots of one group, oldest first."""
        return self._pages.slots_of(group)

    def read(self, slots: Slots) -> tuple[Rows, Epochs]:
        """Returns rows and the epochs of their last change, as they were when frozen."""
        assert self._held is not None
        return self._held[1].read(slots)

    def keys_of(self, slots: Slots) -> list[pa.Array]:
        """Returns the key columns, one row for each slot."""
        assert self._held is not None
        return self._held[0].keys_of(slots)

    def epochs_of(self, slots: Slots) -> Epochs:
        """Returns the snapshot number (epoch) of the last change of each row of the table, as it was when the snapshot was frozen."""
        assert self._held is not None
        return self._held[1].epochs_of(slots)

    def release(self) -> None:
        """Releases the snapshot. A second call does nothing."""
        if self._held is not None:
            self.written[:] = True
            self._unreleased.remove(self)
            self._held = None
