"""The rocksdb backend in real processes: killed, rescaled, and exchanged for the one in memory."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts
from tests.e2e.pool import made_ready
from tests.e2e.test_kills import SEED, kill_subtask, kill_task_manager, run_with_kills
from tests.e2e.test_savepoints import finished, taken_by, wait_rows
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch
from tidegate.wire.manifest import manifest_from_bytes

ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
ON_FILES = {**ROCKSDB, "execution.checkpointing.data-inline-threshold": "0 b"}
HASHMAP = {"state.backend.type": "hashmap"}


def test_a_job_with_incremental_checkpoints_is_killed_twice_and_the_result_is_exact(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = CountsRun(tmp_path, seconds=12, rows=60_000)
    made_ready(cluster, 3)
    run_with_kills(
        cluster,
        run,
        [kill_subtask, kill_task_manager],
        f"{SEED} rocksdb",
        ON_FILES,
    )


def test_state_moves_to_memory_at_one_subtask_and_back_to_disk_at_two(cluster: Cluster, run_directory: Path) -> None:
    run = CountsRun(run_directory, rows=40_000, seconds=14, slow_pause=0, disorder=counts.SPAN_MS, interval=300)
    watch = run.submit(cluster, settings=ON_FILES)
    wait_rows(run)
    wait_until(
        lambda: builds_upon_older_files(run.checkpoints), HANG_LIMIT_S, "a checkpoint names files of an older one"
    )
    first = stopped(cluster, watch, run_directory)
    watch = run.submit(cluster, parallelism=1, restore=str(first), settings=HASHMAP)
    watch.wait_running()
    second = stopped(cluster, watch, run_directory)
    finished(run.submit(cluster, restore=str(second), settings=ROCKSDB))
    run.assert_exact()


def stopped(cluster: Cluster, watch: JobWatch, directory: Path) -> Path:
    path = taken_by(cluster, "stop", watch.job_id, "-p", str(directory / "savepoints"))
    finished(watch)
    return path


def builds_upon_older_files(checkpoints: Path) -> bool:
    """The newest checkpoint that can be read is one of levels."""
    for metadata in sorted(checkpoints.glob("*/chk-*/_metadata")):
        try:
            manifest = manifest_from_bytes(metadata.read_bytes(), str(metadata))
        except FileNotFoundError:  # subsumed meanwhile
            continue
        segments = [s for o in manifest.operators for subtask in o.subtasks.values() for s in subtask.keyed]
        if any(s.level > 0 for s in segments) and any(s.handle.is_shared for s in segments):
            return True
    return False
