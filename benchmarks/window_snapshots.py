"""Checkpoints of large columnar windows, whole and by their changes: bytes, the pause of the subtask, and the time in the background.

    python -m benchmarks.window_snapshots [--keys 1000000] [--windows 4] [--changed 1.0] [--checkpoints 20]

One window operator alone, without its job, with sum and count by an integer key. Between two checkpoints partials of some per cent of the keys come, chosen
anew each time; the pause is what the subtask's own thread spends on freezing and releasing. Files are written and synced as in a job.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.percentiles import percentiles
from tidegate.columnar.aggregates.names import WINDOW
from tidegate.columnar.aggregates.plan import combined_by, plan_of_partials
from tidegate.columnar.panes.merging import merge
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.segments import open_segment_store
from tidegate.taskmanager.windows.state.files import WindowFormat, WindowTimes
from tidegate.taskmanager.windows.state.windows import ColumnarWindowState, WindowMemory

RESULTS = Path(__file__).resolve().parent / "results"
BATCH_ROWS = 1 << 16
ROWS_OF_A_KEY = 3
"""In each window, on average: one in twenty keys has none."""
SCATTERING = 2654435761
"""Keys are not dense: a prime, as of Knuth's multiplicative hash."""
MAX_PARALLELISM = 128
AGGREGATES = (("rows", "count", None), ("total", "sum", "v"))
IN_MEMORY = WindowMemory()
WHOLE, CHANGES = "whole", "by changes"


@dataclass
class Figures:
    """Of one way. ``state_bytes``: of the columns of the first, whole checkpoint."""

    state_bytes: int = 0
    pauses_ms: list[float] = field(default_factory=list)
    background_ms: list[float] = field(default_factory=list)
    written_bytes: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    steps_ms: list[float] = field(default_factory=list)
    """What a batch of 65,536 random rows takes of the subtask's time: a barrier waits for one."""


def measure(way: str, keys: int, windows: int, changed: float, checkpoints: int) -> Figures:
    """``changed``: per cent of the keys between two checkpoints."""
    figures, rng = Figures(), np.random.default_rng(7)
    state = window_state()
    for _ in range(keys * windows * ROWS_OF_A_KEY // BATCH_ROWS):
        begun = time.process_time()
        add_rows(state, rng.integers(0, windows, BATCH_ROWS), rng.integers(0, keys, BATCH_ROWS) * SCATTERING)
        figures.steps_ms.append((time.process_time() - begun) * 1e3)
    directory = Path(tempfile.mkdtemp(prefix="window-snapshots-"))
    shared = directory / "shared"
    shared.mkdir()
    try:
        for number in range(checkpoints + 1):
            location = directory / f"chk-{number}"
            location.mkdir()
            options = CheckpointOptions(str(location), shared_location=str(shared) if way == CHANGES else "")
            store = open_segment_store(str(location), "a", number, 0, shared_location=options.shared_location)
            begun = time.perf_counter()
            frozen = state.freeze(number, options)
            pause = time.perf_counter() - begun
            begun = time.perf_counter()
            snapshot = frozen.write(store)
            written = time.perf_counter()
            frozen.release()
            state.confirmed(number)
            released = time.perf_counter()
            if number:
                figures.pauses_ms.append((pause + released - written) * 1e3)
                figures.background_ms.append((written - begun) * 1e3)
                figures.written_bytes.append(store.written_bytes)
                figures.levels.append(len({segment.level for segment in snapshot.keyed}))
            else:
                figures.state_bytes = store.written_bytes
            some = rng.integers(0, keys, int(keys * changed / 100))
            add_rows(state, rng.integers(0, windows, len(some)), some * SCATTERING)
    finally:
        shutil.rmtree(directory)
    return figures


def window_state(memory: WindowMemory = IN_MEMORY) -> ColumnarWindowState:
    plan = plan_of_partials("op", ["k"], AGGREGATES, _partials(np.zeros(1), np.zeros(1)).schema).by_window()

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return merge(plan, parts)

    owned = KeyGroupRange(0, MAX_PARALLELISM - 1)
    form = WindowFormat("op", WINDOW, ("k",), WindowTimes(1000, 0), combined_by(AGGREGATES))
    return ColumnarWindowState(form, merged, owned, MAX_PARALLELISM, memory)


def add_rows(state: ColumnarWindowState, windows: np.ndarray, keys: np.ndarray) -> None:
    for at in range(0, len(keys), BATCH_ROWS):
        state.add(_partials(windows[at : at + BATCH_ROWS], keys[at : at + BATCH_ROWS]))


def _partials(windows: np.ndarray, keys: np.ndarray) -> pa.RecordBatch:
    numbers = keys.astype(np.int64)
    ones = np.ones(len(numbers), np.int64)
    return pa.record_batch({WINDOW: windows.astype(np.int64), "k": numbers, "rows": ones, "total": numbers})


@click.command(help=__doc__)
@click.option("--keys", default=1_000_000, show_default=True)
@click.option("--windows", default=4, show_default=True, help="Windows that are open.")
@click.option("--changed", default=1.0, show_default=True, help="Per cent of the keys between two checkpoints.")
@click.option("--checkpoints", default=20, show_default=True)
def main(keys: int, windows: int, changed: float, checkpoints: int) -> None:
    console, found = Console(width=140), {}
    table = Table(
        "",
        "state",
        "written p50, worst",
        "pause p50, worst",
        "in the background p50, p99",
        "levels",
        "step p50, p99, worst",
    )
    for way in (WHOLE, CHANGES):
        figures = found[way] = measure(way, keys, windows, changed, checkpoints)
        written = [size / 2**20 for size in figures.written_bytes]
        table.add_row(
            way,
            f"{figures.state_bytes / 2**20:.0f} MiB",
            f"{statistics.median(written):.2f}, {max(written):.1f} MiB",
            f"{statistics.median(figures.pauses_ms):.2f}, {max(figures.pauses_ms):.2f} ms",
            ", ".join(percentiles(figures.background_ms, (50, 99))) + " ms",
            str(max(figures.levels)),
            ", ".join(percentiles(figures.steps_ms, (50, 99, 100))) + " ms",
        )
    console.print(
        f"{windows} windows of {keys:,} keys, {changed} % of the keys changed between two of {checkpoints} checkpoints"
    )
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "window_snapshots.json").write_text(json.dumps({way: asdict(f) for way, f in found.items()}, indent=1))


if __name__ == "__main__":
    main()
