from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidegate.aio.parents import dying_with_this


def test_a_process_dies_with_its_parent() -> None:
    armed = "from tidegate.aio.parents import die_with_parent; die_with_parent()"
    child = f"import signal; {armed}; print(flush=True); signal.pause()"
    parent = (
        "import subprocess, sys, signal\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert _ends(pid)


def test_what_a_process_forks_dies_with_it_from_the_beginning_and_what_that_forks_is_its_own() -> None:
    parent = """
import os, signal, threading
from tidegate.aio.parents import let_children_die_with_this

def fork():
    forked.append(os.fork())
    if forked == [0]:
        signal.pause()

let_children_die_with_this()
if os.fork() == 0:
    forked = []
    thread = threading.Thread(target=fork)  # it ends, and its child lives
    thread.start()
    thread.join()
    print(os.getpid(), *forked, flush=True)
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child, grandchild = map(int, process.stdout.readline().split())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert _ends(child)
    assert not _has_ended(grandchild)
    os.kill(grandchild, signal.SIGKILL)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel tells of the end of a parent on Linux only"
)
def test_a_command_dies_with_the_thread_that_starts_it() -> None:
    started: list[subprocess.Popen[bytes]] = []
    go_on = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(dying_with_this(["sleep", "600"]), start_new_session=True))
        go_on.wait()

    thread = threading.Thread(target=start)
    thread.start()
    while not started or Path(f"/proc/{started[0].pid}/comm").read_text(encoding="ascii") != "sleep\n":
        assert not started or started[0].poll() is None
    go_on.set()
    thread.join()
    assert started[0].wait(10) == -signal.SIGKILL


def _ends(pid: int) -> bool:
    """Whether a process that is not our child ends within ten seconds."""
    ended = threading.Event()
    for _ in range(500):
        if _has_ended(pid):
            return True
        ended.wait(0.02)
    return False


def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
