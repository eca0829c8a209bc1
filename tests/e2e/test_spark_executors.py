"""Slots that come and go with the executors of a Spark standalone cluster: one process drives Spark for all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import JOBS, REPOSITORY, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.spark_standalone import Standalone, standalone
from tests.e2e.test_workers import workers_of
from tests.e2e.waiting import HANG_LIMIT_S, wait_until

SLOTS, CORES = 2, 6
"""Each executor has so many; there are three subtasks in a slot."""
_JOB_LIMIT_S = 240


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(tmp_path / "spark", workers=2, cores=CORES) as running:
        yield running


def settings_of(spark: Standalone) -> dict[str, str]:
    return {
        "tidegate.resourcemanager.driver": "spark",
        "taskmanager.numberOfTaskSlots": str(SLOTS),
        "resourcemanager.taskmanager-timeout": "1 s",
        "spark.master": spark.url,
        "spark.executor.cores": str(CORES),
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    }


def executors_of(spark: Standalone) -> list[psutil.Process]:
    """The JVMs of executors, below the workers of Spark."""
    found = []
    for worker in spark.workers:
        for child in psutil.Process(worker.pid).children(recursive=True):
            try:
                if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
    return found


def test_a_job_gets_executors_one_that_is_killed_is_replaced_and_idle_ones_go(
    tmp_path: Path, spark: Standalone
) -> None:
    run = CountsRun(tmp_path / "run", held=True, seconds=4, rows=24_000, splits=4)
    with Cluster(tmp_path / "cluster", settings_of(spark)) as cluster:
        watch = run.submit(cluster, parallelism=4)
        watch.wait_running(_JOB_LIMIT_S)
        first = workers_of(cluster)
        assert sorted(first.values()) == ["REGISTERED"] * 2
        assert len({tm.pid for tm in cluster.cluster_status().task_managers}) == 1, "one process is all of them"
        running = executors_of(spark)
        assert len(running) == 2
        watch.wait_checkpoints(2)
        running[0].kill()
        watch.wait_running_again(0, time.monotonic(), limit_s=_JOB_LIMIT_S)
        assert len(workers_of(cluster).keys() - first.keys()) == 1, "one, for the one that is gone"
        run.release()
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()
        wait_until(lambda: workers_of(cluster) == {}, HANG_LIMIT_S, "those that are idle go")
        wait_until(lambda: executors_of(spark) == [], HANG_LIMIT_S, "and their executors with them")


def test_executors_that_end_again_and_again_are_one_error_on_the_job(tmp_path: Path, spark: Standalone) -> None:
    settings = {
        **settings_of(spark),
        "spark.executor.extraJavaOptions": "-javaagent:no-such-agent.jar",
        "resourcemanager.start-worker.max-failure-rate": "1",
    }
    with Cluster(tmp_path / "cluster", settings) as cluster:
        arguments = [f"--output={tmp_path / 'out'}", f"--trace={tmp_path}"]
        done = cluster.cli("run", "-p", "4", "--jobmanager", cluster.address, str(JOBS / "counts.py"), *arguments)
        assert done.returncode == 1
        [said] = [line for line in done.stderr.splitlines() if "TaskManagers do not start" in line]
        assert "2 starts have failed within a minute" in said
        assert re.search(r"executor \d+ did not start: Command exited with code 1", said), f"and why: {said}"
