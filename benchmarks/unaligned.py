"""How long a checkpoint takes, aligned and unaligned, with an idle sink and with one that takes 10 ms a record.

    python benchmarks/unaligned.py

An unaligned one must take at most twice as long with the slow sink as with the idle one; an aligned one waits for everything
that is in front of its barrier.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.cluster import BenchCluster

PARALLELISM = 2
INTERVAL_MS = 200
SLOW_MS = 10.0
IDLE_RATE = 100
"""Rows a second: the sink has nothing to do most of the time."""
WARM_UP = 3
WANTED = 20
LIMIT_S = 20.0
BOUND = 2.0


@dataclass
class Case:
    """Times in ms, from the trigger to the durable ``_metadata``."""

    name: str
    checkpoints_ms: list[float] = field(default_factory=list)
    in_flight_bytes: list[int] = field(default_factory=list)
    unfinished_ms: float = 0.0
    """For how long one had been waiting when the measurement ended; 0: none had for long."""

    @property
    def median_ms(self) -> float:
        return statistics.median(self.checkpoints_ms) if self.checkpoints_ms else self.unfinished_ms


def measure() -> list[Case]:
    """Aligned idle, aligned slow, unaligned idle, unaligned slow."""
    with BenchCluster(PARALLELISM, {"web.checkpoints.history": str(WARM_UP + WANTED + 10)}) as cluster:
        return [
            _run(cluster, Case(f"{kind}, {sink} sink"), kind == "unaligned", sink == "slow")
            for kind in ("aligned", "unaligned")
            for sink in ("idle", "slow")
        ]


def report(console: Console, results: Path) -> None:
    cases = measure()
    table = Table("checkpoints", "median ms", "max ms", "completed", "in flight, KiB")
    for case in cases:
        times = case.checkpoints_ms
        median = f"{case.median_ms:.0f}" if times else f"more than {case.unfinished_ms:.0f}"
        kib = statistics.median(case.in_flight_bytes) / 1024 if case.in_flight_bytes else 0.0
        table.add_row(case.name, median, f"{max(times):.0f}" if times else "", str(len(times)), f"{kib:.0f}")
    console.print(table)
    ratio = cases[3].median_ms / cases[2].median_ms
    verdict = "as it must be" if ratio <= BOUND else f"MORE than {BOUND:g}"
    console.print(f"unaligned with a slow sink: {ratio:.2f} times its time with an idle one ({verdict})")
    results.mkdir(exist_ok=True)
    (results / "unaligned.json").write_text(json.dumps([asdict(case) for case in cases], indent=1))
    plots.unaligned([case.name for case in cases], [case.checkpoints_ms or [case.median_ms] for case in cases], results)


def _run(cluster: BenchCluster, case: Case, unaligned: bool, slow: bool) -> Case:
    pause_ms, rate = (SLOW_MS, 0) if slow else (0.0, IDLE_RATE)
    arguments = (str(unaligned).lower(), str(PARALLELISM), str(pause_ms), str(rate), str(INTERVAL_MS))
    job_id = cluster.run("benchmarks/unaligned_job.py", *arguments)
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit and cluster.client.checkpoints(job_id).completed < WARM_UP + WANTED:
        time.sleep(0.1)
    now_ms = time.time() * 1000
    for checkpoint in reversed(cluster.client.checkpoints(job_id).checkpoints):
        if checkpoint.status == "COMPLETED" and checkpoint.checkpoint_id > WARM_UP:
            case.checkpoints_ms.append(float(checkpoint.completed_ms - checkpoint.trigger_ms))
            case.in_flight_bytes.append(_in_flight(cluster, job_id, checkpoint.checkpoint_id))
        elif checkpoint.status == "IN_PROGRESS":
            case.unfinished_ms = now_ms - checkpoint.trigger_ms
    cluster.client.cancel(job_id)
    _wait_ended(cluster, job_id)
    return case


def _in_flight(cluster: BenchCluster, job_id: str, checkpoint_id: int) -> int:
    listed = cluster.client.checkpoints(job_id, subtasks_of=checkpoint_id).checkpoints
    subtasks = [subtask for one in listed if one.checkpoint_id == checkpoint_id for subtask in one.subtasks]
    return sum(subtask.metrics.in_flight_bytes for subtask in subtasks)


def _wait_ended(cluster: BenchCluster, job_id: str) -> None:
    for _ in cluster.client.watch(job_id):
        pass


if __name__ == "__main__":
    report(Console(), Path(__file__).resolve().parent / "results")
