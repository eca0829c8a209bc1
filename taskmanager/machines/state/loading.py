"""Decides which key group of a restored state is loaded next, while records are processed. Pure.

    waits(group, rows) ─▶ next ─▶ begin(group) ─▶ progressed(group, rows) ... ─▶ loaded(group)

A group whose loading has begun comes first, since a partly loaded group cannot be used. Then come the groups for which records wait: the one with most waiting
rows, or, if rows have to be loaded in the order of their groups (``is_ascending``), the next one after the last. A group without rows in the files counts as
loaded from the start. A caller may load a group out of turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping


class KeyGroupLoading:
    """Decides in which order the key groups of restored state are loaded: those that records ask for first, then the others. ``rows``: rows in the files, of
    all levels, by key group.
    """

    def __init__(self, rows: Mapping[int, int], *, is_ascending: bool = False) -> None:
        self.left = {group: count for group, count in rows.items() if count}
        """Rows in the files of each key group that is not loaded, ascending. Read-only for others."""
        self._is_ascending = is_ascending
        self._begun: int | None = None
        self._last = -1
        self._progress: dict[int, int] = {}
        self._waiting: dict[int, int] = {}

    @property
    def is_done(self) -> bool:
        return not self.left

    @property
    def rows_left(self) -> int:
        """Returns how many rows of the files are not loaded yet, those of older levels included."""
        done = sum(min(rows, self.left[group]) for group, rows in self._progress.items())
        return sum(self.left.values()) - done

    def waits(self, group: int, rows: int) -> None:
        """Notes that so many more rows wait for a key group to be loaded."""
        assert group in self.left, f"rows wait for group {group}, which is loaded"
        self._waiting[group] = self._waiting.get(group, 0) + rows

    def next(self) -> int | None:
        """Returns the key group to continue or begin; ``None`` when all are loaded."""
        if self._begun is not None:
            return self._begun
        return next(iter(self._in_order(1)), None)

    def upcoming(self, count: int) -> list[int]:
        """Returns at most ``count`` key groups that would be loaded after the one that has begun."""
        return self._in_order(count)

    def begin(self, group: int) -> bool:
        """Notes that rows of a key group are about to be loaded. Returns whether they are its first."""
        assert group in self.left, f"group {group} is loaded again"
        assert self._begun in (None, group), f"group {group} begins while {self._begun} is loaded"
        is_first = self._begun is None
        self._begun = self._last = group
        return is_first

    def progressed(self, group: int, rows: int) -> bool:
        """Notes that so many more rows of a key group are loaded. Returns whether these were all that the files have."""
        done = self._progress[group] = self._progress.get(group, 0) + rows
        return done >= self.left[group]

    def loaded(self, group: int) -> None:
        """Notes that a key group is loaded completely: rows that waited for it may be processed."""
        del self.left[group]
        self._progress.pop(group, None)
        self._waiting.pop(group, None)
        if self._begun == group:
            self._begun = None

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when rows wait for, or progress is noted of, a key group that is loaded."""
        for name, found in (("rows wait for", self._waiting), ("half loaded are", self._progress)):
            assert found.keys() <= self.left.keys(), f"{name} {found.keys() - self.left.keys()}, which are loaded"
        assert self._begun is None or self._begun in self.left, f"{self._begun} has begun, and is loaded"

    def _in_order(self, count: int) -> list[int]:
        wanted = [group for group in self._waiting if group != self._begun]
        found = wanted or [group for group in self.left if group != self._begun]
        if self._is_ascending:
            return heapq.nsmallest(count, found, key=lambda group: (group <= self._last, group))
        return heapq.nsmallest(count, found, key=lambda group: (-self._waiting.get(group, 0), group))
