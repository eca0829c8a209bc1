"""Which key group of a restored state is loaded next, while records are processed. Pure.

    waits(group, rows) ─▶ next ─▶ begin(group) ─▶ ... ─▶ end(group) ─▶ its rows may be processed

The group that has begun comes first, since half of it is of no use; then the one that most rows wait for; then the others in their order.
A group without rows in the files is loaded from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence


class KeyGroupLoading:
    """``rows``: in the files, by key group. Groups are counted from the first owned one."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = list(rows)
        self._left = {group: None for group, count in enumerate(rows) if count}
        """Groups that are not loaded, in their order."""
        self._unread = dict(self._left)
        """Those of which reading has not ended."""
        self._begun: int | None = None
        self._waiting: dict[int, int] = {}

    @property
    def is_done(self) -> bool:
        return not self._left

    @property
    def left(self) -> Sequence[int]:
        """Returns the groups that are not loaded, ascending."""
        return list(self._left)

    @property
    def rows_left(self) -> int:
        """Returns how many rows the groups have in the files that are not loaded."""
        return sum(self._rows[group] for group in self._left)

    def waits(self, group: int, rows: int) -> None:
        """So many more rows cannot be processed before a group is loaded."""
        assert group in self._left, f"rows wait for group {group}, which is loaded"
        self._waiting[group] = self._waiting.get(group, 0) + rows

    def next(self) -> int | None:
        """The group to read on, or to begin; ``None``: all of them have been read."""
        if self._begun is not None:
            return self._begun
        wanted = [group for group in self._waiting if group in self._unread]
        if wanted:
            return max(wanted, key=lambda group: (self._waiting[group], -group))
        return next(iter(self._unread), None)

    def begin(self, group: int) -> None:
        """Some of it will be read."""
        assert self._begun in (None, group), f"group {group} begins while {self._begun} is read"
        assert group in self._unread, f"group {group} is read again"
        self._begun = group

    def end_reading(self, group: int) -> None:
        """The last of it will be read: the next group may begin."""
        assert group == self._begun, f"group {group} ends, {self._begun} is read"
        self._begun = None
        del self._unread[group]

    def loaded(self, group: int) -> None:
        """All of it is in its place: rows that waited for it are processed."""
        assert group not in self._unread, f"group {group} is loaded before it is read"
        del self._left[group]
        self._waiting.pop(group, None)

    def check_invariants(self) -> None:
        """Raises ``AssertionError``."""
        assert set(self._unread) <= set(self._left), f"{set(self._unread) - set(self._left)} are loaded and unread"
        assert set(self._waiting) <= set(self._left), f"rows wait for {set(self._waiting) - set(self._left)}: loaded"
        assert self._begun is None or self._begun in self._unread, f"{self._begun} is read again"
