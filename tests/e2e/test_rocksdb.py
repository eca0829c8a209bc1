"""The rocksdb backend in real processes: killed, rescaled, and exchanged for the one in memory."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import ensure_taskmanagers
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.test_kills import SEED, kill_subtask, kill_task_manager, run_with_kills
from tests.e2e.test_savepoints import NEVER_MS, finished, taken_by, wait_rows

ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
HASHMAP = {"state.backend.type": "hashmap"}


def test_a_job_with_incremental_checkpoints_is_killed_twice_and_the_result_is_exact(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = CountsRun(tmp_path, seconds=12, rows=60_000)
    ensure_taskmanagers(cluster, 3)
    run_with_kills(
        cluster,
        run,
        [kill_subtask, kill_task_manager],
        f"{SEED} rocksdb",
        {**ROCKSDB, "execution.checkpointing.data-inline-threshold": "0 b"},
    )


def test_state_moves_to_memory_at_one_subtask_and_back_to_disk_at_two(cluster: Cluster, run_directory: Path) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=9, slow_pause=0, disorder=counts.SPAN_MS, interval=NEVER_MS)
    savepoints = str(run_directory / "savepoints")
    watch = run.submit(cluster, settings=ROCKSDB)
    wait_rows(run)
    first = taken_by(cluster, "savepoint", watch.job_id, savepoints)
    cluster.cancel(watch)
    seen = len(run.seen())
    watch = run.submit(cluster, parallelism=1, restore=str(first), settings=HASHMAP)
    watch.wait_running()
    second = taken_by(cluster, "savepoint", watch.job_id, savepoints)
    cluster.cancel(watch)
    finished(run.submit(cluster, restore=str(second), settings=ROCKSDB))
    run.assert_exact()
    assert len(run.seen()) > seen
