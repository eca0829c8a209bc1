"""Makes processes end with their parent, however it ended, so that no process outlives a killed parent.

By the kernel on Linux (``PR_SET_PDEATHSIG``), else by looking.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5
"""How late an orphan ends where the kernel sends no signal, in seconds. Chosen, not measured."""
_DIE_WITH_PARENT = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def die_with_parent(parent_pid: int | None = None) -> None:
    """Kills this process when its parent ends: by the kernel on Linux, else by polling. For the kernel the parent is the thread that started this
    process, which must live as long as this process may."""
    expected = parent_pid or os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != expected:  # it died before the kernel knew
            os.kill(os.getpid(), signal.SIGKILL)
        return
    threading.Thread(target=_watch_parent, args=(expected,), name="parent watch", daemon=True).start()


def let_children_die_with_this() -> None:
    """Makes every process that this one forks from now on die with it, from its first instruction. Their own forks are excepted, since a thread of user
    code that forks may end before its child."""
    parent, is_child = os.getpid(), False

    def in_child() -> None:
        nonlocal is_child
        if not is_child:
            is_child = True
            die_with_parent(parent)

    os.register_at_fork(after_in_child=in_child)


def dying_with_this(command: Sequence[str]) -> list[str]:
    """Returns a command whose process dies with the thread that starts it; this process itself must start it. Returns the command unchanged on systems
    other than Linux."""
    if not sys.platform.startswith("linux"):
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def _watch_parent(expected: int) -> None:
    while os.getppid() == expected:
        time.sleep(_POLL_S)
    os._exit(1)
