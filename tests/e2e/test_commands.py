"""The command line as processes, without any TaskManager: what it starts, it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.waiting import wait_until

JOB = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).print()
env.execute("tiny")
"""
FREE_PORTS = ("-D", "jobmanager.rpc.port=0", "-D", "rest.port=0")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "cli.main", *(str(argument) for argument in arguments)]


def tidegate(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Its directory and the JobManager's address."""
    directory = tmp_path / "cluster"
    started = tidegate("cluster", "start", "--taskmanagers", 0, "--dir", directory, *FREE_PORTS)
    assert started.returncode == 0, started.stderr
    try:
        yield directory, started.stdout.split()[2]
    finally:
        tidegate("cluster", "stop", "--dir", directory)


def test_a_cluster_starts_says_how_it_is_and_stops(cluster: tuple[Path, str]) -> None:
    directory, address = cluster
    status = tidegate("cluster", "status", "--dir", directory)
    assert status.returncode == 0, status.stdout
    assert f"JobManager at {address}" in status.stdout
    assert "alive" in status.stdout
    again = tidegate("cluster", "start", "--dir", directory)
    assert (again.returncode, "a cluster is running already" in again.stderr) == (2, True)
    pid = int((directory / "pid" / "jobmanager.pid").read_text().split()[0])
    stopped = tidegate("cluster", "stop", "--dir", directory)
    assert stopped.stdout == f"Stopped jobmanager (pid {pid}).\n"
    assert not psutil.pid_exists(pid)
    assert list((directory / "pid").iterdir()) == []
    assert tidegate("cluster", "status", "--dir", directory).returncode == 1


def test_a_dead_process_is_told(cluster: tuple[Path, str]) -> None:
    directory, _ = cluster
    pid = int((directory / "pid" / "jobmanager.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], 5)
    status = tidegate("cluster", "status", "--dir", directory)
    assert (status.returncode, "dead" in status.stdout) == (1, True)


def test_jobs_are_submitted_listed_and_cancelled(cluster: tuple[Path, str], tmp_path: Path) -> None:
    _, address = cluster
    job = tmp_path / "job.py"
    job.write_text(JOB)
    submitted = tidegate("run", "-d", "-m", address, job)
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.split()[-1]
    listed = tidegate("list", "-m", address)
    assert job_id in listed.stdout
    assert "waiting for 1 of 1 slots" in listed.stdout
    assert tidegate("checkpoints", "-m", address, job_id).stdout.startswith("completed 0, failed 0")
    assert f"Cancelled job {job_id}." in tidegate("cancel", "-m", address, job_id).stdout
    wait_until(lambda: "CANCELED" in tidegate("list", "-a", "-m", address).stdout, 30, "CANCELED")
    assert tidegate("list", "-m", address).stdout.startswith("No running jobs")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_an_attached_run_cancels_the_job(
    cluster: tuple[Path, str], tmp_path: Path, number: signal.Signals
) -> None:
    _, address = cluster
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with subprocess.Popen(
        command("run", "-m", address, job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        wait_until(lambda: "RUNNING" in run.stderr.readline(), 30, "RUNNING")  # type: ignore[union-attr]
        run.send_signal(number)
        _, errors = run.communicate(timeout=30)
    assert run.returncode == 1
    assert "was canceled" in errors.splitlines()[-1]
    assert "CANCELED" in tidegate("list", "-a", "-m", address).stdout


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = tidegate(
            "jobmanager", "--host", "127.0.0.1", "--rpc-port", port, "--rest-port", 0, "--log-file", os.devnull
        )
    assert refused.returncode == 1
    assert refused.stderr == (
        f"error: cannot start the JobManager on 127.0.0.1:{port}: Address already in use; choose another port\n"
    )


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    child = command("jobmanager", *FREE_PORTS, "--exit-with-parent", "--ready-file", ready, "--log-file", os.devnull)
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({child!r})"])
    wait_until(ready.exists, 30, "the child is ready")
    [grandchild] = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    grandchild.wait(15)
