"""Pages of slots: each belongs to one key group, which gets further pages as needed.

slot = page x page size + place          pages of a group are full but for the last one; none is ever taken back
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tidegate.columnar.table.index import Places, Slots
from tidegate.model.errors import NoResourceAvailable

Counts = npt.NDArray[np.int64]
"""Numbers of rows by key group, counted from the first owned one."""

_MIN_PAGE, MAX_PAGE = 16, 1024
"""How many slots a page has: few where a subtask owns many groups, each of which leaves a part of its last page unused."""


class GroupPages:
    """Assigns pages to key groups. ``groups`` are counted from the first owned one; ``capacity``: slots, in whole pages. ``ensure(slots)`` is called
    before the first ``slots`` are used, and may raise."""

    def __init__(self, operator: str, groups: int, capacity: int, ensure: Callable[[int], None]) -> None:
        self._operator = operator
        self._ensure = ensure
        self._shift = page_shift(groups)
        self._count: Counts = np.zeros(groups, np.int64)
        self._last_page: Counts = np.full(groups, -1, np.int64)
        self._group_of_page = np.empty(capacity >> self._shift, np.int32)
        self._pages = 0

    @property
    def used_slots(self) -> int:
        """Returns how many slots were assigned."""
        return int(self._count.sum())

    def end_with(self, rows: Counts) -> int:
        """Returns the end of the slots once so many more rows of each group have slots, or a higher one."""
        pages = -(-rows >> self._shift)
        return (self._pages + int(pages.sum())) << self._shift

    def allocate(self, groups: Places) -> Slots:
        """Assigns a slot to each row: in the last page of its group, then in new pages. Raises ``NoResourceAvailable``, ``StorageError``, and then
        assigns none."""
        shift = self._shift
        order: Places | slice = slice(None)
        if bool((groups[1:] < groups[:-1]).any()):
            order = np.argsort(groups.astype(np.uint16), kind="stable")
        ordered = groups[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        there, counts = ordered[firsts], np.diff(firsts, append=len(ordered))
        held, last_page = self._count[there], self._last_page[there]
        last = (held - 1) >> shift  # -1: no page yet
        needed = ((held + counts - 1) >> shift) - last
        made = self._pages + np.cumsum(needed) - needed
        end = self._pages + int(needed.sum())
        if end > len(self._group_of_page):
            raise NoResourceAvailable(
                f"operator '{self._operator}': its keyed state of {self.used_slots:,} keys does not fit into this machine's memory; "
                "raise the parallelism over more TaskManagers"
            )
        self._ensure(end << shift)
        self._group_of_page[self._pages : end] = np.repeat(there, needed)
        self._pages = end
        mask = (1 << shift) - 1
        old = np.minimum(counts, -held & mask)
        # What is left of its last page, then its new ones, which lie side by side.
        runs = np.stack([old, counts - old], axis=1).ravel()
        starts = np.stack([(last_page << shift) + (held & mask), made << shift], axis=1).ravel()
        slots = np.empty(len(groups), np.int32)
        slots[order] = np.repeat(starts - np.cumsum(runs) + runs, runs) + np.arange(len(groups))
        self._count[there] += counts
        self._last_page[there] = np.where(needed > 0, made + needed - 1, last_page)
        return slots

    def slots(self) -> Slots:
        """Returns the slots in use, which are positions of rows in the arrays of keyed state, page by page. A page is a block of slots of one key group."""
        groups, size = self._group_of_page[: self._pages], 1 << self._shift
        filled = np.full(self._pages, size, np.int64)
        last = self._last_page[self._last_page >= 0]
        filled[last] = self._count[groups[last]] - (np.bincount(groups)[groups[last]] - 1) * size
        starts = np.arange(self._pages, dtype=np.int64) << self._shift
        offsets = np.arange(filled.sum()) - np.repeat(np.cumsum(filled) - filled, filled)
        found: Slots = (np.repeat(starts, filled) + offsets).astype(np.int32)
        return found

    def some_slots(self, begin: int, count: int) -> tuple[Slots, Places, int]:
        """Returns the assigned slots among the ``count`` from ``begin`` on, their groups, and where to continue (0: from the beginning)."""
        end = min(begin + count, self._pages << self._shift)
        slots: Slots = np.arange(begin, end, dtype=np.int32)
        pages = slots >> self._shift
        groups = self._group_of_page.take(pages).astype(np.intp)
        is_last = self._last_page.take(groups) == pages
        size = 1 << self._shift
        filled = ((self._count.take(groups) - 1) & (size - 1)) + 1
        used = ~is_last | ((slots & (size - 1)) < filled)
        return slots[used], groups[used], end if end < self._pages << self._shift else 0

    def frozen(self) -> FrozenPages:
        """Returns a copy of the assignment of slots to groups."""
        return FrozenPages(self._count.copy(), self._group_of_page[: self._pages].copy(), self._shift)


class FrozenPages:
    """A frozen copy of the assignment of slots (positions of rows in the arrays of keyed state) to key groups, which a snapshot reads.

    ``counts``: the number of slots in use, by key group.
    """

    def __init__(self, counts: Counts, group_of_page: npt.NDArray[np.int32], shift: int) -> None:
        self.counts = counts
        self._group_of_page = group_of_page
        self._shift = shift
        self._pages: npt.NDArray[np.intp] | None = None
        self._bounds: Counts | None = None

    def slots_of(self, group: int) -> Slots:
        """Returns the slots of one group, oldest first."""
        if self._pages is None or self._bounds is None:
            self._pages = np.argsort(self._group_of_page, kind="stable")
            self._bounds = np.searchsorted(self._group_of_page[self._pages], np.arange(len(self.counts) + 1))
        pages = self._pages[self._bounds[group] : self._bounds[group + 1]]
        places = np.arange(1 << self._shift)
        slots: Slots = ((pages[:, None] << self._shift) | places).ravel()[: self.counts[group]].astype(np.int32)
        return slots


def page_shift(groups: int) -> int:
    """Returns the binary logarithm of the slots of a page for a subtask with so many groups: large enough that few pages of a group are partly empty,
    small enough that many groups do not waste memory."""
    return max(_MIN_PAGE, min(MAX_PAGE, (1 << 16) // max(1, groups))).bit_length() - 1
