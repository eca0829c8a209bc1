"""Keeps workers running when Spark replaces their Python daemon.

Spark starts its workers one after the other. When a worker is not forked within 60 s, or the thread that waits for it is interrupted because its job is
cancelled, Spark takes the daemon for lost, ends it with SIGTERM and starts another (Spark: ``PythonWorkerFactory.createThroughDaemon``). PySpark's daemon then
kills its workers. Ours forks nothing more, and ends when its last worker has ended, or with the JVM.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

LOOK_S = 0.5
"""Seconds between two looks whether a replaced daemon can end. Chosen, not measured."""


def leave_workers_be() -> None:
    """Installs a SIGTERM handler that lets the workers finish. It is installed at the first fork: PySpark sets its own handler before."""
    daemon, jvm, has_begun = os.getpid(), os.getppid(), False

    def begin() -> None:
        nonlocal has_begun
        if not has_begun and os.getpid() == daemon:
            has_begun = True
            signal.signal(signal.SIGTERM, retire)

    def retire(number: int, frame: FrameType | None) -> None:
        """Waits for the workers and ends the process. Never returns, since the code after it would end the workers."""
        if os.getpid() != daemon:  # a worker that PySpark has not yet given its own handler
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        signal.signal(number, signal.SIG_IGN)
        while os.getppid() == jvm and has_children():
            time.sleep(LOOK_S)
        os._exit(0)

    os.register_at_fork(after_in_parent=begin)


def has_children() -> bool:
    """Tells whether this process has children that run, or that it has not waited for yet."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
