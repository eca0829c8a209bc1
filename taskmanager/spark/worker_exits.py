"""Exit codes of workers: the Python daemon, their parent, notes them, and the TaskManager reads them if both are on one machine.

daemon: SIGCHLD ─▶ a file named after the pid of each child that ended, unless by itself ─▶ the kernel may forget the child
TaskManager: the Spark job of pid n failed ─▶ wait until the kernel has forgotten n ─▶ read and remove file n

The daemon may come to that later than Spark's failure to the TaskManager, on a machine that is busy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from types import FrameType

ENVIRONMENT_KEY = "TIDEGATE__WORKER_EXITS"
"""Environment variable with the directory for the daemon's notes. If the directory does not exist, as on another machine, nothing is noted."""
NOTED_WITHIN_S = 2.0
"""How many seconds the note of a worker is waited for while its process is there. Chosen: longer than a daemon on a busy machine takes to note an end."""
_PAUSE_S = 0.005
_IS_SEEN_BEFORE = hasattr(os, "waitid")
"""Whether the exit code of a child is known before the kernel forgets the child: not on macOS before Python 3.13."""


def note_exits() -> None:
    """Installs a SIGCHLD handler that notes exit codes. It is installed at the first fork: until then PySpark's daemon has the kernel forget its children."""
    directory = os.environ.pop(ENVIRONMENT_KEY, "")  # not for user functions: it is no option
    if not directory or not os.path.isdir(directory):
        return
    is_noting = False

    def note(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := _ended_child()) is not None:
                pid, code = ended
                if code:
                    _write(directory, pid, code)
                if _IS_SEEN_BEFORE:
                    os.waitpid(pid, 0)

    def begin() -> None:
        nonlocal is_noting
        if not is_noting:
            is_noting = True
            signal.signal(signal.SIGCHLD, note)

    os.register_at_fork(after_in_parent=begin)


def take_exit(directory: Path, pid: int, limit_s: float) -> int | None:
    """Returns the exit code of a worker, negative for a signal, and removes its note; ``None`` if there is none, since it ended with code 0 or on another
    machine, or has not been forgotten by the kernel after ``limit_s`` seconds. Blocks.
    """
    file, deadline = directory / str(pid), time.monotonic() + limit_s
    while True:
        may_be_noted = _is_known(pid) and time.monotonic() < deadline
        try:
            text = file.read_text(encoding="ascii")
            file.unlink()
            return int(text)
        except FileNotFoundError:
            if not may_be_noted:
                return None
            time.sleep(_PAUSE_S)
        except (OSError, ValueError):
            return None


def _is_known(pid: int) -> bool:
    """Tells whether the kernel knows the process, which may have ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ended_child() -> tuple[int, int] | None:
    """Returns pid and exit code, negative for a signal, of a child that has ended; ``None`` without one."""
    if not _IS_SEEN_BEFORE:
        pid, status = os.waitpid(-1, os.WNOHANG)
        return (pid, os.waitstatus_to_exitcode(status)) if pid else None
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_pid, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _write(directory: str, pid: int, code: int) -> None:
    with contextlib.suppress(OSError):  # the TaskManager is gone with its directory, or its disk is full
        place = os.path.join(directory, str(pid))
        with open(place + ".new", "w", encoding="ascii") as file:
            file.write(str(code))
        os.replace(place + ".new", place)
