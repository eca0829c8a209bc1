"""Incremental checkpoints in real processes: shared files are exactly those that a checkpoint names, through kills, cancel and claim."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.test_kills import kill_subtask
from tests.e2e.test_savepoints import finished, wait_rows
from tests.e2e.waiting import wait_until
from tidegate.store.checkpoints import CheckpointStorage

LIMIT_S = 120


def settings_of(backend: str) -> dict[str, str]:
    p = "execution.checkpointing"
    return {
        "state.backend.type": backend,
        f"{p}.incremental": "true",
        f"{p}.data-inline-threshold": "0 b",
        f"{p}.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        f"{p}.tolerable-failed-checkpoints": "100",
    }


def shared_files(job: Path) -> set[str]:
    """None as well where the directory went with the job, since it was empty."""
    try:
        return {path.name for path in (job / "shared").iterdir()}
    except FileNotFoundError:
        return set()


def named_by(checkpoint: Path) -> set[str]:
    _, manifest = CheckpointStorage().read_checkpoint(str(checkpoint))
    snapshots = [snapshot for operator in manifest.operators for snapshot in operator.subtasks.values()]
    return {Path(h.path).name for snapshot in snapshots for h in snapshot.handles if h.is_shared}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_lies_in_the_shared_directory_is_what_the_kept_checkpoint_names(
    cluster: Cluster, run_directory: Path, backend: str
) -> None:
    run = CountsRun(run_directory, rows=20_000, seconds=14, slow_pause=0)
    settings = settings_of(backend)
    watch = run.submit(cluster, settings=settings)
    wait_rows(run, "count")
    watch.wait_checkpoints(2, LIMIT_S)
    killed_s = kill_subtask(cluster, run, watch, random.Random(7))
    before = watch.wait_running_again(0, killed_s).status.checkpoints_completed
    watch.wait_checkpoints(before + 2, LIMIT_S)
    cluster.cancel(watch)
    job = run.checkpoints / watch.job_id
    wait_until(lambda: len(list(job.glob("chk-*"))) == 1, LIMIT_S, "older and unfinished checkpoints are gone")
    (kept,) = job.glob("chk-*")
    named = named_by(kept)
    assert named, "the checkpoint is incremental"
    wait_until(lambda: shared_files(job) == named, LIMIT_S, f"only {named} in {job}/shared")
    claim = {**settings, "execution.state-recovery.claim-mode": "CLAIM"}
    again = run.submit(cluster, restore=str(kept), settings=claim)
    finished(again)
    run.assert_exact()
    wait_until(lambda: shared_files(job) == set(), LIMIT_S, "what was claimed went with its last user")
    wait_until(lambda: shared_files(run.checkpoints / again.job_id) == set(), LIMIT_S, "FINISHED keeps nothing")
    assert not kept.exists()
