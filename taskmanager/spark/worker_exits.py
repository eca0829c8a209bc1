"""Exit codes of workers: the Python daemon, their parent, notes them, and the TaskManager reads them if both are on one machine.

daemon: SIGCHLD ─▶ wait for the children that ended ─▶ a file named after the pid, unless it ended by itself
TaskManager: the Spark job of pid n failed ─▶ read and remove file n
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import FrameType

ENVIRONMENT_KEY = "TIDEGATE__WORKER_EXITS"
"""Environment variable with the directory for the daemon's notes. If the directory does not exist, as on another machine, nothing is noted."""


def note_exits() -> None:
    """Installs a SIGCHLD handler that notes exit codes. It is installed at the first fork: until then PySpark's daemon has the kernel forget its children."""
    directory = os.environ.pop(ENVIRONMENT_KEY, "")  # not for user functions: it is no option
    if not directory or not os.path.isdir(directory):
        return
    is_noting = False

    def note(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                code = os.waitstatus_to_exitcode(status)
                if code:
                    _write(directory, pid, code)

    def begin() -> None:
        nonlocal is_noting
        if not is_noting:
            is_noting = True
            signal.signal(signal.SIGCHLD, note)

    os.register_at_fork(after_in_parent=begin)


def take_exit(directory: Path, pid: int) -> int | None:
    """Returns the exit code of a worker, negative for a signal, and removes its note; ``None`` if there is none, since it ended with code 0 or on another
    machine.
    """
    file = directory / str(pid)
    try:
        text = file.read_text(encoding="ascii")
        file.unlink()
        return int(text)
    except (OSError, ValueError):
        return None


def _write(directory: str, pid: int, code: int) -> None:
    with contextlib.suppress(OSError):  # the TaskManager is gone with its directory, or its disk is full
        place = os.path.join(directory, str(pid))
        with open(place + ".new", "w", encoding="ascii") as file:
            file.write(str(code))
        os.replace(place + ".new", place)
