"""From a restart to the first output of running aggregates over columns with a large state: all of it loaded first, and loaded beside the records.

    python -m benchmarks.restored_aggregates [--gigabytes 2] [--budget-mib 0] [--idle]

One subtask's operator alone, without its job, with count and sum by an integer key, from a checkpoint on the local disk
whose pages are dropped from the system's cache before.
Rows come in batches of 65,536 with keys from everywhere, so that the first batch needs all key groups; with ``--idle``
none come before everything is loaded. A checkpoint is taken behind the first batch, or at once. Each way runs in a
process of its own, so that its largest memory is its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.restored_windows import forget_pages, place
from benchmarks.state_operator import ATTEMPT
from tidegate.model.checkpoint import OperatorSnapshot, RestoredOperator
from tidegate.model.ids import OperatorId
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.store.segments import open_segment_source
from tidegate.taskmanager.keyed_state.columns.state import ColumnarKeyedState
from tidegate.taskmanager.machines.state.restoring import EAGER_BYTES
from tidegate.taskmanager.operators.columns import aggregate
from tidegate.taskmanager.operators.operator import BackgroundCalls, OperatorContext, Resources
from tidegate.taskmanager.runtime.clock import SystemClock
from tidegate.taskmanager.state.ports import OperatorRestore

ROW_BYTES = 28.4
"""In a file: key group, key, count, sum, and which of them are null."""
BATCH_ROWS = 1 << 16
FIRST, BESIDE = "loaded before", "loaded beside"
WAYS = {FIRST: 1 << 62, BESIDE: EAGER_BYTES}
"""Bytes that are loaded at once."""
RESULTS = Path(__file__).resolve().parent / "results"
SCATTER = 2654435761
"""Keys come from everywhere, and each number once."""


@dataclass
class Figures:
    """Of one way. All times are from the restart, in ms."""

    first_output_ms: float = 0.0
    first_batch_ms: float = 0.0
    """All results of the first batch are out."""
    checkpoint_ms: float = 0.0
    """A first checkpoint is written."""
    loaded_ms: float = 0.0
    rows: int = 0
    """Results of the first batch."""
    right: int = 0
    """Those of them that count the row from before the restart."""
    peak_mib: float = 0.0


class Subtask:
    """The operator, and the thread that reads for it."""

    def __init__(self, budget: int, directory: Path, eager_bytes: int, restored: OperatorSnapshot | None) -> None:
        vars(aggregate)["ColumnarKeyedState"] = partial(
            ColumnarKeyedState, eager_bytes=eager_bytes
        )  # the operator has no setting for it
        self.first_output: float | None = None
        self.rows = self.right = 0
        self._mails: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()
        named = [("n", "count", None), ("s", "sum", "v")]
        self.operator = aggregate.ColumnarAggregate("totals", ["key"], named, rows_of(0, 0).schema)
        nowhere: Any = self
        chk = str(directory / "chk-1")
        self.operator.setup(
            OperatorContext(
                attempt=ATTEMPT,
                operator_id=OperatorId("2" * 32),
                operator_name="totals",
                job_name="bench",
                task_name="totals",
                parallelism=1,
                max_parallelism=128,
                output=nowhere,
                clock=SystemClock(),
                timers=nowhere,
                metrics=nowhere,
                restore=None
                if restored is None
                else OperatorRestore(1, chk, RestoredOperator(keyed=restored.keyed), open_segment_source(chk)),
                resources=Resources(managed_memory_bytes=budget, temp_dir=str(directory)),
                background=BackgroundCalls(run_async=self._submit),
            )
        )

    def process(self, rows: pa.RecordBatch) -> None:
        self.operator.process(ArrowBatch(rows), 0)

    def step(self) -> None:
        """The next mail."""
        self._mails.get()()

    def checkpoint(self, directory: Path, checkpoint_id: int) -> OperatorSnapshot:
        options, store = place(directory, checkpoint_id)
        self.operator.context.checkpoint_options = options
        self.operator.prepare_snapshot(checkpoint_id)
        frozen = self.operator.freeze(checkpoint_id)
        assert frozen is not None
        snapshot = frozen.write(store)
        frozen.release()
        return snapshot

    @property
    def is_loaded(self) -> bool:
        restoring = self.operator.state.restoring
        return restoring is None or restoring.is_done

    def emit(self, batch: Batch) -> None:
        """As ``Output``."""
        self.first_output = self.first_output or time.perf_counter()
        assert isinstance(batch, ArrowBatch)
        self.rows += len(batch)
        self.right += int(np.count_nonzero(np.asarray(batch.data.column("n")) == 2))

    def gauge(self, name: str, value: float) -> None:
        """Not looked at."""

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Not looked at."""

    def _submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # noqa: BLE001  raised in the subtask's thread
                error = raised
            self._mails.put(lambda: done(error))

        self._work.put(run)

    def _run(self) -> None:
        while True:
            self._work.get()()


