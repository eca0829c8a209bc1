"""Incremental checkpoints of state in memory, in real processes: killed twice, and the result is exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.test_kills import SEED, kill_subtask, kill_task_manager, run_with_kills

INCREMENTAL = {"execution.checkpointing.incremental": "true", "execution.checkpointing.data-inline-threshold": "0 b"}


def test_a_job_with_state_in_memory_is_restored_from_levels(cluster: Cluster, tmp_path: Path) -> None:
    run = CountsRun(tmp_path, seconds=12, rows=60_000)
    made_ready(cluster, 3)
    run_with_kills(cluster, run, [kill_subtask, kill_task_manager], f"{SEED} hashmap", INCREMENTAL)
