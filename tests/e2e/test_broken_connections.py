"""Connections that break, and processes that stand still for a while, between processes that live: no attempt ends, and the result is exact.
One that is killed is lost at once all the same."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Proc
from tests.e2e.counts_run import CountsRun
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch, Moment
from tests.servers.tcp_proxy import TcpProxy

BACK = "is back"
JOBMANAGER_STOPPED_S, TASKMANAGER_STOPPED_S = 30, 30
"""Less than ``heartbeat.timeout``, 50 s; longer than what gRPC waits for the answer to a ping, 15 s."""
SEEN_WITHIN_S = 2.0
"""The loss of a process that was killed, on a busy machine, with a time to come back of ten minutes: 0.05 s on an idle one."""


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[tuple[Cluster, TcpProxy]]:
    """A TaskManager that reaches its JobManager through a proxy."""
    with Cluster(tmp_path / "cluster") as cluster, TcpProxy(cluster.address) as proxy:
        cluster.add_taskmanager(2, "--jobmanager", proxy.address)
        cluster.wait_slots(2)
        yield cluster, proxy


def exact_without_a_restart(cluster: Cluster, directory: Path, strike: Callable[[JobWatch], None]) -> None:
    """The job of which ``strike`` must end no attempt, to its exact end."""
    run = CountsRun(directory, held=True, seconds=5, rows=20_000)
    watch = run.submit(cluster)
    watch.wait_checkpoints(2)
    before = attempts(watch.wait_running())
    processes = sorted(process.pid for process in cluster.subtask_processes())
    strike(watch)
    assert watch.last is not None
    watch.wait_checkpoints(watch.last.status.checkpoints_completed + 2, since=time.monotonic())
    run.release()
    after = watch.wait_finished(HANG_LIMIT_S)
    assert after.status.restarts == 0, watch.summary()
    assert attempts(after) == before
    assert {seen.pid for seen in run.seen()} <= set(processes), "the processes of before"
    run.assert_exact()


def attempts(moment: Moment) -> list[int]:
    return [subtask.attempt for vertex in moment.status.vertices for subtask in vertex.subtasks]


def test_a_connection_that_is_cut_restarts_nothing(reached: tuple[Cluster, TcpProxy], tmp_path: Path) -> None:
    cluster, proxy = reached

    def cut(watch: JobWatch) -> None:
        proxy.cut()
        wait_until(lambda: job_manager(cluster).says("ms to reconnect"), HANG_LIMIT_S, "the JobManager has noticed")
        proxy.mend()
        wait_until(lambda: job_manager(cluster).says(BACK), HANG_LIMIT_S, "it is back")

    exact_without_a_restart(cluster, tmp_path / "run", cut)


def job_manager(cluster: Cluster) -> Proc:
    assert cluster.job_manager is not None
    return cluster.job_manager


def stop_for(process: Proc, seconds: float) -> None:
    process.send(signal.SIGSTOP)
    threading.Event().wait(seconds)
    process.send(signal.SIGCONT)


def test_a_jobmanager_that_stands_still_for_a_while_restarts_nothing(cluster: Cluster, tmp_path: Path) -> None:
    exact_without_a_restart(
        cluster, tmp_path / "run", lambda watch: stop_for(job_manager(cluster), JOBMANAGER_STOPPED_S)
    )


def test_a_taskmanager_that_stands_still_for_a_while_restarts_nothing(cluster: Cluster, tmp_path: Path) -> None:
    exact_without_a_restart(
        cluster,
        tmp_path / "run",
        lambda watch: stop_for(cluster.task_manager_of(watch, "Sink", 0), TASKMANAGER_STOPPED_S),
    )


def test_a_taskmanager_that_is_killed_is_lost_at_once(tmp_path: Path) -> None:
    settings = {"tidegate.taskmanager.reconnect-timeout": "10 min"}
    with Cluster(tmp_path / "cluster", settings) as cluster:
        cluster.add_taskmanager(2)
        cluster.wait_slots(2)
        run = CountsRun(tmp_path / "run", held=True, seconds=5, rows=20_000)
        watch = run.submit(cluster)
        watch.wait_checkpoints(1)
        victim = cluster.task_managers[0]
        killed = cluster.kill9(victim)
        lost = watch.wait_for(lambda moment: moment.status.state == "RESTARTING", HANG_LIMIT_S, "it is lost", killed)
        print(f"the loss was seen after {lost.at - killed:.3f} s")
        assert lost.at - killed < SEEN_WITHIN_S
        assert "its process is gone" in lost.status.failure.message
        cluster.cancel(watch)
        wait_until(lambda: not victim.family(), HANG_LIMIT_S, "what it had started is gone")
