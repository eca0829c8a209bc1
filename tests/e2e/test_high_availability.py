"""Jobs outlive their JobManager: the next one goes on with them, and the result is exact."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path

from tests.e2e.cluster import JOBS, MARK, Cluster, run_cli
from tests.e2e.conftest import ensure_taskmanagers
from tests.e2e.counts_run import CountsRun
from tests.e2e.test_commands import START_LIMIT_S, environment, short_tmp  # noqa: F401
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

SEED = 20261123
_JOB_LIMIT_S = 120


def kept_in(directory: Path) -> dict[str, str]:
    return {"high-availability.type": "filesystem", "high-availability.storageDir": str(directory)}


def test_the_result_is_exact_although_the_jobmanager_is_killed_again_and_again(tmp_path: Path) -> None:
    """At random moments, three times; the job is never submitted again, and its attempts have numbers that never came before."""
    draw = random.Random(SEED)
    run = CountsRun(tmp_path / "run", seconds=16, rows=128_000, splits=4)
    with Cluster(tmp_path / "cluster", kept_in(tmp_path / "ha")) as cluster:
        ensure_taskmanagers(cluster, 2)
        watch = run.submit(cluster, parallelism=4)
        attempts: list[set[int]] = []
        for _ in range(3):
            watch.wait_running()
            attempts.append(_attempts_of(watch))
            completed = watch.last.status.checkpoints_completed if watch.last else 0
            watch.wait_checkpoints(completed + draw.randint(1, 3))
            threading.Event().wait(draw.uniform(0, run.parsed.interval / 1000))
            watch = _next_job_manager(cluster, watch.job_id)
            assert cluster.checkpoints(watch.job_id).restored >= 1
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        assert all(max(before) < min(after) for before, after in itertools.pairwise(attempts)), attempts
        assert list((tmp_path / "ha" / "default" / "execution-plans").iterdir()) == []
        assert list((tmp_path / "ha" / "default" / "blobs").iterdir()) == []


def _next_job_manager(cluster: Cluster, job_id: str) -> JobWatch:
    assert cluster.job_manager is not None
    cluster.kill9(cluster.job_manager)
    cluster.start_job_manager()
    return cluster.watch(job_id)


def _attempts_of(watch: JobWatch) -> set[int]:
    assert watch.last is not None
    return {subtask.attempt for vertex in watch.last.status.vertices for subtask in vertex.subtasks}


def test_a_standby_takes_over_at_the_ports_of_the_leader(tmp_path: Path) -> None:
    """Nobody starts anything after the kill. The standby holds no port before it leads."""
    run = CountsRun(tmp_path / "run", seconds=10, rows=80_000)
    with Cluster(tmp_path / "cluster", kept_in(tmp_path / "ha")) as cluster:
        ensure_taskmanagers(cluster, 1)
        leader = cluster.job_manager
        assert leader is not None
        standby = cluster.start_standby()
        wait_until(
            lambda: standby.says(f"standby: the JobManager with pid {leader.pid} leads"), HANG_LIMIT_S, "it stands by"
        )
        watch = run.submit(cluster)
        watch.wait_checkpoints(3)
        killed_at = cluster.kill9(leader)
        cluster.wait_led()
        print(f"the standby leads {time.monotonic() - killed_at:.2f} s after the kill")
        watch = cluster.watch(watch.job_id)
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()


def test_cluster_stop_suspends_jobs_and_cluster_start_goes_on_with_them(
    tmp_path: Path,
    short_tmp: Path,  # noqa: F811
) -> None:
    """With the defaults: no option says where anything is kept."""
    run = CountsRun(tmp_path / "run", seconds=12, rows=96_000)
    env = {**environment(short_tmp), "TIDEGATE_HOME": str(tmp_path / "home"), MARK: short_tmp.name}
    ports = ["-Djobmanager.rpc.port=0", "-Drest.port=0"]

    def cli(*arguments: str, **more: str) -> str:
        done = run_cli(*arguments, directory=tmp_path, limit_s=START_LIMIT_S, **{**env, **more})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        address = _address_in(cli("cluster", "start", "--slots", "2", *ports))
        job = ["run", "--detached", "-m", address, "-p", "2", str(JOBS / "counts.py"), *run.arguments]
        job_id = cli(*job).split()[-1]
        wait_until(lambda: run.output.exists() and run.result() != [], HANG_LIMIT_S, "the job has published something")
        stopped = cli("cluster", "stop")
        assert f"Suspended job {job_id}" in stopped
        before = run.result()
        started = cli("cluster", "start", "--slots", "2", *ports)
        assert f"Going on with job {job_id}" in started
        address = _address_in(started)
        wait_until(lambda: "No running jobs" in cli("list", "-m", address), _JOB_LIMIT_S, "the job has finished")
        run.assert_exact()
        assert len(run.result()) > len(before)
        assert "Suspended" not in cli("cluster", "stop")
    finally:
        cli("cluster", "stop")


def _address_in(said: str) -> str:
    return said.split("JobManager at ")[1].split()[0]
