"""Unaligned checkpoints, end to end: a sink of 10 ms a record, what is in flight restored by a restart and by ``run -s``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import slow
from tests.e2e.test_savepoints import finished
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import JobWatch

ROWS = 6_000
JOB = JOBS / "slow.py"


class SlowRun:
    def __init__(self, directory: Path) -> None:
        self.output = directory / "output"
        self.checkpoints = directory / "checkpoints"
        self.hurry = directory / "hurry"

    def submit(self, cluster: Cluster, parallelism: int, restore: str | None = None, **settings: str) -> JobWatch:
        arguments = ["--rows", str(ROWS), "--pause", "10", "--hurry", str(self.hurry)]
        arguments += ["--output", str(self.output), "--interval", "200"]
        unaligned = {
            "execution.checkpointing.dir": str(self.checkpoints),
            "execution.checkpointing.unaligned.enabled": "true",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            **QUICK_RESTART,
        }
        return cluster.submit(
            JOB, *arguments, parallelism=parallelism, restore=restore, settings={**unaligned, **settings}
        )

    def assert_exact(self) -> None:
        files = [path for path in self.output.rglob("*") if path.is_file() and not path.name.startswith(".")]
        lines = [line.split() for path in files for line in path.read_text().splitlines()]
        assert sorted(int(value) for value, _ in lines) == list(range(ROWS))
        counts: list[list[int]] = [[] for _ in range(slow.KEYS)]
        for value, before in lines:
            counts[int(value) % slow.KEYS].append(int(before))
        assert [sorted(found) for found in counts] == slow.expected(ROWS)

    def slow_pids(self) -> list[int]:
        """Of the processes that count, which last as long as the job; sources are soon at their end."""
        return [int(path.name.removeprefix("slow-")) for path in self.hurry.parent.glob("slow-*")]

    def latest(self) -> Path:
        done = [path.parent for path in self.checkpoints.glob("*/chk-*/_metadata")] or [self.checkpoints / "chk-0"]
        return max(done, key=lambda path: int(path.name.removeprefix("chk-")))


def channels_in(checkpoint: Path) -> int:
    """How many channels have data in flight in it; 0 when it was subsumed meanwhile."""
    try:
        lines = (checkpoint / "_metadata").read_text().splitlines()
    except FileNotFoundError:
        return 0
    operators = [json.loads(line) for line in lines[2:]]
    subtasks = [subtask for operator in operators for subtask in operator["subtasks"].values()]
    return sum(len(subtask["input_channels"]) + len(subtask["output_channels"]) for subtask in subtasks)


def test_a_killed_job_goes_on_with_what_was_in_flight(cluster: Cluster, run_directory: Path) -> None:
    run = SlowRun(run_directory)
    watch = run.submit(cluster, 2)
    watch.wait_checkpoints(2)
    since = time.monotonic()
    psutil.Process(run.slow_pids()[0]).kill()
    watch.wait_running_again(0, since)
    wait_until(lambda: channels_in(run.latest()) > 0, HANG_LIMIT_S, "a checkpoint has data in flight")
    run.hurry.touch()
    finished(watch)
    run.assert_exact()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_an_unaligned_checkpoint_is_restored_at_another_parallelism(
    cluster: Cluster, run_directory: Path, parallelism: int
) -> None:
    run = SlowRun(run_directory)
    watch = run.submit(cluster, 2)
    watch.wait_checkpoints(2)
    cluster.cancel(watch)
    checkpoint = run.latest()
    assert channels_in(checkpoint) > 0
    run.hurry.touch()
    finished(run.submit(cluster, parallelism, str(checkpoint)))
    run.assert_exact()
