"""How long a job waits for TaskManagers that are started for it, beside one TaskManager that its user starts.

    python -m benchmarks.workers [--rounds 5]

A job of parallelism 9 is submitted to a JobManager without TaskManagers. By hand: at the same moment one TaskManager with nine slots is started. On demand: the
JobManager starts three with three slots each (``tidegate.resourcemanager.driver: process``). In turns; measured is the time from then until all subtasks run.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import BenchCluster

RESULTS = Path(__file__).resolve().parent / "results"
JOB = "benchmarks/failover_job.py"
PARALLELISM = 9
INTERVAL_MS = 1_000
ON_DEMAND = {"tidegate.resourcemanager.driver": "process", "taskmanager.numberOfTaskSlots": "3"}


def once(*, on_demand: bool) -> float:
    """Seconds."""
    with BenchCluster(0, ON_DEMAND if on_demand else {}) as cluster:
        beats = cluster.directory / "beats"
        beats.mkdir()
        began = time.monotonic()
        if not on_demand:
            cluster.start_task_manager(PARALLELISM)
        job_id = cluster.run(JOB, "tidegate", str(beats), str(PARALLELISM), str(INTERVAL_MS))
        for status in cluster.client.watch(job_id):
            running = sum(vertex.task_counts.get("RUNNING", 0) for vertex in status.vertices)
            if status.state == "RUNNING" and running == PARALLELISM:
                return time.monotonic() - began
    raise RuntimeError("the job ended before it ran")


def report(console: Console, results: Path, rounds: int) -> None:
    """Prints a table and writes ``workers.json``."""
    found: dict[str, list[float]] = {"by hand": [], "on demand": []}
    for _ in range(rounds):
        for name, times in found.items():
            times.append(once(on_demand=name == "on demand"))
    by_hand = statistics.median(found["by hand"])
    table = Table("TaskManagers", "until RUNNING s", "of by hand", title=f"a job of parallelism {PARALLELISM}")
    for name, times in found.items():
        middle = statistics.median(times)
        spread = f"{middle:.2f} ({min(times):.2f} to {max(times):.2f})"
        table.add_row(name, spread, f"{middle / by_hand:.2f}")
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "workers.json").write_text(json.dumps(found, indent=1))


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
def main(rounds: int) -> None:
    report(Console(), RESULTS, rounds)


if __name__ == "__main__":
    main()
