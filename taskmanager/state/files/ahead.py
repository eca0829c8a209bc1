"""A thread that does work before its result is needed, such as reading and verifying files while others are decoded.

    want(keys) ─▶ the thread: work(key), one after the other ─▶ take(key): what it returned or raised

Work on keys that a later ``want`` leaves out is not begun, and their results are dropped. The thread is a daemon thread, so that a store that hangs does not
keep a canceled subtask alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Ahead(Generic[K, V]):
    """Runs ``work(key)`` for the wanted keys in a background thread. ``want``, ``take`` and ``close`` are called from one thread. ``name``: of the background
    thread, which starts with the first ``want`` and ends with ``close``.
    """

    def __init__(self, work: Callable[[K], V], name: str) -> None:
        self._work = work
        self._name = name
        self._changed = threading.Condition()
        self._keys: list[K] = []
        """The wanted keys, in the order in which their work is done."""
        self._done: dict[K, Callable[[], V]] = {}
        """For each key whose work is done, a function that returns its result or raises its error."""
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def want(self, keys: Collection[K]) -> None:
        """Sets the wanted keys, in place of those before."""
        if self._is_closed or not keys:
            return
        with self._changed:
            self._keys = list(keys)
            self._done = {key: found for key, found in self._done.items() if key in self._keys}
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def take(self, key: K) -> V:
        """Waits for a wanted key and returns its result. Raises what ``work`` raised for it."""
        with self._changed:
            assert key in self._keys, f"{key} is not wanted"
            while key not in self._done:
                self._changed.wait()
            self._keys.remove(key)
            found = self._done.pop(key)
        return found()

    def close(self, *, waits: bool = False) -> None:
        """Begins no more work and drops results. ``waits``: waits for the work that is under way."""
        with self._changed:
            self._is_closed, self._keys = True, []
            self._changed.notify_all()
        if waits and self._thread is not None:
            self._thread.join()
        self._done.clear()

    def _run(self) -> None:
        while (key := self._next()) is not None:
            found = self._outcome(key[0])
            with self._changed:
                if key[0] in self._keys:
                    self._done[key[0]] = found
                self._changed.notify_all()
            del found

    def _outcome(self, key: K) -> Callable[[], V]:
        try:
            found = self._work(key)
        except BaseException as error:  # noqa: BLE001  driver: raised where it is asked for
            return partial(_raise, error)
        return lambda: found

    def _next(self) -> tuple[K] | None:
        """Waits for a wanted key whose work is not done; ``None`` after ``close``."""
        with self._changed:
            while not self._is_closed:
                for key in self._keys:
                    if key not in self._done:
                        return (key,)
                self._changed.wait()
        return None


def _raise(error: BaseException) -> NoReturn:
    raise error
