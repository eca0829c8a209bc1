"""Controls the process of a subtask from inside: its end, its priority, and where the output of user code goes."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tidegate.aio.logs import LineFormatter


def end_process_after(delay_s: float) -> None:
    """Starts a thread that ends this process by force after ``delay_s`` seconds."""

    def end() -> None:
        time.sleep(delay_s)
        os._exit(1)

    threading.Thread(target=end, name="process end", daemon=True).start()


def step_back(nice: int) -> None:
    """Lowers the priority of the calling thread, and of threads that it starts later. Linux only, since elsewhere a priority is that of the whole process.
    Raising it again needs privileges.
    """
    if nice > 0 and sys.platform.startswith("linux"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + nice)


def kill_executor() -> None:
    """Kills the Spark executor of this process, which is the parent of the daemon that forked it, with SIGKILL."""
    os.kill(parent_of(os.getppid()), signal.SIGKILL)


def parent_of(pid: int) -> int:
    """Returns the parent's process id, from /proc. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[1])


def log_with_time_and_level() -> None:
    """Formats log lines without a handler, of level WARNING and above, with time, level and logger, as in the other processes. A function that configures
    logging itself is not affected.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter())


class PrintedLines(io.TextIOBase):
    """Replacement of ``sys.stdout`` or ``sys.stderr`` that passes whole lines to ``tell``, which may block. Thread-safe. ``bare`` takes the lines of sinks,
    which have a format of their own (``tidegate.connectors.print_sink``).
    """

    def __init__(self, tell: Callable[[str], None], bare: PrintedLines | None = None) -> None:
        self._tell = tell
        self.bare = bare
        self._rest = ""
        self._lock = threading.Lock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, self._rest = (self._rest + text).rpartition("\n")
            if newline:
                self._tell(lines + newline)
        return len(text)

    def finish(self) -> None:
        """Passes on a last line that has no line end."""
        with self._lock:
            if self._rest:
                self._tell(self._rest + "\n")
                self._rest = ""
