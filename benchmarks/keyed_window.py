"""Keyed tumbling windows, beside pyarrow in memory: alternating runs over the same rows, answers compared.

tidegate generates the rows, exchanges what its senders pre-aggregated, takes an exactly-once checkpoint every second and
commits Parquet files. pyarrow is given the table ready in memory. Both use two threads' worth of cores. What checkpoints cost is
told by pairs of longer jobs, with and without: a bounded job with checkpoints also waits for its final one, once, which is no
rate and would weigh much in a job of three seconds. How long a checkpoint takes is told by runs of their own, with one every 200 ms.
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
from tidegate.pb import jobmanager_pb2 as pb

PARALLELISM = 2
INTERVAL_MS = 1_000
TIMED_S = 20
"""Length of a run whose checkpoints are timed."""
IDLE_ROWS_PER_SECOND = 1_000
TIMED_INTERVAL_MS = 200
LONG = 5
"""So many times the rows: a job of which what checkpoints cost is measured."""
PAIRS = 3
HISTORY = {"web.checkpoints.history": "1000"}


@dataclass
class Runs:
    """Figures of all runs; rates in million rows a second, times in ms, memory in MiB."""

    tidegate: list[float] = field(default_factory=list)
    long: list[float] = field(default_factory=list)
    """Rates of long jobs."""
    without_checkpoints: list[float] = field(default_factory=list)
    """Of jobs as long: each beside one of those."""
    pyarrow: list[float] = field(default_factory=list)
    first_result_s: list[float] = field(default_factory=list)
    checkpoints_ms: list[float] = field(default_factory=list)
    """As fast as it goes, every second."""
    timed_checkpoints_ms: dict[str, list[float]] = field(default_factory=dict)
    """By load (full, half of the median rate, almost idle), every 200 ms; from trigger to durable ``_metadata``."""
    end_to_end_ms: list[float] = field(default_factory=list)
    timed_end_to_end_ms: dict[str, list[float]] = field(default_factory=dict)
    """Of the same checkpoints, as Flink counts its "End to End Duration": from trigger to the last acknowledgement."""
    phases_ms: dict[str, list[float]] = field(default_factory=dict)
    """Of the timed checkpoints at full load: from where to where, and how long in each."""
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return statistics.median(self.tidegate) / statistics.median(self.pyarrow)

    @property
    def checkpointing_costs(self) -> float:
        """Part of the rate without checkpoints that is lost with one every second."""
        return 1 - statistics.median(self.long) / statistics.median(self.without_checkpoints)


def measure(rows: int, repeats: int) -> Runs:
    """Run both, one after the other, ``repeats`` times. Raises ``RuntimeError`` when the answers differ."""
    runs = Runs()
    table = in_memory.build_table(rows, PARALLELISM)
    with BenchCluster(PARALLELISM, HISTORY) as cluster:
        warm_up = Runs()
        _stream(cluster, rows // 2, "warm-up", warm_up)
        runs.memory = warm_up.memory
        for repeat in range(repeats):
            seconds, expected = in_memory.run(table, PARALLELISM)
            runs.pyarrow.append(rows / seconds / 1e6)
            found = _stream(cluster, rows, f"run-{repeat}", runs)
            if found != expected:
                raise RuntimeError(f"the answers differ: tidegate {found}, pyarrow {expected}")
        del table
        for pair in range(PAIRS):
            with_them, without = Runs(), Runs()
            both = [
                _stream(cluster, LONG * rows, f"long-{interval_ms}-{pair}", into, interval_ms=interval_ms)
                for into, interval_ms in ((with_them, INTERVAL_MS), (without, 0))
            ]
            if both[0] != both[1]:
                raise RuntimeError(f"the answers differ: with checkpoints {both[0]}, without {both[1]}")
            runs.long += with_them.tidegate
            runs.without_checkpoints += without.tidegate
            runs.checkpoints_ms += with_them.checkpoints_ms
            runs.end_to_end_ms += with_them.end_to_end_ms
        rate = int(statistics.median(runs.tidegate) * 1e6)
        for load, rows_per_second in (("full", 0), ("half", rate // 2), ("idle", IDLE_ROWS_PER_SECOND)):
            _time_checkpoints(cluster, load, rate, rows_per_second, runs)
    return runs


def _time_checkpoints(cluster: BenchCluster, load: str, rate: int, rows_per_second: int, runs: Runs) -> None:
    timed = Runs()
    rows = (rows_per_second or rate) * TIMED_S // PARALLELISM * PARALLELISM
    _stream(cluster, rows, f"timed-{load}", timed, rows_per_second, TIMED_INTERVAL_MS)
    runs.timed_checkpoints_ms[load] = timed.checkpoints_ms
    runs.timed_end_to_end_ms[load] = timed.end_to_end_ms
    if load == "full":
        runs.phases_ms = timed.phases_ms


def _stream(
    cluster: BenchCluster,
    rows: int,
    name: str,
    runs: Runs,
    rows_per_second: int = 0,
    interval_ms: int = INTERVAL_MS,
) -> Answer:
    output = cluster.directory / name
    submitted = time.perf_counter()
    arguments = (str(rows), str(PARALLELISM), str(output), str(interval_ms), str(rows_per_second))
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
    for checkpoint in cluster.client.checkpoints(job_id).checkpoints:
        if checkpoint.status == "COMPLETED":
            runs.checkpoints_ms.append(float(checkpoint.completed_ms - checkpoint.trigger_ms))
            told = _with_subtasks(cluster, job_id, checkpoint.checkpoint_id)
            runs.end_to_end_ms.append(float(max(one.ack_ms for one in told.subtasks) - checkpoint.trigger_ms))
            add_phases(told, runs.phases_ms)
    table = ds.dataset(output, format="parquet").to_table()
    return in_memory.answer(table["window_start"], table["key"], table["rows"], table["total"])


def _with_subtasks(cluster: BenchCluster, job_id: str, checkpoint_id: int) -> pb.CheckpointStatus:
    told = cluster.client.checkpoints(job_id, subtasks_of=checkpoint_id).checkpoints
    return next(one for one in told if one.checkpoint_id == checkpoint_id)


def add_phases(checkpoint: pb.CheckpointStatus, phases_ms: dict[str, list[float]]) -> None:
    """How long the last subtask was in each phase. Phases of different subtasks overlap: they do not add up. One that was triggered
    after the sources had finished has other phases, and is left out."""
    if len({subtask.vertex_id for subtask in checkpoint.subtasks}) < 2:
        return
    first = min(checkpoint.subtasks, key=lambda one: one.metrics.barrier_timestamp_ms).vertex_id
    for place, subtasks in (
        ("source", [one for one in checkpoint.subtasks if one.vertex_id == first]),
        ("window and sink", [one for one in checkpoint.subtasks if one.vertex_id != first]),
    ):
        longest: dict[str, list[float]] = {
            "trigger to its barrier": [s.metrics.barrier_timestamp_ms - checkpoint.trigger_ms for s in subtasks],
            "asynchronous part": [s.metrics.async_ms for s in subtasks],
            "trigger to acknowledgement": [s.ack_ms - checkpoint.trigger_ms for s in subtasks],
        }
        for phase, times in longest.items():
            phases_ms.setdefault(f"{place}: {phase}", []).append(float(max(times)))
    last_ms = max(one.ack_ms for one in checkpoint.subtasks)
    phases_ms.setdefault("last acknowledgement to durable _metadata", []).append(
        float(checkpoint.completed_ms - last_ms)
    )


def _note_first_result(output: Path, submitted: float, runs: Runs) -> None:
    """From starting ``tidegate run`` to the first committed file."""
    limit = submitted + 120
    while time.perf_counter() < limit:
        if output.is_dir() and any(not path.name.startswith(".") for path in output.iterdir()):
            runs.first_result_s.append(time.perf_counter() - submitted)
            return
        time.sleep(0.005)
