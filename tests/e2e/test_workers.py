"""TaskManagers that come when jobs need slots, and go when nobody does: with the defaults of the commands, on this machine and by a scheduler."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.pb import jobmanager_pb2 as pb

WORKERS = {"tidegate.resourcemanager.driver": "process", "taskmanager.numberOfTaskSlots": "3"}
SOON = {"resourcemanager.taskmanager-timeout": "1 s"}
_JOB_LIMIT_S = 240


def workers_of(cluster: Cluster) -> dict[str, str]:
    return {worker.worker_id: worker.state for worker in cluster.cluster_status().workers}


def test_a_job_of_nine_gets_three_task_managers_and_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    run = CountsRun(tmp_path / "run", seconds=12, rows=72_000, splits=9)
    with Cluster(tmp_path / "cluster", {**WORKERS, **SOON}) as cluster:
        submitted = time.monotonic()
        watch = run.submit(cluster, parallelism=9)
        waiting = watch.wait_for(
            lambda m: "starting" in m.status.waiting_for, HANG_LIMIT_S, "it says what it waits for"
        )
        assert waiting.status.waiting_for == "9 of 9 slots; 3 TaskManagers starting"
        watch.wait_running(_JOB_LIMIT_S)
        print(f"RUNNING {time.monotonic() - submitted:.1f} s after the submission, on three TaskManagers")
        first = workers_of(cluster)
        assert sorted(first.values()) == ["REGISTERED"] * 3
        watch.wait_checkpoints(2)
        victim = cluster.cluster_status().task_managers[0]
        os.kill(victim.pid, signal.SIGKILL)
        watch.wait_running_again(0, time.monotonic())
        assert len(workers_of(cluster).keys() - first.keys()) == 1, "one, for the one that is gone"
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        wait_until(lambda: workers_of(cluster) == {}, HANG_LIMIT_S, "those that are idle go")
        assert cluster.job_manager is not None
        left = [p for p in cluster.job_manager.family() if p.pid != cluster.job_manager.pid]
        assert left == []


def test_a_job_restarts_on_the_redundant_one_while_the_next_one_is_started(tmp_path: Path) -> None:
    run = CountsRun(tmp_path / "run", held=True, seconds=12, rows=24_000, splits=3)
    with Cluster(tmp_path / "cluster", {**WORKERS, "slotmanager.redundant-taskmanager-num": "1"}) as cluster:
        watch = run.submit(cluster, parallelism=3)
        watch.wait_running(_JOB_LIMIT_S)
        watch.wait_checkpoints(2)
        wait_until(lambda: list(workers_of(cluster).values()) == ["REGISTERED"] * 2, _JOB_LIMIT_S, "one is redundant")
        [busy], [redundant] = busy_and_idle(cluster)
        os.kill(busy.pid, signal.SIGKILL)
        watch.wait_running_again(0, time.monotonic())
        [now], _ = busy_and_idle(cluster)
        assert now.task_manager_id == redundant.task_manager_id
        wait_until(lambda: list(workers_of(cluster).values()) == ["REGISTERED"] * 2, _JOB_LIMIT_S, "one is again")
        run.release()
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()


def busy_and_idle(cluster: Cluster) -> tuple[list[pb.TaskManagerStatus], list[pb.TaskManagerStatus]]:
    machines = list(cluster.cluster_status().task_managers)
    busy = [machine for machine in machines if any(slot.job_id for slot in machine.slots)]
    return busy, [machine for machine in machines if machine not in busy]


def test_starts_that_fail_again_and_again_are_one_error_on_the_job(tmp_path: Path) -> None:
    settings = {**WORKERS, "resourcemanager.start-worker.max-failure-rate": "1", "taskmanager.bind-host": "192.0.2.1"}
    with Cluster(tmp_path / "cluster", settings) as cluster:
        done = cluster.cli(
            "run",
            "--jobmanager",
            cluster.address,
            str(JOBS / "counts.py"),
            f"--output={tmp_path / 'out'}",
            f"--trace={tmp_path}",
        )
        assert done.returncode == 1
        [said] = [line for line in done.stderr.splitlines() if "TaskManagers do not start" in line]
        assert "2 starts have failed within a minute" in said
        assert "192.0.2.1" in said, "and why"


@pytest.fixture
def spooler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A batch scheduler of its own for this test (Debian's task-spooler), that runs four at once."""
    command = shutil.which("tsp")
    assert command is not None, "task-spooler is not installed"
    monkeypatch.setenv("TS_SOCKET", str(tmp_path / "tsp.socket"))
    subprocess.run([command, "-S", "4"], check=True, timeout=HANG_LIMIT_S)
    yield command
    with contextlib.suppress(subprocess.SubprocessError):
        subprocess.run([command, "-K"], check=False, timeout=HANG_LIMIT_S)


