"""From a restart to the first output of windows over columns with a large state: all of it read first, and read while the job runs.

    python -m benchmarks.restored_windows [--gigabytes 2] [--windows 8] [--budget-mib 1024]

One window operator's state alone, without its job, with sum and count by an integer key, from a checkpoint on the local
disk whose pages are dropped from the system's cache before. Each way runs in a process of its own, so that its largest memory is its own.
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
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.window_snapshots import RESULTS, add_rows, window_state
from tidegate.model.checkpoint import CheckpointOptions, RestoredOperator
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.machines.state.restoring import EAGER_BYTES
from tidegate.taskmanager.state.ports import SegmentStore
from tidegate.taskmanager.windows.state.windows import WindowMemory

ROW_BYTES = 44
"""In a file: key group, key, start and end of the window, two values."""
FIRST, MEANWHILE = "read before", "read meanwhile"
WAYS = {FIRST: 1 << 62, MEANWHILE: EAGER_BYTES}
"""Bytes that are read at once."""


@dataclass
class Figures:
    """Of one way. All times are from the restart, in ms."""

    rows_taken_ms: float = 0.0
    checkpoint_ms: float = 0.0
    """A first checkpoint, with a batch that has come, is written."""
    first_output_ms: float = 0.0
    fired_ms: float = 0.0
    """All rows of the first window are out."""
    read_ms: float = 0.0
    """All files are read."""
    rows: int = 0
    peak_mib: float = 0.0


def build(directory: Path, gigabytes: float, windows: int, budget: int) -> tuple[RestoredOperator, int]:
    """Writes a checkpoint; returns what it holds, and the rows of a window."""
    rows = int(gigabytes * 1e9 / ROW_BYTES / windows)
    state = window_state(WindowMemory(budget, str(directory)))
    for at in range(0, rows, 1 << 20):
        keys = np.arange(at, min(at + (1 << 20), rows)) * 2654435761
        for window in range(windows):
            add_rows(state, np.full(len(keys), window), keys)
    options, store = place(directory, 1)
    frozen = state.freeze(1, options)
    snapshot = frozen.write(store)
    frozen.release()
    return RestoredOperator(keyed=snapshot.keyed), rows


def measure(restored: RestoredOperator, directory: Path, budget: int, way: str, sender: Connection) -> None:
    """Sends ``Figures``."""
    forget_pages(directory / "shared")
    figures = Figures()
    begun = time.perf_counter()

    def passed() -> float:
        return (time.perf_counter() - begun) * 1e3

    state = window_state(WindowMemory(budget, str(directory), WAYS[way]))
    state.restore(restored, open_segment_source(str(directory / "chk-1")), 1)
    reading = threading.Thread(target=state.restoring.settle if state.restoring is not None else lambda: None)
    reading.start()
    some = np.arange(1 << 16) * 2654435761
    add_rows(state, np.zeros(len(some)), some)
    figures.rows_taken_ms = passed()
    options, store = place(directory, 2 + list(WAYS).index(way))
    state.freeze(2, options).write(store)
    figures.checkpoint_ms = passed()
    for batch in state.take(0):
        figures.first_output_ms = figures.first_output_ms or passed()
        figures.rows += batch.num_rows
    figures.fired_ms = passed()
    reading.join()
    figures.read_ms = passed()
    figures.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(figures)


def place(directory: Path, checkpoint_id: int) -> tuple[CheckpointOptions, SegmentStore]:
    location, shared = directory / f"chk-{checkpoint_id}", directory / "shared"
    for path in (location, shared):
        path.mkdir(exist_ok=True)
    options = CheckpointOptions(str(location), shared_location=str(shared))
    return options, open_segment_store(str(location), "a", checkpoint_id, 0, shared_location=str(shared))


def forget_pages(directory: Path) -> None:
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


@click.command(help=__doc__)
@click.option("--gigabytes", default=2.0, show_default=True, help="Of the files.")
@click.option("--windows", default=8, show_default=True, help="Windows that are open.")
@click.option("--budget-mib", default=1024, show_default=True, help="Managed memory; 0: not bounded.")
@click.option("--directory", default=None, help="Where files are written; the system's for temporary files.")
def main(gigabytes: float, windows: int, budget_mib: int, directory: str | None) -> None:
    where, budget = Path(tempfile.mkdtemp(prefix="restored-windows-", dir=directory)), budget_mib << 20
    found: dict[str, Figures] = {}
    try:
        restored, rows = build(where, gigabytes, windows, budget)
        for way in WAYS:
            receiver, sender = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.get_context("spawn").Process(
                target=measure, args=(restored, where, budget, way, sender)
            )
            process.start()
            sender.close()
            found[way] = receiver.recv()
            process.join()
            if found[way].rows != rows:
                raise RuntimeError(f"{way}: {found[way].rows} rows fired, expected {rows}")
    finally:
        shutil.rmtree(where)
    console = Console(width=140)
    size = sum({s.handle.path: s.handle.size_bytes for s in restored.keyed}.values())
    console.print(
        f"{size / 1e9:.2f} GB in {len(restored.keyed)} files, {windows} windows of {rows:,} keys, {budget_mib} MiB of managed memory"
    )
    table = Table(
        "", "first rows taken", "first checkpoint", "first output", "first window fired", "all read", "largest memory"
    )
    for way, figures in found.items():
        times = (
            figures.rows_taken_ms,
            figures.checkpoint_ms,
            figures.first_output_ms,
            figures.fired_ms,
            figures.read_ms,
        )
        table.add_row(way, *(f"{ms:,.0f} ms" for ms in times), f"{figures.peak_mib:,.0f} MiB")
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "restored_windows.json").write_text(json.dumps({way: asdict(f) for way, f in found.items()}, indent=1))


if __name__ == "__main__":
    main()
