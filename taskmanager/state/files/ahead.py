"""Work that a thread does before it is asked for: files that are read and verified while others are decoded.

    want(keys) ─▶ the thread: work(key), one after the other ─▶ take(key): what it returned or raised

Keys that a later ``want`` leaves out are not begun, and their results are dropped. The thread is a daemon: a store that hangs never keeps a
canceled subtask alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Ahead(Generic[K, V]):
    """```want```, ``take`` and ``close`` from one thread. ``name``: of the other, which begins with the first wish and ends when this is closed."""

    def __init__(self, work: Callable[[K], V], name: str) -> None:
        self._work = work
        self._name = name
        self._changed = threading.Condition()
        self._keys: list[K] = []
        """What is wanted, in the order in which it is to be done."""
        self._done: dict[K, Callable[[], V]] = {}
        """Gives what came of it, or raises that."""
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def want(self, keys: Collection[K]) -> None:
        """Instead of what was wanted before."""
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
        """Waits for what is wanted. Raises what ``work`` raised for it."""
        with self._changed:
            assert key in self._keys, f"{key} is not wanted"
            while key not in self._done:
                self._changed.wait()
            self._keys.remove(key)
            found = self._done.pop(key)
        return found()

    def close(self, *, waits: bool = False) -> None:
        """Begins nothing from now on, and drops results. ``waits``: until the work that is under way has ended."""
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
        """Waits for a wish that is not fulfilled; ``None``: there will be none."""
        with self._changed:
            while not self._is_closed:
                for key in self._keys:
                    if key not in self._done:
                        return (key,)
                self._changed.wait()
        return None


def _raise(error: BaseException) -> NoReturn:
    raise error