def test_a_scheduler_runs_the_task_managers(tmp_path: Path, spooler: str) -> None:
    """Started, listed and ended by the scheduler's own client. The JobManager that is killed meanwhile finds them there."""
    run = CountsRun(tmp_path / "run", seconds=14, rows=28_000, splits=2)
    settings = {
        **SOON,
        "tidegate.resourcemanager.driver": "command",
        "tidegate.resourcemanager.command.start": f"env TMPDIR={tmp_path} {spooler} -L {{id}} {{command}}",
        "tidegate.resourcemanager.command.stop": f"{spooler} -k {{job}}",
        "tidegate.resourcemanager.command.list": f"sh -c '{spooler} | grep -v finished'",
        "tidegate.resourcemanager.command.list-interval": "200 ms",
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "ha"),
        "tidegate.jobmanager.adoption-timeout": "60 s",
    }
    with Cluster(tmp_path / "cluster", settings) as cluster:
        watch = run.submit(cluster, parallelism=2)
        watch.wait_running(_JOB_LIMIT_S)
        watch.wait_checkpoints(2)
        first = workers_of(cluster)
        assert len(first) == 2
        assert cluster.job_manager is not None
        cluster.kill9(cluster.job_manager)
        cluster.start_job_manager()
        watch = cluster.watch(watch.job_id)
        watch.wait_running(_JOB_LIMIT_S)
        assert watch.last is not None
        assert watch.last.status.restarts == 0, "its subtasks were adopted"
        assert workers_of(cluster).keys() == first.keys()
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        wait_until(lambda: workers_of(cluster) == {}, HANG_LIMIT_S, "those that are idle go")
        listed = subprocess.run([spooler], check=True, capture_output=True, text=True, timeout=HANG_LIMIT_S).stdout
        assert [line for line in listed.splitlines() if "running" in line] == []


def test_what_tidegate_cluster_starts_by_itself_it_also_stops(tmp_path: Path) -> None:
    with Cluster(tmp_path / "harness") as harness:
        home = ["--dir", str(tmp_path / "home"), "-Djobmanager.rpc.port=0", "-Drest.port=0"]
        started = harness.cli("cluster", "start", "--taskmanagers", "0", "--slots", "2", *home)
        assert started.returncode == 0, started.stderr
        try:
            address = started.stdout.split("JobManager at ")[1].split(" ")[0]
            words = tmp_path / "words.txt"
            words.write_text("to be or not to be\n")
            counted = ["run", "--jobmanager", address, "-p", "2", str(JOBS.parents[2] / "examples" / "word_count.py")]
            done = harness.cli(*counted, "--output", str(tmp_path / "counts"), str(words))
            assert done.returncode == 0, done.stderr
            status = harness.cli("cluster", "status", *home)
            assert status.returncode == 0, status.stdout
            assert "started when needed" in status.stdout
        finally:
            stopped = harness.cli("cluster", "stop", *home)
        assert stopped.stdout.count("Stopped ") == 2, stopped.stdout
        mine = str(tmp_path / "home")
        left = [p.pid for p in psutil.process_iter() if mine in " ".join(_command_of(p))]
        assert left == []


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
