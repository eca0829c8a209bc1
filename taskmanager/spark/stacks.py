"""The stacks of a subtask that cannot answer, since native code holds its interpreter: written by a signal handler in C.

    TaskManager ── signal ──▶ worker: faulthandler writes where each thread stands, without the interpreter's lock ──▶ file ──▶ TaskManager

Law: the handler is there before the process says hello: to one that has none the signal would be the end.
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
"""One that nothing else uses: libraries take the first of the real-time signals."""
FILE_NAME = "stacks"
LONGEST_WAIT_S = 0.5
"""Chosen, not measured: the handler writes within milliseconds when its process runs at all."""
_POLL_S = 0.01
"""Chosen, not measured: small beside the wait."""


def write_on_signal(directory: Path) -> None:
    """From now on the signal appends the stacks of all threads to a file in ``directory``."""
    file = (directory / FILE_NAME).open("w", encoding="utf-8")  # as long as the process lives
    faulthandler.register(SIGNAL_NUMBER, file, all_threads=True, chain=False)


def read_by_signal(directory: Path, pid: int) -> str:
    """What the process writes now; empty when it has no such file, or writes nothing in time. May block for ``LONGEST_WAIT_S``."""
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
