"""State of rocksdb that is used before it is loaded, in real processes: killed again while it is loaded, and rescaled; exact."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.dataset as ds

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.large_windows import expected
from tests.e2e.test_rescaling import asked, rescale, wait_shape
from tests.e2e.test_rocksdb import ROCKSDB
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

ROWS = 1_600_000
"""800,000 keys, each once before the sources wait: some seconds of loading in each subtask."""
STATE_BYTES = ROWS // 2 * 16
"""At least: the key and the value."""


def newest_with_all(cluster: Cluster, job_id: str, since: int) -> int:
    """Waits for a checkpoint after ``since`` with all rows that are not held back; returns its number."""
    found: list[int] = []

    def is_there() -> bool:
        whole = [c for c in cluster.checkpoints(job_id).checkpoints if c.completed_ms and c.size_bytes > STATE_BYTES]
        found[:] = [c.checkpoint_id for c in whole if c.checkpoint_id > since]
        return bool(found)

    wait_until(is_there, HANG_LIMIT_S, f"a checkpoint after {since} has {STATE_BYTES} bytes")
    return max(found)


def was_loaded_beside(cluster: Cluster, watch: JobWatch) -> bool:
    """There is such a metric only where rows were left to load when the job ran."""
    assert watch.last is not None
    (vertex,) = [v for v in watch.last.status.vertices if "second row" in v.name]
    found = asked(cluster, "GET", f"/jobs/{watch.job_id}/vertices/{vertex.vertex_id}/subtasks/metrics")
    return any(metric["id"].endswith("restoredRowsToLoad") for metric in found)


def test_state_is_exact_although_processes_die_while_it_is_loaded(tmp_path: Path) -> None:
    hold, output = tmp_path / "hold", tmp_path / "output"
    hold.touch()
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART, **ROCKSDB}
    arguments = ["--rows", str(ROWS), "--output", str(output), "--hold", str(hold)]
    with Cluster(tmp_path / "cluster") as cluster:
        for _ in range(3):
            cluster.add_taskmanager(2)
        cluster.wait_slots(6)
        watch = cluster.submit(JOBS / "lazily_restored.py", *arguments, parallelism=2, settings=settings)
        watch.wait_running()
        newest = newest_with_all(cluster, watch.job_id, 0)
        for victim in ("worker", "taskmanager", "worker", "worker"):
            assert watch.last is not None
            restarts, moment = watch.last.status.restarts, time.monotonic()
            manager = cluster.task_manager_of(watch, "second row", 0)
            if victim == "worker":
                manager.subtasks()[0].kill()
            else:
                cluster.kill9(manager)
            noticed = watch.wait_for(lambda m: not m.is_running, HANG_LIMIT_S, "the kill was noticed", moment)
            watch.wait_running_again(restarts, noticed.at)
            if (
                victim == "taskmanager"
            ):  # the next one restores a checkpoint that was taken before everything was loaded
                newest = newest_with_all(cluster, watch.job_id, newest)
        wait_until(lambda: was_loaded_beside(cluster, watch), HANG_LIMIT_S, "state stayed in its files")
        print(rescale(cluster, watch, 3))
        wait_shape(watch, 3)
        hold.unlink()
        watch.wait_finished(300)
    found = ds.dataset(output, format="parquet").to_table().sort_by("key")
    assert found.equals(expected(ROWS).cast(found.schema))
