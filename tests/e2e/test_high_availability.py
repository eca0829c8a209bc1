"""Jobs outlive their JobManager: the next one goes on with them, and the result is exact."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from pathlib import Path

from tests.e2e.cluster import JOBS, MARK, Cluster, run_cli
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.test_commands import START_LIMIT_S, environment, short_tmp  # noqa: F401
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

SEED = 20261123
_JOB_LIMIT_S = 120
WAITS_LONG = {"tidegate.jobmanager.adoption-timeout": "60 s"}
"""Longer than any TaskManager of a test needs to register: what is asserted does not depend on the speed of the machine."""


def kept_in(directory: Path) -> dict[str, str]:
    return {"high-availability.type": "filesystem", "high-availability.storageDir": str(directory)}


def test_subtasks_go_on_while_one_jobmanager_follows_another(surviving_cluster: Cluster, tmp_path: Path) -> None:
    """The first is killed and started again; then a standby, which holds no port before it leads, takes over by itself. No subtask is
    restarted or restored, and checkpoints go on within seconds."""
    draw = random.Random(SEED)
    run, cluster = CountsRun(tmp_path / "run", held=True, seconds=8, rows=40_000, splits=4), surviving_cluster
    store = Path(cluster.settings["high-availability.storageDir"]) / "default"
    watch = run.submit(cluster, parallelism=4)
    watch.wait_running()
    first = _attempts_of(watch)

    def check(killed_at: float) -> None:
        watch.wait_running()
        assert _attempts_of(watch) == first
        told = watch.wait_checkpoints(1)
        print(f"the next checkpoint is completed {told.at - killed_at:.2f} s after the kill")
        assert told.status.restarts == 0
        assert cluster.checkpoints(watch.job_id).restored == 0

    watch.wait_checkpoints(2)
    threading.Event().wait(draw.uniform(0, run.parsed.interval / 1000))
    killed_at = time.monotonic()
    watch = _next_job_manager(cluster, watch.job_id)
    check(killed_at)
    leader = cluster.job_manager
    assert leader is not None
    standby = cluster.start_standby()
    wait_until(lambda: standby.says(f"standby: the JobManager with pid {leader.pid} leads"), 60, "it stands by")
    threading.Event().wait(draw.uniform(0, run.parsed.interval / 1000))
    killed_at = cluster.kill9(leader)
    cluster.wait_led()
    print(f"the standby leads {time.monotonic() - killed_at:.2f} s after the kill")
    watch = cluster.watch(watch.job_id)
    check(killed_at)
    run.release()
    watch.wait_finished(_JOB_LIMIT_S)
    run.assert_exact()
    wait_until(lambda: not list(store.glob("execution-plans/*")), 60, "no plan is left")
    wait_until(lambda: not list(store.glob("blobs/*")), 60, "no blob is left")


def test_without_a_grace_everything_is_restarted_and_the_result_is_exact(tmp_path: Path) -> None:
    """The JobManager is killed; before that it was stopped for longer than ``heartbeat.timeout``. The job is never submitted again, and its
    attempts have numbers that never came before."""
    run = CountsRun(tmp_path / "run", held=True, seconds=6, rows=48_000, splits=4)
    impatient = {"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s", "tidegate.jobmanager.loss-grace": "0 s"}
    with Cluster(tmp_path / "cluster", {**kept_in(tmp_path / "ha"), **impatient}) as cluster:
        made_ready(cluster, 2)
        leader = cluster.job_manager
        assert leader is not None
        watch = run.submit(cluster, parallelism=4)
        watch.wait_running()
        attempts = [_numbers_of(watch)]
        watch.wait_checkpoints(2)
        leader.send(signal.SIGSTOP)
        wait_until(lambda: cluster.subtask_processes() == [], 30, "subtasks have ended")
        leader.send(signal.SIGCONT)
        watch.wait_running_again(0, time.monotonic())
        attempts.append(_numbers_of(watch))
        watch.wait_checkpoints(4)
        watch = _next_job_manager(cluster, watch.job_id)
        watch.wait_running()
        attempts.append(_numbers_of(watch))
        assert cluster.checkpoints(watch.job_id).restored >= 1
        run.release()
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        assert all(max(before) < min(after) for before, after in itertools.pairwise(attempts)), attempts


def test_only_what_is_lost_with_the_jobmanager_restarts(tmp_path: Path) -> None:
    """Two subtasks, each a region; the TaskManager of one dies with the JobManager, and the leader after that is stopped for longer than
    the other one waits for it."""
    rows, output = 24_000, tmp_path / "output"
    impatient = {"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s", "taskmanager.load-balance.mode": "SLOTS"}
    places = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    with Cluster(tmp_path / "cluster", {**kept_in(tmp_path / "ha"), **impatient}) as cluster:
        made_ready(cluster, 2)
        arguments = [f"--output={output}", f"--rows={rows}", "--seconds=12"]
        watch = cluster.submit(JOBS / "pipelines.py", *arguments, settings={**places, **QUICK_RESTART})
        watch.wait_running()
        before = _attempts_of(watch)
        watch.wait_checkpoints(2)
        victim = cluster.task_manager_of(watch, "numbers", 1)
        assert cluster.job_manager is not None
        cluster.kill9(cluster.job_manager)
        cluster.kill9(victim)
        cluster.start_job_manager()
        watch = cluster.watch(watch.job_id)
        watch.wait_running(_JOB_LIMIT_S)
        after = _attempts_of(watch)
        kept, replaced = sorted(before)
        assert after[kept] == before[kept]
        assert after[replaced] > before[replaced]
        watch.wait_checkpoints(1)
        leader = cluster.job_manager
        assert leader is not None
        leader.send(signal.SIGSTOP)
        lost = "it has been silent for 2 s"
        wait_until(lambda: all(tm.says(lost) for tm in cluster.task_managers), 30, "TaskManagers have given it up")
        leader.send(signal.SIGCONT)
        watch.wait_finished(_JOB_LIMIT_S)
        lines = [line for file in output.rglob("[!.]*") if file.is_file() for line in file.read_text().split()]
        assert sorted(map(int, lines)) == list(range(1, rows + 1))


def _next_job_manager(cluster: Cluster, job_id: str) -> JobWatch:
    assert cluster.job_manager is not None
    cluster.kill9(cluster.job_manager)
    cluster.start_job_manager()
    return cluster.watch(job_id)


def _attempts_of(watch: JobWatch) -> dict[tuple[str, int], int]:
    """Their numbers, by vertex and subtask."""
    assert watch.last is not None
    vertices = watch.last.status.vertices
    return {(vertex.name, subtask.index): subtask.attempt for vertex in vertices for subtask in vertex.subtasks}


def _numbers_of(watch: JobWatch) -> set[int]:
    return set(_attempts_of(watch).values())


def test_cluster_stop_suspends_jobs_and_cluster_start_goes_on_with_them(
    tmp_path: Path,
    short_tmp: Path,  # noqa: F811
) -> None:
    """With the defaults: no option says where anything is kept."""
    run = CountsRun(tmp_path / "run", held=True, seconds=6, rows=48_000)
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
        run.release()
        wait_until(lambda: "No running jobs" in cli("list", "-m", address), _JOB_LIMIT_S, "the job has finished")
        run.assert_exact()
        assert len(run.result()) > len(before)
        assert "Suspended" not in cli("cluster", "stop")
    finally:
        cli("cluster", "stop")


def _address_in(said: str) -> str:
    return said.split("JobManager at ")[1].split()[0]
