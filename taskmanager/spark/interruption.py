"""Interrupts the function of a subtask that is being cancelled, as Flink's ``Task.java`` interrupts its thread.

    Cancel ─▶ 1 s, in which most functions come back by themselves ─▶ interrupt ─▶ every task.cancellation.interval again
                                                                      │ at most 1 s while the subtask has not even looked at its mails
    a signal ─▶ the main thread, out of a sleep, a lock or a read too ─▶ ``TaskInterrupted``, wherever it is

Laws: nothing is interrupted before the subtask is cancelled; each interrupt reports the stack of the function.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType

from tidegate.taskmanager.runtime.failures import TaskInterrupted
from tidegate.taskmanager.runtime.mailbox import Mailbox

FIRST_AFTER_S = 1.0
"""Seconds between the cancellation and the first interrupt: a function that needs less for a record is not interrupted. Chosen, not measured."""
SIGNAL = signal.SIGUSR2
"""Signal that interrupts the main thread. Not SIGTERM, which functions handle."""
SHOWN_FRAMES = 12
"""Number of innermost frames in the stack that is reported. Chosen, not measured."""


NOT_REACTING = "the task does not react to its cancellation and is interrupted; it stands at"
"""Message in the TaskManager's output before the stack of an interrupted task."""


class Interrupter:
    """Interrupts the main thread, in which the subtask runs and which makes this object. ``tell`` gets the stack before each interrupt."""

    def __init__(self, mailbox: Mailbox, tell: Callable[[str], None], interval_s: float = 30.0) -> None:
        self._mailbox = mailbox
        self._tell = tell
        self.interval_s = interval_s
        """Value of ``task.cancellation.interval`` in seconds; replaced by the job's own value after its deployment has arrived."""
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._is_wanted = False
        signal.signal(SIGNAL, self._on_signal)

    def begin(self) -> None:
        """Starts to interrupt the subtask, which is being cancelled. Returns at once; callable from any thread."""
        threading.Thread(target=self._run, name="interrupter", daemon=True).start()

    def end(self) -> None:
        """Stops interrupting a function that does not react to its cancellation; called before the subtask's final state is sent."""
        self._is_over.set()
        self._is_wanted = False
        signal.signal(SIGNAL, signal.SIG_IGN)

    def _run(self) -> None:
        delay_s = min(FIRST_AFTER_S, self.interval_s)
        while not self._is_over.wait(delay_s):
            self._tell(self._stack())
            self._is_wanted = True
            signal.pthread_kill(self._thread, SIGNAL)
            delay_s = min(FIRST_AFTER_S, self.interval_s) if self._mailbox.size() else self.interval_s

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread)
        return "".join(traceback.format_stack(frame)[-SHOWN_FRAMES:]).rstrip("\n")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_wanted and not self._is_over.is_set():
            self._is_wanted = False
            raise TaskInterrupted("the task is being cancelled")
