"""Reads and verifies the next state files of a restore in the background, while the rows of the current one are loaded.

    handles, in the order of their use ─▶ a thread: source.read ─▶ at most AHEAD files wait ─▶ read(handle): the caller's thread

Laws: ``read`` returns or raises exactly what the source did for the handle, so nothing is decoded before its checksum was verified, and the caller that reads a
damaged file gets the error. Besides the file in use, at most ``AHEAD`` files are held. At the end of the ``with`` block the thread has ended and no file is
held.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from tidegate.model.checkpoint import SegmentHandle, StateHandle
from tidegate.taskmanager.state.files.ahead import Ahead
from tidegate.taskmanager.state.ports import SegmentSource

AHEAD = 2
"""Most files that wait, read or being read, besides the one in use."""


class ReadAhead:
    """A ``SegmentSource`` for one thread that reads announced files ahead: ``with ReadAhead(source, handles) as ahead``. Other handles, or those in another
    order, are read when needed. Inline state and a single file need no background thread.
    """

    def __init__(self, source: SegmentSource, handles: Iterable[StateHandle]) -> None:
        self._source = source
        self._files = _files(handles)
        self._ahead: Ahead[int, memoryview] = Ahead(lambda index: source.read(self._files[index]), "state-reader")
        self._used = -1
        """Index of the file in use; -1 before the first."""
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
        """Returns the content of a file, as the source would. Successive parts of one file read it once."""
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
        """Returns the index of a handle among the announced ones that are not read yet; ``None`` if it is not among them."""
        if len(self._files) < 2 or handle.data is not None:
            return None
        try:
            return self._files.index(handle, self._used + 1)
        except ValueError:
            return None


def in_reading_order(segments: Iterable[SegmentHandle]) -> list[SegmentHandle]:
    """Returns segments in the order in which they are loaded: by level, lowest first, and parts of one file one after the other."""
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
