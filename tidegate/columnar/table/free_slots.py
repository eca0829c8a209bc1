"""Free slots, by key group: slots of expired rows, which new keys of the group reuse, so that changing keys need no more memory.

    expired ─▶ free ─┬─▶ taken by a new key of the group
                     └─▶ its own key comes back: in use again, from the beginning

A slot keeps its key until another takes it, and stays in the index. A list may name a slot that is in use again: ``_is_free`` decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tidegate.columnar.table.index import EMPTY, Places, Slots

Locked = Callable[[], npt.NDArray[np.bool_] | None]
"""Returns the groups that a snapshot still has to read, counted from the first owned one; ``None``: none."""


class FreeSlots:
    """The free slots of a table. ``groups`` are counted from the first owned one."""

    def __init__(self, groups: int, capacity: int) -> None:
        self._lists: list[list[Slots]] = [[] for _ in range(groups)]
        self._is_free = np.zeros(capacity, np.bool_)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, slots: Slots, groups: Places) -> None:
        """Adds slots of expired rows, each once."""
        new = ~self._is_free.take(slots)
        if not new.any():
            return
        slots, groups = slots[new], groups[new]
        self._is_free[slots] = True
        self._count += len(slots)
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        there, firsts = np.unique(ordered, return_index=True)
        for group, part in zip(there.tolist(), np.split(slots[order], firsts[1:]), strict=True):
            self._lists[group].append(part)

    def remove(self, slots: Slots) -> npt.NDArray[np.bool_] | None:
        """Marks slots as used again; returns which of them were free; ``None``: none."""
        if not self._count:
            return None
        were_free = self._is_free.take(slots)
        self._count -= int(np.count_nonzero(were_free))
        self._is_free[slots[were_free]] = False
        return were_free

    def take(self, groups: Places, locked: npt.NDArray[np.bool_] | None) -> Slots:
        """Takes a free slot for each new key, ``EMPTY`` where its group has none, or is ``locked`` because a snapshot still has to read it."""
        found = np.full(len(groups), EMPTY, np.int32)
        if not self._count:
            return found
        for group in np.unique(groups).tolist():
            if locked is not None and locked[group]:
                continue
            wanted = np.flatnonzero(groups == group)
            listed = self._lists[group]
            while len(wanted) and listed:
                given = self._some_of(listed, len(wanted))
                found[wanted[: len(given)]] = given
                wanted = wanted[len(given) :]
        return found

    def _some_of(self, listed: list[Slots], most: int) -> Slots:
        """Removes up to ``most`` free slots from the end of the last list, each once."""
        last = listed.pop()
        if len(last) > most:
            listed.append(last[:-most])
            last = last[-most:]
        given: Slots = np.unique(last[self._is_free.take(last)])
        self._is_free[given] = False
        self._count -= len(given)
        return given
