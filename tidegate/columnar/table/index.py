"""The index from keys to slots for whole batches of keys: open addressing in NumPy, one hash table for each key group.

    group ─▶ its part of one large array of slots ─▶ probe hash, hash + 1, + 3, + 6, ... ─▶ same key: found · empty: not there

Each round of probes is a few calls for all keys that are left, so what counts is the longest way of any key: steps grow, which
visits every place of a part (its size is a power of two) and leaves no clusters to walk through.

A part that is too full is written anew, twice as large: one key group at a time, and not all groups at the same fill, so
that growing never stalls the subtask for long. Nothing is ever removed. A slot may get another key: what leads to it from its old key
stays, finds it for the new one if anything, and goes when the part is written anew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tidegate.columnar.table.reserved import Reserved

Slots = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]
Same = Callable[[Places, Slots], npt.NDArray[np.bool_]]
"""Returns for pairs of (row of the batch, slot) whether the row's key is that of the slot. For ``EMPTY`` slots the result is not used."""
HashesOf = Callable[[Slots], Hashes]

EMPTY = -1
"""No slot; slots count from 0."""
_PLACES_OF_SLOT = 5
"""The most places for each slot while a part grows: the new part of twice the size, and the old one."""
_FIRST_SIZE = 16
"""The places of an empty group: few, since there may be 128 groups and few keys."""
_EARLY = 2
"""How many groups are grown early in each call, which spreads the cost of growing over many batches."""


class RowIndex:
    """The index. ``groups`` are counted from the first owned one. ``capacity``: the most slots."""

    def __init__(self, groups: int, capacity: int, hashes_of: HashesOf, reserved: Reserved) -> None:
        self._hashes_of = hashes_of
        self._reserved = reserved
        places = _PLACES_OF_SLOT * capacity + groups * _FIRST_SIZE
        self._table: Slots = reserved.zeros(places, np.dtype(np.int32), _PLACES_OF_SLOT)
        self._start = np.arange(groups, dtype=np.int64) * _FIRST_SIZE
        self._mask = np.full(groups, _FIRST_SIZE - 1, np.int64)
        self._count = np.zeros(groups, np.int64)
        self._limit = np.full(groups, _FIRST_SIZE // 2, np.int64)
        self._end = groups * _FIRST_SIZE
        reserved.ensure(self._table, self._end)
        self._table[: self._end] = EMPTY
        self._free: dict[int, list[int]] = {}
        self._has_old_ways = False
        """Some slot has had more than one key."""

    def note_other_keys(self) -> None:
        """Notes that existing slots get other keys, with which they are inserted next."""
        self._has_old_ways = True

    def find(self, groups: Places, hashes: Hashes, same: Same) -> Slots:
        """Returns the slot of each key, or ``EMPTY``."""
        found = np.full(len(groups), EMPTY, np.int32)
        rows: Places = np.arange(len(groups))
        start, mask = self._start.take(groups), self._mask.take(groups)
        offset = hashes.view(np.int64) & mask
        step = 0
        while len(rows):
            step += 1
            slots = self._table.take(start + offset)
            there = slots != EMPTY
            hit = same(rows, slots)  # of what is empty it says anything
            hit &= there
            found[rows[hit]] = slots[hit]
            there &= ~hit
            left = there.nonzero()[0]
            rows, start, mask = rows.take(left), start.take(left), mask.take(left)
            offset = (offset.take(left) + step) & mask
        return found

    def insert(self, groups: Places, hashes: Hashes, slots: Slots, *, has_room: bool = False) -> None:
        """Inserts new keys, each once. ``has_room``: space was made before."""
        more = np.bincount(groups, minlength=len(self._count))
        if not has_room:
            self.make_room(more)
            self._grow_early()
        self._count += more
        self._insert(groups, hashes, slots)

    def make_room(self, more: npt.NDArray[np.int64]) -> None:
        """Makes space for so many more keys of each group."""
        for group in np.flatnonzero(self._count + more > self._limit).tolist():
            self._grow(group, int(self._count[group] + more[group]))

    def _grow_early(self) -> None:
        """Grows some groups before they are full, so that not all must grow at once, since keys are spread evenly."""
        full = np.flatnonzero(self._count > 0.6 * self._limit)
        for group in full[np.argsort(-self._count[full] / self._limit[full])[:_EARLY]].tolist():
            self._grow(group, int(self._limit[group]) + 1)

    def _insert(self, groups: Places, hashes: Hashes, slots: Slots) -> None:
        start, mask = self._start.take(groups), self._mask.take(groups)
        offset = hashes.view(np.int64) & mask
        step = 0
        while len(slots):
            step += 1
            at = start + offset
            free = (self._table.take(at) == EMPTY).nonzero()[0]
            self._table[at.take(free)] = slots.take(free)  # of several at one place, the last stays
            left = (self._table.take(at) != slots).nonzero()[0]
            start, mask, slots = start.take(left), mask.take(left), slots.take(left)
            offset = (offset.take(left) + step) & mask

    def _grow(self, group: int, keys: int) -> None:
        size = int(self._mask[group]) + 1
        start = int(self._start[group])
        held = self._table[start : start + size]
        slots = held[held != EMPTY]
        if self._has_old_ways:
            once = np.unique(slots)
            keys -= len(slots) - len(once)
            self._count[group] -= len(slots) - len(once)
            slots = once
        self._free.setdefault(size, []).append(start)
        share = 0.4 + 0.2 * (group % 16) / 16
        while size * share < keys:
            size *= 2
        self._start[group] = self._take(size)
        self._mask[group] = size - 1
        self._limit[group] = int(size * share)
        self._table[self._start[group] : self._start[group] + size] = EMPTY
        self._insert(np.full(len(slots), group, np.intp), self._hashes_of(slots), slots)

    def _take(self, size: int) -> int:
        free = self._free.get(size)
        if free:
            return free.pop()
        start = self._end
        self._end += size
        if self._end > len(self._table):
            self._table = self._reserved.moved(self._table, start, 2 * self._end, _PLACES_OF_SLOT)
        self._reserved.ensure(self._table, self._end)
        return start
