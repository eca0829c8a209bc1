"""Jobs that take the slots that there are: one shrinks when a TaskManager is lost and grows when one comes, and the result is exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.test_rescaling import asked, end_exactly, held_run, wait_shape

PREFIX = "jobmanager.adaptive-scheduler"
SOON = {
    f"{PREFIX}.submission.resource-stabilization-timeout": "1 s",
    f"{PREFIX}.executing.resource-stabilization-timeout": "1 s",
    f"{PREFIX}.executing.cooldown-after-rescaling": "1 s",
}


def test_a_lost_taskmanager_lets_a_job_shrink_and_a_new_one_lets_it_grow(tmp_path: Path) -> None:
    run = held_run(tmp_path)
    with Cluster(tmp_path / "cluster", {"jobmanager.scheduler": "adaptive", **SOON}) as cluster:
        cluster.add_taskmanager(2)
        cluster.add_taskmanager(2)
        cluster.wait_slots(4)
        watch = run.submit(cluster, parallelism=4)
        wait_shape(watch, 4)
        assert asked(cluster, "GET", f"/jobs/{watch.job_id}")["schedulerType"] == "Adaptive"
        watch.wait_checkpoints(1)
        cluster.kill9(cluster.task_managers[0])
        wait_shape(watch, 2)
        seen = len(watch.moments)
        cluster.add_taskmanager(2)
        cluster.wait_slots(4)
        wait_shape(watch, 4, since=watch.moments[seen - 1].at)
        end_exactly(run, watch)


def test_a_reactive_job_takes_all_slots(tmp_path: Path) -> None:
    run = held_run(tmp_path)
    with Cluster(tmp_path / "cluster", {"scheduler-mode": "reactive", **SOON}) as cluster:
        cluster.add_taskmanager(1)
        cluster.wait_slots(1)
        watch = run.submit(cluster, parallelism=2)
        wait_shape(watch, 1)
        cluster.add_taskmanager(2)
        cluster.wait_slots(3)
        told = wait_shape(watch, 3)
        assert told.status.restarts == 0
        end_exactly(run, watch)
