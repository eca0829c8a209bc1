"""Finds which rows of a batch replace the row of their key, by arrays.

rows ─▶ by key, in their order (``RowsByKey``) ─▶ those that replace the row before them ─▶ what each replaces, and the row that is left of each key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Places: TypeAlias = npt.NDArray[np.intp]
Times: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
_WIDEST = 1 << 62
"""Times are numbered where they, counted on from key to key, would not fit into 64 bits."""


class RowsByKey:
    """The rows of a batch by key, those of a key in their order. ``key_of``: the number of each row's key. ``is_held``: whether a row is stored, by key."""

    def __init__(self, key_of: Places, is_held: Mask) -> None:
        self.is_held = is_held
        self.order: Places = np.argsort(key_of, kind="stable")
        self.keys: Places = key_of[self.order]
        self.is_first: Mask = np.diff(self.keys, prepend=-1) != 0

    def before(self) -> Places:
        """Returns for each row, by key, the row before it, numbered as in ``Replacements``."""
        return _before(self, np.arange(len(self.keys)))


@dataclass(frozen=True, slots=True)
class Replacements:
    """The rows that replace another one or are the first of their key, by key and in their order.

    ``rows``: their places in the batch. ``before``: for each the place of the row that it replaces; of a stored row -2 - the number of its key; -1: none.
    ``keys``: the numbers of the keys of which a row is left, in ascending order; ``kept``: the place of that row.
    """

    rows: Places
    before: Places
    keys: Places
    kept: Places


def find_replacements(rows: RowsByKey, replaces: Mask) -> Replacements:
    """Finds what each row replaces. ``replaces``: for each row, by key, whether it replaces the row of its key if there is one."""
    chosen = np.flatnonzero(replaces)
    keys = rows.keys[chosen]
    is_last = np.diff(keys, append=-1) != 0
    places = rows.order[chosen]
    return Replacements(places, _before(rows, chosen), keys[is_last], places[is_last])


def find_earlier_or_later(rows: RowsByKey, times: Times, held: Times, *, is_later: bool) -> Mask:
    """Finds the rows that replace the row of their key by time: if ``is_later`` those that are as late or later, otherwise those that are earlier.

    ``times``: of the rows, in the order of the batch; ``held``: of the stored rows, for each key.
    """
    known = held[rows.is_held]
    found = np.concatenate((times[rows.order], known))
    numbers, width = _numbered(found if is_later else ~found, len(held))
    own = numbers[: len(times)]
    stored = np.full(len(held), -1, np.int64)
    stored[rows.is_held] = numbers[len(times) :]
    lifts = rows.keys * width
    latest = np.maximum.accumulate(own + lifts) - lifts
    before = np.roll(latest, 1)
    before[rows.is_first] = -1
    before = np.maximum(before, stored[rows.keys])
    return own >= before if is_later else own > before


def _before(rows: RowsByKey, chosen: Places) -> Places:
    """Returns for each of some rows, by key, the one before it among them; of the first one of a key the stored row."""
    keys = rows.keys[chosen]
    before: Places = np.roll(rows.order[chosen], 1)
    is_first = np.diff(keys, prepend=-1) != 0
    before[is_first] = np.where(rows.is_held, -2 - np.arange(len(rows.is_held)), -1)[keys[is_first]]
    return before


def _numbered(times: Times, keys: int) -> tuple[Times, int]:
    """Returns numbers from 0 in the order of times, and one that is larger than all of them, which times the number of keys fits into 64 bits."""
    low, high = int(times.min()), int(times.max())
    if (high - low + 1) * keys < _WIDEST:
        return times - low, high - low + 1
    distinct, numbers = np.unique(times, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)


__all__ = ["Mask", "Places", "Replacements", "RowsByKey", "Times", "find_earlier_or_later", "find_replacements"]
