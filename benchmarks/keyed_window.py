"""Keyed tumbling windows, beside pyarrow in memory: alternating runs over the same rows, answers compared.

tidegate generates the rows, exchanges what its senders pre-aggregated, takes an exactly-once checkpoint every second and
commits Parquet files. pyarrow is given the table ready in memory. Both use two threads' worth of cores.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds

from benchmarks import in_memory
from benchmarks.cluster import BenchCluster
from benchmarks.in_memory import Answer

PARALLELISM = 2
INTERVAL_MS = 1_000
HALF_LOAD_S = 10


@dataclass
class Runs:
    """Figures of all runs; rates in million rows a second, times in ms, memory in MiB."""

    tidegate: list[float] = field(default_factory=list)
    pyarrow: list[float] = field(default_factory=list)
    checkpoints_ms: list[float] = field(default_factory=list)
    first_result_s: list[float] = field(default_factory=list)
    half_load_checkpoints_ms: list[float] = field(default_factory=list)
    """At half of the median rate, in place of as fast as it goes."""
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return statistics.median(self.tidegate) / statistics.median(self.pyarrow)


def measure(rows: int, repeats: int) -> Runs:
    """Run both, one after the other, ``repeats`` times. Raises ``RuntimeError`` when the answers differ."""
    runs = Runs()
    table = in_memory.build_table(rows, PARALLELISM)
    with BenchCluster(PARALLELISM) as cluster:
        warm_up = Runs()
        _stream(cluster, rows // 2, "warm-up", warm_up)
        runs.memory = warm_up.memory
        for repeat in range(repeats):
            seconds, expected = in_memory.run(table, PARALLELISM)
            runs.pyarrow.append(rows / seconds / 1e6)
            found = _stream(cluster, rows, f"run-{repeat}", runs)
            if found != expected:
                raise RuntimeError(f"the answers differ: tidegate {found}, pyarrow {expected}")
        half = Runs()
        rate = int(statistics.median(runs.tidegate) * 1e6 / 2)
        _stream(cluster, rate * HALF_LOAD_S // PARALLELISM * PARALLELISM, "half-load", half, rate)
        runs.half_load_checkpoints_ms = half.checkpoints_ms
    return runs


def _stream(cluster: BenchCluster, rows: int, name: str, runs: Runs, rows_per_second: int = 0) -> Answer:
    output = cluster.directory / name
    submitted = time.perf_counter()
    arguments = (str(rows), str(PARALLELISM), str(output), str(INTERVAL_MS), str(rows_per_second))
    job_id = cluster.run("benchmarks/keyed_window_job.py", *arguments)
    watcher = threading.Thread(target=_note_first_result, args=(output, submitted, runs))
    watcher.start()
    watching = cluster.client.watch(job_id)
    measured = name != "warm-up"  # reading the memory maps of a JVM takes a core for a while: not in what is timed
    for status in watching:
        if status.state == "RUNNING" and status.checkpoints_completed and not measured:
            runs.memory.update(cluster.memory())
            measured = True
    status = cluster.wait(job_id)
    watcher.join()
    times = status.state_timestamps_ms
    runs.tidegate.append(rows / (times["FINISHED"] - times["RUNNING"]) / 1e3)
    runs.checkpoints_ms += [
        float(c.completed_ms - c.trigger_ms)
        for c in cluster.client.checkpoints(job_id).checkpoints
        if c.status == "COMPLETED"
    ]
    table = ds.dataset(output, format="parquet").to_table()
    return in_memory.answer(table["window_start"], table["key"], table["rows"], table["total"])


def _note_first_result(output: Path, submitted: float, runs: Runs) -> None:
    """From starting ``tidegate run`` to the first committed file."""
    limit = submitted + 120
    while time.perf_counter() < limit:
        if output.is_dir() and any(not path.name.startswith(".") for path in output.iterdir()):
            runs.first_result_s.append(time.perf_counter() - submitted)
            return
        time.sleep(0.005)
