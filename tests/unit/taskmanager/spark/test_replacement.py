"""Workers of a Python daemon that Spark replaces: real processes, a test in place of the JVM."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

COMMAND = [sys.executable, "-m", "tidegate.taskmanager.spark.daemon", "pyspark.worker"]
LIMIT_S = 60
PARENT = """
import subprocess, sys, time
daemon = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
sys.stdout.buffer.write(daemon.stdout.read(4))
sys.stdout.flush()
sys.stdin.read()
daemon.terminate()
print("replaced", flush=True)
time.sleep(1000)
"""
"""A JVM: tells the daemon's port, and replaces the daemon when its standard input ends."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are looked at in /proc")


def read_int(read: Callable[[int], bytes]) -> int:
    return int(struct.unpack(">i", read(4))[0])


def until(condition: Callable[[], bool], what: str) -> None:
    gives_up_at = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < gives_up_at, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


class Daemon:
    """As Spark starts it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = read_int(self.process.stdout.read)
        self._sockets: list[socket.socket] = []

    def worker(self) -> int:
        """The pid of one more, which waits for the first word of Spark."""
        dialed = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        self._sockets.append(dialed)
        return read_int(dialed.recv)

    def replace(self) -> None:
        """As ``Process.destroy`` of Java: the signal, then its pipes are closed."""
        self.process.terminate()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (*self._sockets, self.process.stdin, self.process.stdout):
            if each is not None:
                each.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    started = Daemon()
    yield started
    started.close()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_workers_outlive_the_replacement_of_their_daemon_and_it_ends_with_the_last(
    daemon: Daemon, is_stopped: bool
) -> None:
    workers = [daemon.worker(), daemon.worker()]
    if is_stopped:
        daemon.process.send_signal(signal.SIGSTOP)
    daemon.replace()
    if is_stopped:
        daemon.process.send_signal(signal.SIGCONT)
    until(lambda: ignores_terminate(daemon.process.pid), "it has taken the signal")
    os.kill(workers[0], signal.SIGKILL)
    until(lambda: not lives(workers[0]), "one worker ends")
    assert lives(workers[1])
    assert daemon.process.poll() is None, "it is the parent of a worker that runs"
    os.kill(workers[1], signal.SIGKILL)
    assert daemon.process.wait(LIMIT_S) == 0, "PySpark's own ends with 1, and its workers before"


def test_a_daemon_that_was_replaced_and_its_workers_end_with_the_jvm() -> None:
    command = [sys.executable, "-c", PARENT, *COMMAND]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jvm:
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        port = read_int(jvm.stdout.read)
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as dialed:
            worker = read_int(dialed.recv)
            (daemon,) = psutil.Process(jvm.pid).children()
            jvm.stdin.close()
            assert jvm.stdout.readline() == b"replaced\n"
            until(lambda: ignores_terminate(daemon.pid), "it has taken the signal")
            assert lives(worker)
            jvm.kill()
            until(lambda: not lives(daemon.pid) and not lives(worker), "both end")


def ignores_terminate(pid: int) -> bool:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        ignored = next(line.split()[1] for line in file if line.startswith("SigIgn:"))
    return bool(int(ignored, 16) >> (signal.SIGTERM - 1) & 1)
