"""Loads restored key groups into a state step by step, while a thread reads and verifies the next ones.

    KeyGroupLoading: which group ─▶ chunks(group) ─▶ put(group, chunk) ... ─▶ loaded(group)
                 └─▶ a thread: need(group) of the next ones

The thread is only an optimization: a file that it has not read yet is read by the step that needs it, which also raises the error of a damaged file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from tidegate.taskmanager.machines.state.loading import KeyGroupLoading
from tidegate.taskmanager.state.files.ahead import Ahead

AHEAD = 2
"""The number of key groups that are read ahead. With 10 GB in 128 groups each has 80 MB, which the system caches until it is used."""

Chunk = TypeVar("Chunk")


class GroupSource(Protocol[Chunk]):
    """A kind of restored state, read by key group. All methods but ``need`` are called in the subtask's thread."""

    def need(self, group: int) -> None:
        """Reads and verifies all rows of a key group. May be called in any thread. Raises ``CorruptData``, ``StorageError``."""

    def chunks(self, group: int) -> Iterator[Chunk]:
        """Yields the rows of a key group, as many at a time as take some milliseconds to load. Raises ``CorruptData``, ``StorageError``."""

    def put(self, group: int, chunk: Chunk) -> int:
        """Loads rows into the state, except where it has newer ones. Returns the number of rows of the files that were used up."""

    def loaded(self, group: int) -> None:
        """Notes that all rows of the key group are loaded."""


class GroupLoader(Generic[Chunk]):
    """Loads the key groups of one state. ``rows``: in the files, by key group. ``is_ascending``: as in ``KeyGroupLoading``. ``step_rows``: rows that one step
    loads at least.
    """

    def __init__(
        self, source: GroupSource[Chunk], rows: Mapping[int, int], *, is_ascending: bool = False, step_rows: int = 1
    ) -> None:
        self._source = source
        self._step_rows = step_rows
        self._loading = KeyGroupLoading(rows, is_ascending=is_ascending)
        self._walks: dict[int, Iterator[Chunk]] = {}
        self._ahead: Ahead[int, None] = Ahead(source.need, "state-ahead")
        self.left: Mapping[int, int] = self._loading.left
        """The rows in the files of each key group that is not loaded."""

    @property
    def rows_left(self) -> int:
        return self._loading.rows_left

    @property
    def next_group(self) -> int | None:
        """The key group with which the next step begins; ``None`` when all are loaded."""
        return self._loading.next()

    def waits(self, group: int, rows: int) -> None:
        """Notes that so many more rows wait for a key group to be loaded."""
        self._loading.waits(group, rows)

    def load_some(self) -> None:
        """Does one step of loading. Raises what the source raises."""
        rows = 0
        while rows < self._step_rows and (group := self._loading.next()) is not None:
            if self._loading.begin(group):
                self._ahead.want(self._loading.upcoming(AHEAD))
            rows += max(self.advance(group), 1)

    def advance(self, group: int) -> int:
        """Loads the next rows of a key group that is not loaded. Returns the number of rows of the files that were used up."""
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
        """Loads the rest of a key group."""
        while group in self.left:
            self.advance(group)

    def settle(self) -> None:
        """Loads everything that is left."""
        while self.left:
            self.load_some()

    def close(self) -> None:
        """Ends reading ahead."""
        self._ahead.close()
