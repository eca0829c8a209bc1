"""Functions that do not want to end, and processes that end without a word: what the runtime does, and what people can see of it."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch, exceptions_of

DEAF = ("sleeps", "ignores_sigterm")
"""An interrupt brings them back."""
DUMB = ("swallows_everything", "spins_in_native_code")
"""Only the end of their process does."""
NO_RESTART = {"restart-strategy.type": "none"}


def submit(cluster: Cluster, directory: Path, kind: str) -> JobWatch:
    return cluster.submit(JOBS / "stubborn.py", kind, str(directory / kind), parallelism=1, settings=NO_RESTART)


def process_of(directory: Path, kind: str) -> psutil.Process:
    """Returns the process of the function that is stuck now."""
    mark = directory / kind
    wait_until(mark.exists, HANG_LIMIT_S, f"{kind} is stuck")
    return psutil.Process(int(mark.read_text()))


def wait_gone(process: psutil.Process, kind: str) -> None:
    """Its end is known by its closed connections, a moment before the kernel has taken its memory back."""
    wait_until(lambda: not process.is_running(), HANG_LIMIT_S, f"the process of {kind} is gone")


def test_stubborn_functions_are_cancelled_and_their_slots_are_free_when_their_processes_are_gone(
    cluster: Cluster, run_directory: Path
) -> None:
    watches = {kind: submit(cluster, run_directory, kind) for kind in (*DEAF, *DUMB)}
    processes = {kind: process_of(run_directory, kind) for kind in watches}
    for kind, process in processes.items():
        assert " ".join(process.cmdline()).startswith("tidegate subtask Source: Collection Source -> Map"), kind
    threads = thread_dump(cluster)
    for kind in watches:
        assert any("stubborn.py" in stack and kind in stack for stack in threads), f"{kind}: {threads}"
    for kind, watch in watches.items():
        began = time.monotonic()
        cluster.cancel(watch)
        print(f"{kind} was cancelled after {time.monotonic() - began:.1f} s")
        wait_gone(processes[kind], kind)
        killed = [entry["stacktrace"] for entry in exceptions_of(cluster.rest_port, watch.job_id)]
        assert len(killed) == (kind in DUMB), killed
        for trace in killed:
            assert f"(process {processes[kind].pid}) goes on although it was interrupted" in trace
            assert (f"in {kind}" in trace) == (kind != "spins_in_native_code"), trace
    cluster.wait_slots(4)
    logs = cluster.logs()
    assert "the task does not react to its cancellation and is interrupted" in logs
    assert "in sleeps" in logs
    for kind in watches:
        assert (f"(process {processes[kind].pid}) goes on although it was interrupted" in logs) == (kind in DUMB), kind


@pytest.mark.parametrize(
    ("kind", "end"), [("is_killed", "was ended by SIGKILL (signal 9)"), ("exits", "ended with exit code 7")]
)
def test_a_process_that_ends_without_a_word_is_told_of_with_its_exit(
    cluster: Cluster, run_directory: Path, kind: str, end: str
) -> None:
    watch = submit(cluster, run_directory, kind)
    failed = watch.wait_for(lambda m: m.status.state == "FAILED", HANG_LIMIT_S, "the job has FAILED")
    pid = (run_directory / kind).read_text()
    assert f"(pid {pid} on " in str(failed.status.failure)
    assert end in str(failed.status.failure)


def thread_dump(cluster: Cluster) -> list[str]:
    """The stacks of all TaskManagers' threads, by REST."""
    status = cluster.cluster_status()
    found = []
    for task_manager in status.task_managers:
        address = f"http://127.0.0.1:{status.rest_port}/taskmanagers/{task_manager.task_manager_id}/thread-dump"
        with urllib.request.urlopen(address, timeout=HANG_LIMIT_S) as answer:
            found += [thread["stringifiedThreadInfo"] for thread in json.load(answer)["threadInfos"]]
    return found
