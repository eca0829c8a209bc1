"""State files on their way into a restored state: while the rows of one are put in place, the next ones are read and verified.

    handles, in the order of their use ─▶ a thread: source.read ─▶ at most AHEAD files wait ─▶ read(handle): the caller's thread

Laws: what ``read`` gives or raises is what the source gave or raised for that very handle, so nothing is decoded before its
checksum was verified, and a damaged file is reported by the caller that reads it. Beside the file in use at most ``AHEAD`` are held. When
the ``with`` block is left the thread has ended, and nothing is held.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from tidegate.model.checkpoint import SegmentHandle, StateHandle
from tidegate.taskmanager.state.base import SegmentSource

AHEAD = 2
"""One file that is there, and one on its way: rows are put in place at a steadier rate than a disk reads."""


class ReadAhead:
    """``with ReadAhead(source, handles) as ahead``: a ``SegmentSource``, for one thread. Handles that were not announced, or are
    asked for in another order, are read at once. Inline state, and a single file, need no thread and get none."""

    def __init__(self, source: SegmentSource, handles: Iterable[StateHandle]) -> None:
        self._source = source
        self._files = _files(handles)
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._waiting: dict[int, memoryview | BaseException] = {}
        """By index in ``_files``."""
        self._used = -1
        """Index of the file in use."""
        self._in_use: memoryview | None = None

    def __enter__(self) -> ReadAhead:
        if len(self._files) > 1:
            self._thread = threading.Thread(target=self._run, name="state-reader", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._waiting.clear()
        self._in_use = None

    def read(self, handle: StateHandle) -> memoryview:
        """As that of the source. Parts of one file, one behind the other, read it once."""
        if self._in_use is not None and handle == self._files[self._used]:
            return self._in_use
        index = self._index_of(handle)
        if index is None:
            return self._source.read(handle)
        found = self._taken(index)
        if isinstance(found, BaseException):
            raise found
        self._in_use = found
        return found

    def _index_of(self, handle: StateHandle) -> int | None:
        """Returns the place of a handle among those that were announced and are still to come."""
        if self._thread is None or handle.data is not None:
            return None
        try:
            return self._files.index(handle, self._used + 1)
        except ValueError:
            return None

    def _taken(self, index: int) -> memoryview | BaseException:
        with self._changed:
            self._used, self._in_use = index, None
            for passed_over in [other for other in self._waiting if other < index]:
                del self._waiting[passed_over]
            self._changed.notify_all()
            while index not in self._waiting:
                self._changed.wait()
            return self._waiting.pop(index)

    def _run(self) -> None:
        index = 0
        while (index := self._next(index)) < len(self._files):
            self._read(index)
            index += 1

    def _next(self, index: int) -> int:
        """Waits for room. What is passed over is not read."""
        with self._changed:
            while not self._is_closed and index > self._used + AHEAD:
                self._changed.wait()
            return len(self._files) if self._is_closed else max(index, self._used)

    def _read(self, index: int) -> None:
        found: memoryview | BaseException
        try:
            found = self._source.read(self._files[index])
        except BaseException as error:  # noqa: BLE001  driver: raised where the file is asked for
            found = error
        with self._changed:
            if index >= self._used:
                self._waiting[index] = found
            self._changed.notify_all()


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
