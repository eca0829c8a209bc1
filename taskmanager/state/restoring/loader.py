"""Restored key groups on their way into a state, step by step, while a thread reads and verifies those that come next.

    KeyGroupLoading: which group ─▶ chunks(group) ─▶ put(group, chunk) ... ─▶ loaded(group)
                 └─▶ a thread: need(group) of the next ones

Nothing depends on the thread: what it did not get to is read by the step that needs it, and so is what is wrong with a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from tidegate.taskmanager.machines.state.loading import KeyGroupLoading
from tidegate.taskmanager.state.files.ahead import Ahead

AHEAD = 2
"""Key groups. 10 GB in 128 of them are 80 MB each: what is read ahead stays in the system's cache until it is used."""

Chunk = TypeVar("Chunk")


class GroupSource(Protocol[Chunk]):
    """A kind of state. All but ``need`` are called in the subtask's thread."""

    def need(self, group: int) -> None:
        """Reads and verifies all that the files have of a key group. Any thread. Raises ``CorruptData``, ``StorageError``."""

    def chunks(self, group: int) -> Iterator[Chunk]:
        """Yields it, as much at a time as takes some milliseconds. Raises ``CorruptData``, ``StorageError``."""

    def put(self, group: int, chunk: Chunk) -> int:
        """Puts it in place, where nothing newer is. Returns the rows of the files that it was."""

    def loaded(self, group: int) -> None:
        """All of the group is in place."""


class GroupLoader(Generic[Chunk]):
    """``rows``: of each key group, in the files. ``is_ascending``: as in ``KeyGroupLoading``. ``step_rows``: a step goes on until so many rows are in place."""

    def __init__(
        self, source: GroupSource[Chunk], rows: Mapping[int, int], *, is_ascending: bool = False, step_rows: int = 1
    ) -> None:
        self._source = source
        self._step_rows = step_rows
        self._loading = KeyGroupLoading(rows, is_ascending=is_ascending)
        self._walks: dict[int, Iterator[Chunk]] = {}
        self._ahead: Ahead[int, None] = Ahead(source.need, "state-ahead")
        self.left: Mapping[int, int] = self._loading.left
        """The key groups that are not loaded, and how many rows the files have of each."""

    @property
    def rows_left(self) -> int:
        return self._loading.rows_left

    @property
    def next_group(self) -> int | None:
        """The one that the next step begins with; ``None``: all are loaded."""
        return self._loading.next()

    def waits(self, group: int, rows: int) -> None:
        """So many more rows would be processed sooner if a group were loaded."""
        self._loading.waits(group, rows)

    def load_some(self) -> None:
        """A step. Raises what the source raises."""
        rows = 0
        while rows < self._step_rows and (group := self._loading.next()) is not None:
            if self._loading.begin(group):
                self._ahead.want(self._loading.upcoming(AHEAD))
            rows += max(self.advance(group), 1)

    def advance(self, group: int) -> int:
        """Puts the next chunk of a group in place that is not loaded. Returns the rows of the files that it was."""
        walk = self._walks.get(group)
        if walk is None:
            walk = self._walks[group] = self._source.chunks(group)
        try:
            chunk = next(walk, None)
        except BaseException:  # what cannot be read is not at its end
            del self._walks[group]
            raise
        rows = 0 if chunk is None else self._source.put(group, chunk)
        if chunk is None or self._loading.progressed(group, rows):
            del self._walks[group]
            self._loading.loaded(group)
            self._source.loaded(group)
        return rows

    def load(self, group: int) -> None:
        """All that is left of a group, now."""
        while group in self.left:
            self.advance(group)

    def settle(self) -> None:
        """Loads everything."""
        while self.left:
            self.load_some()

    def close(self) -> None:
        """Nothing is read ahead from now on."""
        self._ahead.close()
