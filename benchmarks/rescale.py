"""The pause of a job that changes its parallelism, beside Flink 2.3's adaptive scheduler in the same run.

    python -m benchmarks.rescale [--rounds 6] [--without-flink]

One TaskManager with four slots each. A job whose subtasks note the time of each record, a hundred a second, with an
exactly-once checkpoint every second, goes from parallelism 2 to 3 and back by
``PUT /jobs/:jobid/resource-requirements``. Both run Python functions in processes, both begin to rescale at once (they
otherwise wait 30 s after the one before), and everything else is default.

Measured: the longest time in which no subtask puts out anything, and how long it is from the request until all subtasks of the new
parallelism put something out.
"""

from __future__ import annotations

import json
import signal
import statistics
import struct
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import ROOT, BenchCluster
from benchmarks.flink_cluster import FlinkCluster, has_flink
from benchmarks.waiting import wait_until

RESULTS = Path(__file__).resolve().parent / "results"
SLOTS, LOW, HIGH = 4, 2, 3
INTERVAL_MS = 1_000
CHECKPOINTS_BEFORE = 2
"""In a row, before each change."""
SETTLE_S = 2.0
"""After the change: a gap that ends with it is seen as a whole."""
LIMIT_S = 120.0
OPTIONS = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": "0 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
    "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
    "web.refresh-interval": "50 ms",
    "rest.cache.execution-graph.timeout": "20 ms",
    "rest.cache.checkpoint-statistics.timeout": "20 ms",
}
FLINKS_OWN = {
    "python.execution-mode": "process",  # in threads, PyFlink 2.3 does not know the index of a subtask
}


class Cluster(Protocol):
    directory: Path
    rest_port: int


@dataclass(frozen=True)
class Change:
    """Times in seconds."""

    parallelism: int
    pause_s: float
    done_s: float


def _rest(cluster: Cluster, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.rest_port}{path}",
        data,
        {"Content-Type": "application/json"},
        method="GET" if body is None else "PUT",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"{}")


def _wait(condition: Callable[[], bool], what: str) -> float:
    return wait_until(condition, what, LIMIT_S)


def beats_since(beats: Path, since: float) -> dict[int, list[float]]:
    """Times of records, by subtask, in order."""
    found: dict[int, list[float]] = {}
    for file in beats.glob("*-*"):
        content = file.read_bytes()
        times = [at for (at,) in struct.iter_unpack("<d", content[: len(content) // 8 * 8]) if at >= since]
        found.setdefault(int(file.name.split("-")[0]), []).extend(times)
    return {index: sorted(times) for index, times in found.items() if times}


def longest_pause(by_subtask: dict[int, list[float]]) -> float:
    """The longest time in which none of them put out anything."""
    times = sorted(at for times in by_subtask.values() for at in times)
    return max((after - before for before, after in pairwise(times)), default=0.0)


def _change(cluster: Cluster, job_id: str, beats: Path, parallelism: int) -> Change:
    def completed() -> int:
        newest = _rest(cluster, f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
        return int(newest["id"]) if newest else 0

    first = completed()
    _wait(lambda: completed() >= first + CHECKPOINTS_BEFORE, "checkpoints")
    vertices = [vertex["id"] for vertex in _rest(cluster, f"/jobs/{job_id}")["vertices"]]
    opened = {file.name for file in beats.iterdir()}
    asked = time.time()
    bounds = {"parallelism": {"lowerBound": 1, "upperBound": parallelism}}
    _rest(cluster, f"/jobs/{job_id}/resource-requirements", dict.fromkeys(vertices, bounds))

    def all_go_on() -> bool:
        """All run, and as many as there are splits of the numbers put something out: the source has made two, and PyFlink opens no function without records."""
        now = _rest(cluster, f"/jobs/{job_id}")["vertices"]
        new = [file for file in beats.iterdir() if file.name not in opened]
        going_on = sum(file.stat().st_size > 0 for file in new)
        return all(vertex["tasks"]["RUNNING"] == parallelism for vertex in now) and going_on >= LOW

    done = _wait(all_go_on, f"parallelism {parallelism}")
    time.sleep(SETTLE_S)
    return Change(parallelism, longest_pause(beats_since(beats, asked - 1)), done - asked)


def _changes(cluster: Cluster, submit: Callable[[Path], str], rounds: int) -> list[Change]:
    beats = cluster.directory / "beats"
    beats.mkdir()
    job_id = submit(beats)
    _wait(lambda: len(beats_since(beats, 0.0)) == LOW, "the job runs")
    return [_change(cluster, job_id, beats, (HIGH, LOW)[number % 2]) for number in range(rounds)]


def measure(rounds: int, *, with_flink: bool) -> dict[str, list[Change]]:
    job = "benchmarks/failover_job.py"
    found: dict[str, list[Change]] = {}
    with BenchCluster(SLOTS, OPTIONS) as cluster:
        found["tidegate"] = _changes(
            cluster, lambda beats: cluster.run(job, "tidegate", str(beats), str(LOW), str(INTERVAL_MS)), rounds
        )
    if with_flink:
        with FlinkCluster(SLOTS, {**OPTIONS, **FLINKS_OWN}) as flink:
            found["Flink 2.3"] = _changes(
                flink,
                lambda beats: flink.run_python(ROOT / job, "pyflink", str(beats), str(LOW), str(INTERVAL_MS)),
                rounds,
            )
    return found


def report(console: Console, results: Path, rounds: int, *, with_flink: bool) -> None:
    """Prints a table and writes ``rescale.json``."""
    found = measure(rounds, with_flink=with_flink)
    table = Table("system", "pause s", "until all go on s", "of", title=f"parallelism {LOW} to {HIGH} and back")
    for system, changes in found.items():
        pauses, done = ([one.pause_s for one in changes], [one.done_s for one in changes])
        table.add_row(system, _spread(pauses), _spread(done), str(len(changes)))
    console.print(table)
    results.mkdir(exist_ok=True)
    told = {system: [asdict(one) for one in changes] for system, changes in found.items()}
    (results / "rescale.json").write_text(json.dumps(told, indent=1))


def _spread(found: list[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


@click.command(help=__doc__)
@click.option("--rounds", default=6, show_default=True, help="How often the parallelism changes.")
@click.option("--without-flink", is_flag=True)
def main(rounds: int, without_flink: bool) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that clusters end with it
    report(Console(), RESULTS, rounds, with_flink=not without_flink and has_flink())


if __name__ == "__main__":
    main()
