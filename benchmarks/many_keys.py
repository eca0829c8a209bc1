"""A keyed window over a million keys in bounded memory: every window holds every key, results are checked one by one.

python -m benchmarks.many_keys [--rows 100000000] [--keys 1000000]

The job of the window benchmark with other keys. While it runs, the resident memory of its subtasks is looked at twice a
second; bounded means that the last fifth of the run needs no more than the second one did. Before it, pyarrow groups the first of these rows
in memory, so that the rate has something to be compared with.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from benchmarks import in_memory
from benchmarks.cluster import BenchCluster
from benchmarks.in_memory import Answer
from benchmarks.rows import ROWS_PER_MS, WINDOW_MS, Rows

PARALLELISM = 2
INTERVAL_MS = 1_000
LOOK_S = 0.5
FIFTHS = 5
KEYS = 1_000_000
MOST_IN_MEMORY = 20_000_000
"""Rows that pyarrow groups: half a gigabyte."""


@dataclass
class Measured:
    rows: int
    keys: int
    results: int = 0
    million_rows_per_second: float = 0.0
    pyarrow: float = 0.0
    """Million rows a second of pyarrow's ``group_by``, in memory, on two threads."""
    checkpoints: int = 0
    peak_subtask_mib: float = 0.0
    """The largest resident memory of one subtask's process."""
    peak_all_mib: float = 0.0
    """The same of all of them together."""
    peaks_by_fifth_mib: list[float] = field(default_factory=list)
    """Of all of them together, in each fifth of the run."""

    @property
    def ratio(self) -> float:
        return self.million_rows_per_second / self.pyarrow


def measure(rows: int, keys: int, options: dict[str, str] | None = None) -> Measured:
    """``options``: of the cluster. Raises ``RuntimeError`` when the answer is wrong."""
    measured = Measured(rows, keys)
    in_table = min(rows, MOST_IN_MEMORY) // PARALLELISM * PARALLELISM
    seconds, _ = in_memory.run(in_memory.build_table(in_table, PARALLELISM, keys), PARALLELISM)
    measured.pyarrow = in_table / seconds / 1e6
    with BenchCluster(PARALLELISM, options) as cluster:
        output = cluster.directory / "windows"
        arguments = (rows, PARALLELISM, output, INTERVAL_MS, 0, keys)
        job_id = cluster.run("benchmarks/keyed_window_job.py", *map(str, arguments))
        ended = threading.Event()
        samples: list[list[float]] = []
        watcher = threading.Thread(target=_watch_memory, args=(cluster.task_manager_pid, ended, samples))
        watcher.start()
        try:
            status = cluster.wait(job_id)
        finally:
            ended.set()
            watcher.join()
        times = status.state_timestamps_ms
        measured.million_rows_per_second = rows / (times["FINISHED"] - times["RUNNING"]) / 1e3
        measured.checkpoints = status.checkpoints_completed
        _tell_memory(samples, measured)
        found, expected = summed(_found(output)), summed(expected_answers(rows, keys))
    if found != expected:
        raise RuntimeError(f"the answers differ: tidegate {found}, expected {expected}")
    measured.results = found.rows
    return measured


def _watch_memory(pid: int, ended: threading.Event, samples: list[list[float]]) -> None:
    """Adds the resident memory of each Python process below the TaskManager, in MiB."""
    while not ended.wait(LOOK_S):
        sizes = []
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):  # one that has ended meanwhile
                if "java" not in process.name():
                    sizes.append(process.memory_info().rss / 2**20)
        samples.append(sizes)


def _tell_memory(samples: list[list[float]], measured: Measured) -> None:
    totals = [sum(sizes) for sizes in samples]
    if not totals:
        return
    measured.peak_subtask_mib = max((max(sizes) for sizes in samples if sizes), default=0.0)
    measured.peak_all_mib = max(totals)
    cuts = [len(totals) * part // FIFTHS for part in range(FIFTHS + 1)]
    measured.peaks_by_fifth_mib = [max(totals[a:b], default=0.0) for a, b in pairwise(cuts)]


def _found(output: Path) -> Iterator[Answer]:
    columns = ["window_start", "key", "rows", "total"]
    for batch in ds.dataset(output, format="parquet").to_batches(columns=columns):
        if batch.num_rows:
            yield in_memory.answer(*(pa.chunked_array([batch[name]]) for name in columns))


def expected_answers(rows: int, keys: int) -> Iterator[Answer]:
    """Window by window: within a source rows are in the order of time."""
    of_a_source, generate = rows // PARALLELISM, Rows(rows, PARALLELISM, keys)
    of_a_window = WINDOW_MS * ROWS_PER_MS
    for first in range(0, of_a_source, of_a_window):
        counts, totals = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
        for source in range(PARALLELISM):
            batch = generate(source * of_a_source + first, min(of_a_window, of_a_source - first))
            key = np.asarray(batch["key"])
            counts += np.bincount(key, minlength=keys)
            totals += np.bincount(key, np.asarray(batch["value"]), minlength=keys).astype(np.int64)
        there = np.flatnonzero(counts)
        window = np.full(len(there), first // ROWS_PER_MS, np.int64)
        yield in_memory.answer(*(pa.chunked_array([part]) for part in (window, there, counts[there], totals[there])))


def summed(answers: Iterator[Answer]) -> Answer:
    rows = counted = total = checksum = 0
    for one in answers:
        rows, counted, total = rows + one.rows, counted + one.counted, total + one.total
        checksum = (checksum + one.checksum) % 2**64
    return Answer(rows, counted, total, checksum)


def report(console: Console, results: Path, rows: int = 100_000_000, keys: int = KEYS) -> Measured:
    """Prints the figures and writes ``many_keys.json``."""
    began = time.monotonic()
    rows -= rows % PARALLELISM
    console.print(f"{rows:,} rows, {keys:,} keys, windows of {WINDOW_MS} ms, checkpoints every {INTERVAL_MS} ms")
    measured = measure(rows, keys)
    table = Table("figure", "value")
    table.add_row("rate", f"{measured.million_rows_per_second:.1f} M rows/s")
    table.add_row("pyarrow in memory, and the ratio", f"{measured.pyarrow:.1f} M rows/s, {measured.ratio:.2f}")
    table.add_row("results, each checked", f"{measured.results:,}")
    table.add_row("completed checkpoints", str(measured.checkpoints))
    table.add_row("peak of one subtask", f"{measured.peak_subtask_mib:,.0f} MiB")
    table.add_row("peak of all subtasks", f"{measured.peak_all_mib:,.0f} MiB")
    fifths = ", ".join(f"{peak:,.0f}" for peak in measured.peaks_by_fifth_mib)
    table.add_row("the same in each fifth of the run", f"{fifths} MiB")
    console.print(table)
    (results / "many_keys.json").write_text(json.dumps(asdict(measured), indent=1))
    console.print(f"{time.monotonic() - began:.0f} s")
    return measured


@click.command(help=__doc__)
@click.option("--rows", default=100_000_000, show_default=True)
@click.option("--keys", default=KEYS, show_default=True)
def main(rows: int, keys: int) -> None:
    report(Console(), Path(__file__).resolve().parent / "results", rows, keys)


if __name__ == "__main__":
    main()
