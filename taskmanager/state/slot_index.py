"""From keys to slots, for whole batches of keys at once: open addressing in numpy, one table for each key group.

    group ─▶ its part of one large array of slots ─▶ probe hash, hash + 1, ... ─▶ same key: found · empty: not there

A part that is too full is written anew, twice as large: one key group at a time, and not all groups at the same fill, so
that growing never stalls the subtask for long. Nothing is ever removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]
Same = Callable[[Places, Slots], npt.NDArray[np.bool_]]
"""(rows of the batch, slots) -> whether the row's key is that of the slot."""
HashesOf = Callable[[Slots], Hashes]

EMPTY = -1
_FIRST_SIZE = 16
_EARLY = 2


def mixed(values: npt.NDArray[Any]) -> Hashes:
    """64-bit values as hashes whose low bits depend on all of theirs."""
    found = values.astype(np.uint64)  # a copy
    found ^= found >> np.uint64(32)
    found *= np.uint64(0x9E3779B97F4A7C15)
    found ^= found >> np.uint64(29)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(32)
    return found


class SlotIndex:
    """``groups`` below are counted from the first owned one. ``capacity``: slots that there can be at most."""

    def __init__(self, groups: int, capacity: int, hashes_of: HashesOf) -> None:
        self._hashes_of = hashes_of
        self._table: Slots = np.empty(5 * capacity + groups * _FIRST_SIZE, np.int32)  # only what is touched is memory
        self._start = np.arange(groups, dtype=np.int64) * _FIRST_SIZE
        self._mask = np.full(groups, _FIRST_SIZE - 1, np.int64)
        self._count = np.zeros(groups, np.int64)
        self._limit = np.full(groups, _FIRST_SIZE // 2, np.int64)
        self._end = groups * _FIRST_SIZE
        self._table[: self._end] = EMPTY
        self._free: dict[int, list[int]] = {}

    def find(self, groups: Places, hashes: Hashes, same: Same) -> Slots:
        """The slot of each key, or ``EMPTY``."""
        found = np.full(len(groups), EMPTY, np.int32)
        rows: Places = np.arange(len(groups))
        start, mask = self._start[groups], self._mask[groups]
        offset = (hashes & mask.astype(np.uint64)).astype(np.int64)
        while len(rows):
            slots = self._table[start + offset]
            there = np.flatnonzero(slots != EMPTY)
            hit = same(rows[there], slots[there])
            found[rows[there[hit]]] = slots[there[hit]]
            missed = there[~hit]
            rows, start, mask = rows[missed], start[missed], mask[missed]
            offset = (offset[missed] + 1) & mask
        return found

    def insert(self, groups: Places, hashes: Hashes, slots: Slots, *, has_room: bool = False) -> None:
        """Keys that are not there, each once. ``has_room``: it was made before."""
        more = np.bincount(groups, minlength=len(self._count))
        if not has_room:
            self.make_room(more)
            self._grow_early()
        self._count += more
        self._insert(groups, hashes, slots)

    def make_room(self, more: npt.NDArray[np.int64]) -> None:
        """For so many more keys of each group."""
        for group in np.flatnonzero(self._count + more > self._limit).tolist():
            self._grow(group, int(self._count[group] + more[group]))

    def _grow_early(self) -> None:
        """Keys come to all groups alike: grow some before they are full, so that not all have to at once."""
        full = np.flatnonzero(self._count > 0.6 * self._limit)
        for group in full[np.argsort(-self._count[full] / self._limit[full])[:_EARLY]].tolist():
            self._grow(group, int(self._limit[group]) + 1)

    def _insert(self, groups: Places, hashes: Hashes, slots: Slots) -> None:
        start, mask = self._start[groups], self._mask[groups]
        offset = (hashes & mask.astype(np.uint64)).astype(np.int64)
        while len(slots):
            at = start + offset
            free = self._table[at] == EMPTY
            self._table[at[free]] = slots[free]  # of several at one place, the last stays
            left = np.flatnonzero(self._table[at] != slots)
            start, mask, slots = start[left], mask[left], slots[left]
            offset = (offset[left] + 1) & mask

    def _grow(self, group: int, keys: int) -> None:
        size = int(self._mask[group]) + 1
        start = int(self._start[group])
        held = self._table[start : start + size]
        slots = held[held != EMPTY]
        self._free.setdefault(size, []).append(start)
        share = 0.5 + 0.3 * (group % 16) / 16
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
            larger = np.empty(2 * self._end, np.int32)
            larger[:start] = self._table[:start]
            self._table = larger
        return start
