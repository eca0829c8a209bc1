"""A background thread that reads ahead into a bounded queue, for readers that may block (files, brokers, Spark's iterator).

The subtask's thread never waits for it: ``take`` answers at once. What was fetched but not taken is simply read again
after a restart, since positions are those of what was emitted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None = None


class Fetcher(Generic[T]):
    """Runs ``items`` in a daemon thread, at most ``depth`` items ahead."""

    def __init__(self, items: Callable[[], Iterator[T]], depth: int, wakeup: Callable[[], None] | None = None) -> None:
        self._items = items
        self._queue: queue.Queue[T | _End] = queue.Queue(maxsize=depth)
        self._wakeup = wakeup
        self._stopped = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="tidegate-fetcher", daemon=True)
        self._thread.start()

    def take(self) -> T | None:
        """Returns the next item, or ``None`` when there is none yet (or at the end). Raises what the iterator raised."""
        if self._ended:
            return None
        try:
            item = self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(item, _End):
            self._ended = True
            if item.error is not None:
                raise item.error
            return None
        return item

    @property
    def ended(self) -> bool:
        """Returns whether all items were taken."""
        return self._ended

    def close(self) -> None:
        """Stops reading ahead. An item that is being read is dropped."""
        self._stopped.set()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items():
                if not self._put(item):
                    return
        except BaseException as failure:  # noqa: BLE001  a driver of foreign code: handed to the subtask's thread as it is
            error = failure
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            if self._wakeup is not None:
                self._wakeup()
            return True
        return False
