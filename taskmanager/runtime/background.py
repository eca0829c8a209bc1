"""A background thread that runs one piece of work after the other and reports the completion of each as a mail.

Used for the asynchronous part of snapshots (one thread, so that checkpoints are written in their order) and for the ``run_async`` of operators. The thread is a
daemon thread, so that a store that hangs does not keep a canceled subtask alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import CallMail

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class Background(Protocol):
    """The interface of a background thread of a subtask."""

    def submit(self, work: Work, done: Done) -> None:
        """Runs ``work()`` outside of the subtask's thread, after the work that was submitted before, then puts ``done(error or None)`` as a mail."""

    def close(self, timeout_ms: float) -> bool:
        """Waits for queued work to end, for at most ``timeout_ms``. Returns whether all has ended."""


class BackgroundThread:
    """Implements ``Background`` by a daemon thread that is started with its first work."""

    def __init__(self, name: str, mailbox: Mailbox) -> None:
        self._name = name
        self._mailbox = mailbox
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work, done: Done) -> None:
        """Runs ``work()`` in the thread, then puts ``done(error or None)`` as a mail. To be called from the subtask's thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put((work, done))

    def close(self, timeout_ms: float) -> bool:
        """Waits for queued work to end, for at most ``timeout_ms``. Returns whether the thread has ended."""
        if self._thread is None:
            return True
        self._queue.put(None)
        self._thread.join(timeout_ms / 1000)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # noqa: BLE001  driver: whatever it is, the subtask's thread judges it
                error = raised
            self._mailbox.put(CallMail(_completion(done, error)))
            del job, work, done, error


def _completion(done: Done, error: BaseException | None) -> Callable[[], None]:
    return lambda: done(error)
