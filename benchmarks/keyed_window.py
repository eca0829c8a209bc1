"""Keyed tumbling windows, beside pyarrow in memory: alternating runs over the same rows, answers compared.

tidegate generates the rows, exchanges what its senders pre-aggregated, takes an exactly-once checkpoint every second and
commits Parquet files. pyarrow is given the table ready in memory. Both use two threads' worth of cores. What checkpoints cost is
told by pairs of longer jobs, with and without: a bounded job with checkpoints also waits for its final one, once, which is no
rate and would weigh much in a job of three seconds. They run twice: with two sources and two windows, which share two
processors, and with one of each, so that each has one of its own. How long a checkpoint takes is also told by runs with one every 200 ms.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds

from benchmarks import in_memory
from benchmarks.cluster import BenchCluster
from benchmarks.in_memory import Answer
from tidegate.pb import jobmanager_pb2 as pb

PARALLELISM = 2
ROOMY_PARALLELISM = 1
"""A source and a window subtask: on two processors each has one of its own."""
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
    pyarrow: list[float] = field(default_factory=list)
    first_result_s: list[float] = field(default_factory=list)
    checkpoints_ms: list[float] = field(default_factory=list)
    """From trigger to durable ``_metadata``."""
    end_to_end_ms: list[float] = field(default_factory=list)
    """Of the same checkpoints, as Flink counts its "End to End Duration": from trigger to the last acknowledgement."""
    pairs: dict[int, Pairs] = field(default_factory=dict)
    """Long jobs, by parallelism."""
    timed_checkpoints_ms: dict[str, list[float]] = field(default_factory=dict)
    """By load (full, half of the median rate, almost idle), every 200 ms."""
    timed_end_to_end_ms: dict[str, list[float]] = field(default_factory=dict)
    phases_ms: dict[str, list[float]] = field(default_factory=dict)
    """Of the timed checkpoints at full load: from where to where, and how long in each."""
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return statistics.median(self.tidegate) / statistics.median(self.pyarrow)


@dataclass
class Pairs:
    """Long jobs in turns, as fast as they go."""

    with_them: Runs = field(default_factory=Runs)
    """With a checkpoint every second."""
    without: Runs = field(default_factory=Runs)

    @property
    def lost(self) -> float:
        """Part of the rate without checkpoints that is lost to them."""
        return 1 - statistics.median(self.with_them.tidegate) / statistics.median(self.without.tidegate)


def measure(rows: int, repeats: int, *, only_ratio: bool = False) -> Runs:
    """Run both, one after the other, ``repeats`` times; and then long jobs and checkpoints, unless ``only_ratio``. Raises ``RuntimeError`` when
    the answers differ."""
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
        if only_ratio:
            return runs
        for parallelism in (PARALLELISM, ROOMY_PARALLELISM):
            runs.pairs[parallelism] = _measure_pairs(cluster, LONG * rows, parallelism)
        rate = int(statistics.median(runs.tidegate) * 1e6)
        for load, rows_per_second in (("full", 0), ("half", rate // 2), ("idle", IDLE_ROWS_PER_SECOND)):
            _time_checkpoints(cluster, load, rate, rows_per_second, runs)
    return runs


def _measure_pairs(cluster: BenchCluster, rows: int, parallelism: int) -> Pairs:
    pairs = Pairs()
    for number in range(PAIRS):
        both = [
            _stream(cluster, rows, f"long-{parallelism}-{every_ms}-{number}", into, 0, every_ms, parallelism)
            for into, every_ms in ((pairs.with_them, INTERVAL_MS), (pairs.without, 0))
        ]
        if both[0] != both[1]:
            raise RuntimeError(f"the answers differ: with checkpoints {both[0]}, without {both[1]}")
    return pairs


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
    parallelism: int = PARALLELISM,
) -> Answer:
    output = cluster.directory / name
    submitted = time.perf_counter()
    arguments = (str(rows), str(parallelism), str(output), str(interval_ms), str(rows_per_second))
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
    for checkpoint in completed_checkpoints(cluster, job_id):
        runs.checkpoints_ms.append(float(checkpoint.completed_ms - checkpoint.trigger_ms))
        runs.end_to_end_ms.append(end_to_end_ms(checkpoint))
        add_phases(checkpoint, runs.phases_ms)
    table = ds.dataset(output, format="parquet").to_table()
    return in_memory.answer(table["window_start"], table["key"], table["rows"], table["total"])


def completed_checkpoints(cluster: BenchCluster, job_id: str) -> Iterator[pb.CheckpointStatus]:
    """Those that the JobManager remembers, with what it knows of their subtasks."""
    for checkpoint in cluster.client.checkpoints(job_id).checkpoints:
        if checkpoint.status == "COMPLETED":
            told = cluster.client.checkpoints(job_id, subtasks_of=checkpoint.checkpoint_id).checkpoints
            yield next(one for one in told if one.checkpoint_id == checkpoint.checkpoint_id)


def end_to_end_ms(checkpoint: pb.CheckpointStatus) -> float:
    """From trigger to the last acknowledgement (Flink: ``CompletedCheckpointStats.getEndToEndDuration``)."""
    return float(max(one.ack_ms for one in checkpoint.subtasks) - checkpoint.trigger_ms)


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
