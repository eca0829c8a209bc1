"""A job with a large state, whose processes are killed again and again right behind a restore: held in the middle until the test saw what it waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.large_windows import expected
from tests.e2e.test_rescaling import asked, rescaled
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

FINISH_LIMIT_S = 300
"""A busy machine takes longer than two minutes for the rows behind several restores."""


@contextmanager
def held(
    tmp_path: Path, job: str, rows: int, settings: Mapping[str, str], of_cluster: Mapping[str, str] | None = None
) -> Iterator[tuple[Cluster, JobWatch]]:
    """It runs with its sources held. Behind the block it is rescaled to 3 and finishes, and its result must be exact."""
    hold, output = tmp_path / "hold", tmp_path / "output"
    hold.touch()
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART, **settings}
    arguments = ["--rows", str(rows), "--output", str(output), "--hold", str(hold)]
    with Cluster(tmp_path / "cluster", of_cluster) as cluster:
        for _ in range(3):
            cluster.add_taskmanager(2)
        cluster.wait_slots(6)
        watch = cluster.submit(JOBS / job, *arguments, parallelism=2, settings=settings)
        watch.wait_running()
        yield cluster, watch
        rescaled(cluster, watch, 3)
        hold.unlink()
        watch.wait_finished(FINISH_LIMIT_S)
    found = ds.dataset(output, format="parquet").to_table().sort_by("key")
    assert found.equals(expected(rows).cast(found.schema))


def newest_checkpoint(cluster: Cluster, watch: JobWatch, since: int, least_bytes: int) -> int:
    """Waits for a completed checkpoint behind number ``since`` with more than ``least_bytes``; returns its number."""
    found: list[int] = []

    def is_there() -> bool:
        whole = [
            c for c in cluster.checkpoints(watch.job_id).checkpoints if c.completed_ms and c.size_bytes > least_bytes
        ]
        found[:] = [c.checkpoint_id for c in whole if c.checkpoint_id > since]
        return bool(found)

    wait_until(is_there, HANG_LIMIT_S, f"a checkpoint after {since} has {least_bytes} bytes")
    return max(found)


def kill(cluster: Cluster, watch: JobWatch, vertex: str, victim: str) -> None:
    """Ends the first subtask of the vertex (``worker``) or its TaskManager (``taskmanager``) with SIGKILL, and waits until the job runs again."""
    assert watch.last is not None
    restarts, moment = watch.last.status.restarts, time.monotonic()
    if victim == "worker":
        cluster.subtask_of(watch, vertex, 0).kill()
    else:
        cluster.kill9(cluster.task_manager_of(watch, vertex, 0))
    noticed = watch.wait_for(lambda m: not m.is_running, HANG_LIMIT_S, "the kill was noticed", moment)
    watch.wait_running_again(restarts, noticed.at)


def metrics_path(watch: JobWatch, vertex: str) -> str:
    """Where REST has the metrics of the vertex's subtasks."""
    assert watch.last is not None
    (found,) = [v for v in watch.last.status.vertices if vertex in v.name]
    return f"/jobs/{watch.job_id}/vertices/{found.vertex_id}/subtasks/metrics"


def least_of(cluster: Cluster, watch: JobWatch, vertex: str, metric: str) -> float:
    """The smallest value that a subtask of the vertex has reported of an operator's metric; 0: none has."""
    path = metrics_path(watch, vertex)
    names = [one["id"] for one in asked(cluster, "GET", path) if one["id"].endswith(metric)]
    if not names:
        return 0
    found = asked(cluster, "GET", f"{path}?get={names[0]}")
    return min((float(one["min"]) for one in found), default=0)


def was_restored_in_background(cluster: Cluster, watch: JobWatch, vertex: str) -> bool:
    """There is such a metric only where rows were left to load when the job ran."""
    found = asked(cluster, "GET", metrics_path(watch, vertex))
    return any(metric["id"].endswith("restoredRowsToLoad") for metric in found)
