"""Processes that end: nothing of a dead TaskManager is left, a lost JobManager stops the work, signals leave nothing behind;
and what a lost JobManager's job had checkpointed is taken up again, at the same and at another parallelism."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import DAEMON, END_LIMIT_S, START_LIMIT_S, Cluster, Proc
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

GONE_WITHIN_S = HANG_LIMIT_S
ENDS_WITHIN_S = 5
"""Of a TaskManager that is killed: what it started does not know yet whom it belongs to."""
STARTS_TO_SEE_A_MOMENT = 10
MOMENTS: dict[str, Callable[[Proc], bool]] = {
    "the scripts of Spark run": lambda process: _has(process, "spark-submit"),
    "the JVM starts": lambda process: _has(process, "org.apache.spark.deploy.SparkSubmit", "java"),
    "Spark is up": lambda process: process.says("is up after"),
    "the Python daemon starts": lambda process: _has(process, DAEMON, "python"),
    "its first workers start": lambda process: bool(process.subtasks()),
}
RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        made_ready(cluster, 2)
        yield cluster


def test_nothing_is_left_of_a_killed_taskmanager(cluster: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=5, rows=20_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(1)
    victim = cluster.task_manager_of(watch, "Sink", 0)
    family = victim.family()
    names = {member.name() for member in family}
    assert "java" in names, names
    assert len(victim.subtasks()) >= 3, "it runs subtasks of every vertex"
    cluster.kill9(victim)
    wait_until(lambda: not victim.family(), ENDS_WITHIN_S, "the JVM, the daemon and the subtasks are gone")
    watch.wait_finished(HANG_LIMIT_S)
    run.assert_exact()


@pytest.mark.timeout(600)
def test_nothing_outlives_a_taskmanager_that_is_killed_while_it_starts(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        for moment, has_come in MOMENTS.items():
            victim = _taskmanager_at(cluster, moment, has_come)
            cluster.kill9(victim)
            wait_until(partial(_is_gone, victim), ENDS_WITHIN_S, lambda: f"{moment}: {victim.described()}")  # noqa: B023


def _taskmanager_at(cluster: Cluster, moment: str, has_come: Callable[[Proc], bool]) -> Proc:
    """A TaskManager that was seen at this moment of its start. Some moments last hundredths of a second: where one passes unseen on a busy
    machine, another TaskManager is started."""
    for _ in range(STARTS_TO_SEE_A_MOMENT):
        started = cluster.add_taskmanager(2)
        seen = wait_until(partial(_look_for, has_come, started), START_LIMIT_S, moment)
        if seen == "come":
            return started
        cluster.kill9(started)
    raise AssertionError(f"{STARTS_TO_SEE_A_MOMENT} TaskManagers started, and none was seen when {moment}")


def _look_for(has_come: Callable[[Proc], bool], process: Proc) -> str:
    if has_come(process):
        return "come"
    return "passed" if process.says(" registered at the JobManager") else ""


def _has(process: Proc, argument: str, name: str = "") -> bool:
    """Whether one of its family has such an argument."""
    for member in process.family():
        with contextlib.suppress(psutil.Error):
            if member.name().startswith(name) and any(argument in text for text in member.cmdline()):
                return True
    return False


def _is_gone(process: Proc) -> bool:
    return not process.family()


def test_a_lost_jobmanager_ends_the_work_and_a_new_one_takes_it_up(own_cluster: Cluster, tmp_path: Path) -> None:
    """2 subtasks, kill -9 of the JobManager, ``run -s``: 2 again, then 3, then 1."""
    cluster = own_cluster
    run = CountsRun(tmp_path / "run", seconds=12, rows=60_000, disorder=counts.SPAN_MS)
    watch = run.submit(cluster, settings=RETAINED)
    watch.wait_checkpoints(3)
    subtasks = cluster.subtask_processes()
    task_managers = {process.pid for process in cluster.task_managers}
    assert cluster.job_manager is not None
    cluster.kill9(cluster.job_manager)
    wait_until(lambda: not any(_lives(p) for p in subtasks), GONE_WITHIN_S, "the subtasks are stopped")
    cluster.start_job_manager()
    cluster.wait_slots(4)
    assert {known.pid for known in cluster.cluster_status().task_managers} == task_managers, "the same processes"
    for parallelism in (2, 3):
        watch = run.submit(cluster, parallelism=parallelism, restore=_last_checkpoint(run, watch), settings=RETAINED)
        watch.wait_running()
        watch.wait_checkpoints(2)
        cluster.cancel(watch)
    watch = run.submit(cluster, parallelism=1, restore=_last_checkpoint(run, watch), settings=RETAINED)
    watch.wait_finished(HANG_LIMIT_S)
    assert run.differences() == []
    lives = [seen for seen in run.seen() if seen.role == "fast"]
    assert len(lives) >= 2 + 2 + 2 + 1, "each submission had processes of its own"
    assert sum(seen.first_row in (0, 30_000) for seen in lives) == 2, "only the first job began at the beginning"


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _freeze(victim: Proc) -> None:
    for process in victim.family():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()


def _last_checkpoint(run: CountsRun, watch: JobWatch) -> str:
    found = [path.parent for path in (run.checkpoints / watch.job_id).glob("chk-*/_metadata")]
    assert found, f"no checkpoint of {watch.job_id} was retained"
    return str(max(found, key=lambda path: int(path.name.removeprefix("chk-"))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_process_and_leaves_no_file(tmp_path: Path, number: signal.Signals) -> None:
    """SIGINT goes to the whole process group, as from a terminal; SIGTERM to the process alone. A job is running."""
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.add_taskmanager(2)
        cluster.wait_slots(2)
        run = CountsRun(tmp_path / "run", seconds=60, rows=100_000)
        watch = run.submit(cluster)
        watch.wait_checkpoints(1)
        (task_manager,), job_manager = cluster.task_managers, cluster.job_manager
        assert job_manager is not None
        assert len(task_manager.subtasks()) >= 6
        cluster.end(task_manager, number, to_group=number is signal.SIGINT)
        cluster.end(job_manager, number, to_group=number is signal.SIGINT)
        assert task_manager.popen.returncode == 0
        assert job_manager.popen.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_taskmanager_is_starting(tmp_path: Path, number: signal.Signals) -> None:
    """Its JVM is half up, and not waited for."""
    with Cluster(tmp_path / "cluster") as cluster:
        process = cluster.add_taskmanager(1)
        wait_until(lambda: any(p.name() == "java" for p in process.family()), END_LIMIT_S, "java starts")
        cluster.end(process, number, to_group=number is signal.SIGINT)
        said = process.tail()
        assert "TaskManager is stopped" in said
        assert not [word for word in ("in order", "Traceback", "Exception") if word in said], said


def test_what_a_killed_cluster_has_left_goes_with_the_job_that_continues(tmp_path: Path) -> None:
    """SIGKILL to everything at once, while files are being written; ``run -s`` on a new cluster, to the end."""
    run = CountsRun(tmp_path / "run", seconds=12, rows=60_000)
    with Cluster(tmp_path / "killed") as cluster:
        made_ready(cluster, 2)
        watch = run.submit(cluster, settings=RETAINED)
        watch.wait_checkpoints(3)
        wait_until(lambda: list(run.output.glob(".*.inprogress")), GONE_WITHIN_S, "a file is being written")
        victims = [*cluster.task_managers, cluster.job_manager]
        for (
            victim
        ) in victims:  # first nobody moves, or subtasks that see their TaskManager die would clean up behind themselves
            assert victim is not None
            _freeze(victim)
        for victim in victims:
            assert victim is not None
            victim.popen.kill()
        for victim in victims:
            assert victim is not None
            cluster.kill9(victim)
            wait_until(partial(_is_gone, victim), ENDS_WITHIN_S, lambda: f"nothing is left: {victim.described()}")  # noqa: B023
    assert list(run.output.glob(".*.writer")), "the killed writers have left their locks"
    with Cluster(tmp_path / "next") as cluster:
        made_ready(cluster, 2)
        watch = run.submit(cluster, restore=_last_checkpoint(run, watch))
        watch.wait_finished(HANG_LIMIT_S)
        run.assert_exact()
    job = run.checkpoints / watch.job_id
    assert not job.exists(), "nothing is kept of a job that has finished"
