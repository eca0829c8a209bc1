"""Broadcast state and asynchronous I/O through a kill, and a batch job, end to end."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import rules
from tests.e2e.watching import JobWatch

NUMBERS = 4_000
LIMIT_S = 180


def submit(cluster: Cluster, directory: Path, rate: float, **settings: str) -> JobWatch:
    arguments = [f"--numbers={NUMBERS}", f"--rate={rate}", f"--output={directory / 'output'}"]
    all_settings = {"execution.checkpointing.dir": str(directory / "checkpoints"), **settings}
    return cluster.submit(JOBS / "rules.py", *arguments, parallelism=2, settings=all_settings)


def result(directory: Path) -> list[int]:
    files = [p for p in (directory / "output").rglob("*") if p.is_file() and not p.name.startswith(".")]
    return sorted(int(line) for path in files for line in path.read_text().splitlines())


def test_broadcast_state_and_calls_in_flight_are_exact_through_a_kill(cluster: Cluster, run_directory: Path) -> None:
    watch = submit(cluster, run_directory, 800, **QUICK_RESTART)
    watch.wait_checkpoints(2)
    since = time.monotonic()
    cluster.subtask_of(watch, "Keyed-Co-Process-Broadcast", 0).kill()
    watch.wait_running_again(0, since)
    watch.wait_finished(LIMIT_S)
    assert result(run_directory) == rules.expected(NUMBERS)


def test_the_same_as_a_batch_job_has_no_checkpoints(cluster: Cluster, run_directory: Path) -> None:
    watch = submit(cluster, run_directory, 1e9, **{"execution.runtime-mode": "BATCH"})
    watch.wait_finished(LIMIT_S)
    assert result(run_directory) == rules.expected(NUMBERS)
    assert not cluster.checkpoints(watch.job_id).checkpoints
