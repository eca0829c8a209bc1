"""State files on their way into a restored state: while the rows of one are put in place, the next ones are read and verified.

    handles, in the order of their use ─▶ a thread: source.read ─▶ at most AHEAD files wait ─▶ read(handle): the caller's thread

Laws: what ``read`` gives or raises is what the source gave or raised for that very handle, so nothing is decoded before its
checksum was verified, and a damaged file is reported by the caller that reads it. Beside the file in use at most ``AHEAD`` are held. When
the ``with`` block is left the thread has ended, and nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from tidegate.model.checkpoint import SegmentHandle, StateHandle
from tidegate.taskmanager.state.base import SegmentSource
from tidegate.taskmanager.state.files.ahead import Ahead

AHEAD = 2
"""One file that is there, and one on its way: rows are put in place at a steadier rate than a disk reads."""


class ReadAhead:
    """``with ReadAhead(source, handles) as ahead``: a ``SegmentSource``, for one thread. Handles that were not announced, or are
    asked for in another order, are read at once. Inline state, and a single file, need no thread and get none."""

    def __init__(self, source: SegmentSource, handles: Iterable[StateHandle]) -> None:
        self._source = source
        self._files = _files(handles)
        self._ahead: Ahead[int, memoryview] = Ahead(lambda index: source.read(self._files[index]), "state-reader")
        self._used = -1
        """Index of the file in use."""
        self._in_use: memoryview | None = None

    def __enter__(self) -> ReadAhead:
        if len(self._files) > 1:
            self._ahead.want(range(AHEAD))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ahead.close(waits=True)
        self._in_use = None

    def read(self, handle: StateHandle) -> memoryview:
        """As that of the source. Parts of one file, one behind the other, read it once."""
        if self._in_use is not None and handle == self._files[self._used]:
            return self._in_use
        index = self._index_of(handle)
        if index is None:
            return self._source.read(handle)
        self._used, self._in_use = index, None
        self._ahead.want(range(index, min(index + 1 + AHEAD, len(self._files))))
        self._in_use = self._ahead.take(index)
        return self._in_use

    def _index_of(self, handle: StateHandle) -> int | None:
        """Returns the place of a handle among those that were announced and are still to come."""
        if len(self._files) < 2 or handle.data is not None:
            return None
        try:
            return self._files.index(handle, self._used + 1)
        except ValueError:
            return None


def in_reading_order(segments: Iterable[SegmentHandle]) -> list[SegmentHandle]:
    """By level, the lowest first, and parts of one file one behind the other."""
    found = list(segments)
    first: dict[str, int] = {}
    for index, segment in enumerate(found):
        first.setdefault(segment.handle.path, index)
    return sorted(found, key=lambda segment: (segment.level, first[segment.handle.path]))


def _files(handles: Iterable[StateHandle]) -> list[StateHandle]:
    found: list[StateHandle] = []
    for handle in handles:
        if handle.data is None and (not found or found[-1] != handle):
            found.append(handle)
    return found
