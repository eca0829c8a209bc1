"""Reads the stacks of a subtask whose interpreter is blocked by native code: a signal handler in C writes them.

    TaskManager ── signal ──▶ worker: faulthandler writes where each thread stands, without the interpreter's lock ──▶ file ──▶ TaskManager

Law: the handler is installed before the process sends its hello, since the signal would kill a process without it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

SIGNAL_NUMBER = (signal.SIGRTMIN + 7) if sys.platform.startswith("linux") else int(signal.SIGUSR1)
"""Signal that makes a subtask write its stacks; nothing else uses it, since libraries take the first of the real-time signals."""
FILE_NAME = "stacks"
LONGEST_WAIT_S = 0.5
"""Seconds to wait for the stacks: the handler writes within milliseconds if its process runs at all. Chosen, not measured."""
_POLL_S = 0.01
"""Seconds between two looks at the file: short compared with the wait. Chosen, not measured."""


def write_on_signal(directory: Path) -> None:
    """Registers a signal handler that appends the stacks of all threads to a file in ``directory``."""
    file = (directory / FILE_NAME).open("w", encoding="utf-8")  # as long as the process lives
    faulthandler.register(SIGNAL_NUMBER, file, all_threads=True, chain=False)


def read_by_signal(directory: Path, pid: int) -> str:
    """Signals a process and returns the stacks that it writes; empty when it has no such file, or writes nothing in time. Blocks for ``LONGEST_WAIT_S`` at
    most.
    """
    file = directory / FILE_NAME
    with contextlib.suppress(OSError):
        before = file.stat().st_size
        os.kill(pid, SIGNAL_NUMBER)
        gives_up_at = time.monotonic() + LONGEST_WAIT_S
        text = ""
        while time.monotonic() < gives_up_at:
            time.sleep(_POLL_S)
            seen, text = text, file.read_bytes()[before:].decode(errors="replace")
            if text and text == seen:
                return text
        return text
    return ""
