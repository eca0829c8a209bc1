"""Codes of many distinct keys by sorting their hashes, where a hash table that exceeds the cache costs more for each row.

    keys ─▶ words ─▶ hash, its low bits replaced by the number of the row ─▶ sorted ─▶ equal neighbours are one key ─▶ words compared

One sort of plain integers gives both the order and where each row was. What the hash loses to the number of the row makes two keys
look alike once in a while; then whole hashes are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.columnar.keys.mixing import PIECE_ROWS, Words, mix

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Rows in an order in which equal keys are adjacent."""

    order: Places
    """The row numbers in that order."""
    starts: Places
    """Where in ``order`` each key begins."""

    @property
    def leaders(self) -> Places:
        """Returns one row of each key."""
        return self.order.take(self.starts)

    def codes(self) -> Places:
        """Returns the number of each row's key."""
        numbers = np.zeros(len(self.order), np.intp)
        numbers[self.starts[1:]] = 1
        np.cumsum(numbers, out=numbers)
        found = np.empty(len(self.order), np.intp)
        found[self.order] = numbers
        return found


def sort_keys(words: Sequence[Words]) -> SortedKeys | None:
    """Sorts rows by key; returns ``None`` in the very rare case that two keys have the same hash."""
    order, begins = _by_packed_hashes(mix(words))
    if not _is_right(words, order, begins):
        hashes = mix(words)
        order = np.argsort(hashes)
        hashes = hashes.take(order)
        begins = _begins(hashes, np.uint64(0))
        if not _is_right(words, order, begins):
            return None
    return SortedKeys(order, np.flatnonzero(begins))


def _by_packed_hashes(hashes: Words) -> tuple[Places, npt.NDArray[np.bool_]]:
    """Sorts hashes with row numbers in their low bits; returns the order and where keys begin. Overwrites the hashes."""
    numbers = np.uint64((1 << max(1, (len(hashes) - 1).bit_length())) - 1)
    for start in range(0, len(hashes), PIECE_ROWS):
        part = hashes[start : start + PIECE_ROWS]
        part &= ~numbers
        part |= np.arange(start, start + len(part), dtype=np.uint64)
    hashes.sort()
    begins = _begins(hashes, numbers)
    hashes &= numbers
    return hashes.view(np.int64), begins


def _begins(ordered: Words, ignored: np.uint64) -> npt.NDArray[np.bool_]:
    """Returns where a hash differs from the previous one, ignoring the bits of ``ignored``."""
    found = np.ones(len(ordered), np.bool_)
    for start in range(1, len(ordered), PIECE_ROWS):
        end = min(start + PIECE_ROWS, len(ordered))
        np.greater(ordered[start:end] ^ ordered[start - 1 : end - 1], ignored, out=found[start:end])
    return found


def _is_right(words: Sequence[Words], order: Places, begins: npt.NDArray[np.bool_]) -> bool:
    """Returns whether neighbours that do not begin a key have the same words."""
    for word in words:
        there = word.take(order)
        for start in range(1, len(there), PIECE_ROWS):
            end = min(start + PIECE_ROWS, len(there))
            same = there[start:end] == there[start - 1 : end - 1]
            same |= begins[start:end]
            if not same.all():
                return False
    return True