def rows_of(first: int, end: int) -> pa.RecordBatch:
    keys = np.arange(first, end, dtype=np.int64) * SCATTER
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.ones(end - first))], names=["key", "v"])


def build(directory: Path, keys: int, budget: int, sender: Connection) -> None:
    """Sends what a checkpoint holds."""
    subtask = Subtask(budget, directory, 0, None)
    for at in range(0, keys, BATCH_ROWS):
        subtask.process(rows_of(at, min(at + BATCH_ROWS, keys)))
    sender.send(subtask.checkpoint(directory, 1))


def measure(
    snapshot: OperatorSnapshot, directory: Path, keys: int, budget: int, way: str, is_idle: bool, sender: Connection
) -> None:
    """Sends ``Figures``."""
    forget_pages(directory / "shared")
    some = [rows_of(at, at + 1) for at in np.linspace(0, keys - 1, BATCH_ROWS).astype(np.int64).tolist()]
    batch = pa.Table.from_batches(some).combine_chunks().to_batches()[0]
    figures = Figures()
    begun = time.perf_counter()

    def passed() -> float:
        return (time.perf_counter() - begun) * 1e3

    subtask = Subtask(budget, directory, WAYS[way], snapshot)
    number = 2 + list(WAYS).index(way)
    if is_idle:
        subtask.checkpoint(directory, number)
        figures.checkpoint_ms = passed()
        while not subtask.is_loaded:
            subtask.step()
        figures.loaded_ms = passed()
    subtask.process(batch)
    while not subtask.operator.has_room():
        subtask.step()
    figures.first_batch_ms = passed()
    assert subtask.first_output is not None
    figures.first_output_ms = (subtask.first_output - begun) * 1e3
    if not is_idle:
        subtask.checkpoint(directory, number)
        figures.checkpoint_ms = passed()
        while not subtask.is_loaded:
            subtask.step()
        figures.loaded_ms = passed()
    figures.rows, figures.right = subtask.rows, subtask.right
    figures.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(figures)


def in_a_process(target: Callable[..., None], *arguments: object) -> Any:
    """What the function sends."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*arguments, sender))
    process.start()
    sender.close()
    found = receiver.recv()
    process.join()
    return found


@click.command(help=__doc__)
@click.option("--gigabytes", default=2.0, show_default=True, help="Of the files.")
@click.option("--budget-mib", default=0, show_default=True, help="Managed memory; 0: not bounded.")
@click.option("--idle", is_flag=True, help="No rows come before everything is loaded.")
@click.option("--directory", default=None, help="Where files are written; the system's for temporary files.")
def main(gigabytes: float, budget_mib: int, idle: bool, directory: str | None) -> None:
    where, budget = Path(tempfile.mkdtemp(prefix="restored-aggregates-", dir=directory)), budget_mib << 20
    keys = int(gigabytes * 1e9 / ROW_BYTES)
    found: dict[str, Figures] = {}
    try:
        snapshot = in_a_process(build, where, keys, budget)
        os.sync()
        for way in WAYS:
            found[way] = in_a_process(measure, snapshot, where, keys, budget, way, idle)
            if not found[way].rows == found[way].right == BATCH_ROWS:
                raise RuntimeError(f"{way}: {found[way].right} of {found[way].rows} results are right")
    finally:
        shutil.rmtree(where)
    size = sum({s.handle.path: s.handle.size_bytes for s in snapshot.keyed}.values())
    console = Console(width=140)
    console.print(
        f"{size / 1e9:.2f} GB in {len(snapshot.keyed)} files, {keys:,} keys, {budget_mib} MiB of managed memory"
    )
    table = Table("", "first output", "first batch", "first checkpoint", "all loaded", "largest memory")
    for way, figures in found.items():
        times = (figures.first_output_ms, figures.first_batch_ms, figures.checkpoint_ms, figures.loaded_ms)
        table.add_row(way, *(f"{ms:,.0f} ms" for ms in times), f"{figures.peak_mib:,.0f} MiB")
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "restored_aggregates.json").write_text(
        json.dumps({way: asdict(f) for way, f in found.items()}, indent=1)
    )


if __name__ == "__main__":
    main()
