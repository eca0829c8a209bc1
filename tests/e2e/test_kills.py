"""Exactly-once under ``kill -9`` at random moments: the result is that of a run without faults, to the row."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Proc
from tests.e2e.counts_run import CountsRun, assert_restored
from tests.e2e.pool import made_ready
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch, Moment

SEED = 20261121
_JOB_LIMIT_S = 200

Kill = Callable[[Cluster, CountsRun, JobWatch, random.Random], float]


def kill_subtask(cluster: Cluster, run: CountsRun, watch: JobWatch, draw: random.Random) -> float:
    """One of the processes that count records, any one."""
    victim = draw.choice(run.subtasks())
    moment = time.monotonic()
    victim.kill()
    return moment


def kill_task_manager(cluster: Cluster, run: CountsRun, watch: JobWatch, draw: random.Random) -> float:
    """One that runs something of the job."""
    assert watch.last is not None
    owners = {subtask.task_manager_id for vertex in watch.last.status.vertices for subtask in vertex.subtasks}
    pids = {known.pid for known in cluster.cluster_status().task_managers if known.task_manager_id in owners}
    victim: Proc = draw.choice([process for process in cluster.task_managers if process.pid in pids])
    moment = cluster.kill9(victim)
    wait_until(lambda: not victim.family(), HANG_LIMIT_S, f"nothing of {victim.name} is left: {victim.described()}")
    return moment


def recover(watch: JobWatch, killed_at: float, restarts: int) -> tuple[float, float]:
    """Seconds from the kill until the JobManager knew, and until every subtask ran again."""

    def noticed(moment: Moment) -> bool:
        return not moment.is_running

    detected = watch.wait_for(noticed, HANG_LIMIT_S, "the JobManager noticed the kill", killed_at)
    running = watch.wait_running_again(restarts, detected.at)
    return detected.at - killed_at, running.at - killed_at


def run_with_kills(
    cluster: Cluster, run: CountsRun, kills: list[Kill], seed: str, settings: Mapping[str, str] | None = None
) -> None:
    draw = random.Random(int(hashlib.sha256(seed.encode()).hexdigest(), 16))
    watch = run.submit(cluster, parallelism=run.parsed.splits, settings=settings)
    watch.wait_running()
    for done, kill in enumerate(kills):
        completed = watch.last.status.checkpoints_completed if watch.last else 0
        watch.wait_checkpoints(completed + draw.randint(2, 4))
        _after(draw.uniform(0, run.parsed.interval / 1000))
        assert watch.last is not None
        restarts = watch.last.status.restarts
        killed_at = kill(cluster, run, watch, draw)
        detected_s, running_s = recover(watch, killed_at, restarts)
        print(f"kill {done} ({kill.__name__}): detected after {detected_s:.2f} s, running after {running_s:.2f} s")
    watch.wait_finished(_JOB_LIMIT_S)
    print(f"read again: {run.rereads()} rows")
    run.assert_exact()
    assert_restored(cluster, watch, len(kills))
    run.assert_rereads_little(watch)


def _after(seconds: float) -> None:
    """A random moment is the one thing that has to be waited for by the clock."""
    threading.Event().wait(seconds)


@pytest.mark.parametrize(
    ("source", "style", "kills"),
    [
        ("numbers", "records", [kill_subtask, kill_task_manager]),
        ("parquet", "columns", [kill_task_manager, kill_subtask]),
    ],
)
def test_the_result_is_exact_although_processes_are_killed(
    cluster: Cluster, tmp_path: Path, source: str, style: str, kills: list[Kill]
) -> None:
    seconds = 4 + 4 * len(kills)
    run = CountsRun(tmp_path, input=source, style=style, seconds=seconds, rows=8_000 * seconds, splits=4)
    made_ready(cluster, 2 + kills.count(kill_task_manager))
    run_with_kills(cluster, run, kills, f"{SEED} {source}")


def test_the_result_is_exact_with_a_spark_dataframe_as_source(tmp_path: Path) -> None:
    """The spare TaskManager has rehearsed a query: the first one takes a JVM longer than a recovery may."""
    with Cluster(tmp_path / "cluster", {"tidegate.spark.rehearse-sql": "true"}) as cluster:
        made_ready(cluster, 2)
        for process in cluster.task_managers:
            wait_until(partial(process.says, "Spark SQL is warmed up"), 180, f"{process.name} has rehearsed")
        run = CountsRun(tmp_path / "run", input="spark", seconds=12, rows=12_000)
        run_with_kills(cluster, run, [kill_subtask, kill_task_manager], f"{SEED} spark")


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("round_", range(3))
def test_a_minute_of_kills(cluster: Cluster, tmp_path: Path, round_: int) -> None:
    """Sixty seconds at a time, for ``make soak``: shorter ones of both kinds run before."""
    run = CountsRun(tmp_path, seconds=60, rows=480_000)
    kills: list[Kill] = [kill_subtask, kill_task_manager] * 3
    made_ready(cluster, 2 + 3)
    run_with_kills(cluster, run, kills, f"{SEED} long {round_}")
