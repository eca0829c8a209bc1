"""The process of a subtask, seen from inside: how it ends, its priority, and where what user code prints goes."""

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
    """End this process by force in a while, whatever its other threads do."""

    def end() -> None:
        time.sleep(delay_s)
        os._exit(1)

    threading.Thread(target=end, name="process end", daemon=True).start()


def step_back(nice: int) -> None:
    """Lower the priority of the calling thread, and of threads that it starts from now on. Linux; elsewhere nothing happens,
    since there a priority is the whole process's. There is no way back: raising it again needs privileges."""
    if nice > 0 and sys.platform.startswith("linux"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + nice)


def kill_executor() -> None:
    """SIGKILL to the executor of Spark that this process belongs to: the parent of the daemon that forked it."""
    os.kill(parent_of(os.getppid()), signal.SIGKILL)


def parent_of(pid: int) -> int:
    """Linux; elsewhere there is no such file."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[1])


def log_with_time_and_level() -> None:
    """Lines that nobody else handles, of level WARNING and above, go to ``sys.stderr`` with time, level and logger, as those of the
    other processes. Functions that set logging up themselves decide on their own."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter())


class PrintedLines(io.TextIOBase):
    """Stands in for ``sys.stdout`` or ``sys.stderr``: hands on whole lines, from any thread. ``tell`` may block. ``bare`` takes
    the lines of sinks, which have a form of their own (``tidegate.connectors.print_sink``)."""

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
        """Hand on a last line without its end."""
        with self._lock:
            if self._rest:
                self._tell(self._rest + "\n")
                self._rest = ""
