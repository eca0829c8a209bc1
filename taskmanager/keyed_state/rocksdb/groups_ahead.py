"""Key groups that are read and verified by a thread of its own, while others are decoded and written.

    want(groups) ─▶ the thread: need(group), one after the other ─▶ the loader finds them there

Nothing depends on it: what the thread did not get to, the loader reads; and what is wrong with a file is reported there, where it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tidegate.model.errors import TidegateError

AHEAD = 2
"""Key groups. 10 GB in 128 of them are 80 MB each: what is read ahead stays in the system's cache until it is used."""


class GroupsAhead:
    """``need`` reads a group. The thread begins with the first wish, and ends when it is closed."""

    def __init__(self, need: Callable[[int], None]) -> None:
        self._need = need
        self._changed = threading.Condition()
        self._wanted: list[int] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def want(self, groups: Sequence[int]) -> None:
        """Instead of those that were wanted before."""
        if self._is_closed or not groups:
            return
        with self._changed:
            self._wanted = list(groups)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="state-ahead", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The thread ends after the group that it reads, which is not waited for."""
        with self._changed:
            self._is_closed, self._wanted = True, []
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                group = self._wanted.pop(0)
            try:
                self._need(group)
            except TidegateError:
                continue  # the loader finds the same
