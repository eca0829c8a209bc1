"""Exit codes of a daemon's children reach the TaskManager, also when the daemon is late to note them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from tidegate.taskmanager.spark.worker_exits import ENVIRONMENT_KEY, take_exit

LIMIT_S = 60.0
_ENDS = (3, 0, -signal.SIGKILL)
_DAEMON = """
import os, signal, sys
from tidegate.taskmanager.spark.worker_exits import note_exits
note_exits()
for end in map(int, sys.argv[1:]):
    pid = os.fork()
    if not pid:
        os.read(0, 1)
        os._exit(end) if end >= 0 else os.kill(os.getpid(), -end)
    print(pid, flush=True)
while True:
    signal.pause()
"""


def test_the_exit_codes_of_children_are_noted_although_their_daemon_stood_still_when_they_ended(tmp_path: Path) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-c", _DAEMON, *map(str, _ENDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, ENVIRONMENT_KEY: str(tmp_path)},
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        children = [psutil.Process(int(daemon.stdout.readline())) for _ in _ENDS]
        daemon.send_signal(signal.SIGSTOP)
        daemon.stdin.write("." * len(children))
        daemon.stdin.flush()
        with ThreadPoolExecutor() as pool:
            taken = [pool.submit(take_exit, tmp_path, child.pid, LIMIT_S) for child in children]
            _, late = psutil.wait_procs(children, timeout=0.2)
            assert len(late) == len(children), "the kernel knows them until the daemon has noted their ends"
            assert not any(one.done() for one in taken)
            daemon.send_signal(signal.SIGCONT)
            assert [one.result(LIMIT_S) for one in taken] == [3, None, -signal.SIGKILL]
        assert list(tmp_path.iterdir()) == []
        assert take_exit(tmp_path, os.getpid(), 0.0) is None
    finally:
        daemon.kill()
        daemon.communicate()
