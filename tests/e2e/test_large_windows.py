"""Windows that stay in the files of their checkpoint after a restore, in real processes: killed again before anything of them fired, and rescaled; exact."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.dataset as ds

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs.large_windows import expected
from tests.e2e.test_rescaling import asked, rescale, wait_shape
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

ROWS = 6_000_000
"""Three million keys, each once before the sources wait."""
STATE_BYTES = ROWS // 2 * 40
"""At least, in all subtasks together: three of them have more each than is read at once."""
INCREMENTAL = {"execution.checkpointing.incremental": "true"}


def bytes_on_disk(cluster: Cluster, watch: JobWatch) -> float:
    """The least of a subtask's: what is read at once is in memory."""
    assert watch.last is not None
    (vertex,) = [v for v in watch.last.status.vertices if "GlobalWindowAggregate" in v.name]
    found = asked(cluster, "GET", f"/jobs/{watch.job_id}/vertices/{vertex.vertex_id}/subtasks/metrics")
    names = [metric["id"] for metric in found if metric["id"].endswith("stateBytesOnDisk")]
    if not names:  # not reported yet
        return 0
    told = asked(cluster, "GET", f"/jobs/{watch.job_id}/vertices/{vertex.vertex_id}/subtasks/metrics?get={names[0]}")
    return min((float(one["min"]) for one in told), default=0)


def wait_for_state(cluster: Cluster, watch: JobWatch, since: int) -> int:
    """Waits for a checkpoint after ``since`` with all rows that are not held back; returns its number."""
    found: list[int] = []

    def is_there() -> bool:
        whole = [
            c for c in cluster.checkpoints(watch.job_id).checkpoints if c.completed_ms and c.size_bytes > STATE_BYTES
        ]
        found[:] = [c.checkpoint_id for c in whole if c.checkpoint_id > since]
        return bool(found)

    wait_until(is_there, HANG_LIMIT_S, f"a checkpoint after {since} has {STATE_BYTES} bytes")
    return found[0]


def test_large_windows_are_exact_although_processes_die_right_after_their_restore(tmp_path: Path) -> None:
    hold, output = tmp_path / "hold", tmp_path / "output"
    hold.touch()
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART, **INCREMENTAL}
    arguments = ["--rows", str(ROWS), "--output", str(output), "--hold", str(hold)]
    with Cluster(tmp_path / "cluster") as cluster:
        for _ in range(3):
            cluster.add_taskmanager(2)
        cluster.wait_slots(6)
        watch = cluster.submit(JOBS / "large_windows.py", *arguments, parallelism=2, settings=settings)
        watch.wait_running()
        last = wait_for_state(cluster, watch, 0)
        for victim in ("worker", "taskmanager", "worker"):
            assert watch.last is not None
            restarts, moment = watch.last.status.restarts, time.monotonic()
            manager = cluster.task_manager_of(watch, "GlobalWindowAggregate", 0)
            if victim == "worker":
                manager.subtasks()[0].kill()
            else:
                cluster.kill9(manager)
            noticed = watch.wait_for(lambda m: not m.is_running, HANG_LIMIT_S, "the kill was noticed", moment)
            watch.wait_running_again(restarts, noticed.at)
        wait_until(lambda: bytes_on_disk(cluster, watch) > STATE_BYTES / 4, HANG_LIMIT_S, "windows stay in their files")
        wait_for_state(cluster, watch, last + 1)
        print(rescale(cluster, watch, 3))
        wait_shape(watch, 3)
        hold.unlink()
        watch.wait_finished(120)
    found = ds.dataset(output, format="parquet").to_table().sort_by("key")
    assert found.equals(expected(ROWS).cast(found.schema))
