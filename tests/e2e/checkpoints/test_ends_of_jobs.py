"""Bounded jobs of many subtasks, whose sources are through long before the rest: no checkpoint fails because subtasks finish.

There are many more processes than processors, so they take long to end; meanwhile checkpoints are due again and again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster

pytestmark = pytest.mark.e2e

ROWS = 10_000
LIMIT_S = 200
START = {"tidegate.subtask.start-timeout": "3 min"}


def assert_ends_well(cluster: Cluster, directory: Path, parallelism: int, interval_ms: int) -> None:
    arguments = ["--rows", str(ROWS), "--pause", "2", "--hurry", str(directory / "never")]
    arguments += ["--output", str(directory / "output"), "--interval", str(interval_ms)]
    settings = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
        "web.checkpoints.history": "10000",
    }
    job = cluster.submit(JOBS / "slow.py", *arguments, parallelism=parallelism, settings=settings)
    ended = job.wait_finished(LIMIT_S)
    told = cluster.checkpoints(job.job_id)
    print(f"parallelism {parallelism}: {told.completed} checkpoints completed, {told.failed} failed")
    failures = [checkpoint.failure for checkpoint in told.checkpoints if checkpoint.failure]
    assert (told.failed, failures, ended.status.restarts) == (0, [], 0)
    assert told.completed > 0
    files = [path for path in (directory / "output").rglob("*") if path.is_file() and not path.name.startswith(".")]
    values = [int(line.split()[0]) for path in files for line in path.read_text().splitlines()]
    assert sorted(values) == list(range(ROWS))


@pytest.mark.timeout(LIMIT_S * 2, method="signal")
def test_sixty_four_on_one_machine(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", START) as cluster:
        cluster.add_taskmanager(64)
        cluster.wait_slots(64)
        assert_ends_well(cluster, tmp_path, 64, 200)


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S * 3, method="signal")
def test_sixteen_over_ten_task_managers(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", START) as cluster:
        for _ in range(10):
            cluster.add_taskmanager(2)
        cluster.wait_slots(20, LIMIT_S)
        assert_ends_well(cluster, tmp_path, 16, 200)
