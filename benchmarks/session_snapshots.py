"""Session windows over columns, the operator alone: what its steps take with many open sessions, and what a checkpoint writes after some have changed.

    python -m benchmarks.session_snapshots [--sessions 1000000] [--managed 0] [--changed 1.0] [--checkpoints 5]

Sum and count by an integer key; partials come in batches of 8,192 different keys, with a watermark behind each, until
three times as many sessions have come as are open at a time. Then some per cent of the keys come again between checkpoints, which are kept in memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import click
import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.percentiles import percentiles
from tests.unit.taskmanager.operators.harness import MemoryStore, Running, spec, start
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.records.batch import ArrowBatch

BATCH_ROWS = 1 << 13
GAP_MS = 1_000_000
DISORDER_MS = 1_000
ROUNDS = 3
SCATTERING = 2654435761
"""Keys are not dense: a prime, as of Knuth's multiplicative hash."""
SHARED = CheckpointOptions("chk", shared_location="shared")


@dataclass
class Figures:
    batches_ms: list[float] = field(default_factory=list)
    watermarks_ms: list[float] = field(default_factory=list)
    written_mib: list[float] = field(default_factory=list)
    processor_s: float = 0.0


def measure(sessions: int, managed: int, changed: float, checkpoints: int) -> Figures:
    """Raises ``RuntimeError`` when a row is missing in the results."""
    figures, rng = Figures(), np.random.default_rng(1)
    aggregates = [("n", "count", None), ("s", "sum", "v")]
    options = {"gap_ms": GAP_MS, "keys": ["k"], "aggregates": aggregates, "input": "partial"}
    _come(
        start(spec("columnar_session", options=options)), np.zeros(1, np.int64), np.zeros(1, np.int64)
    )  # what is imported late
    given = {"managed_memory_bytes": managed, "checkpoint_options": SHARED}
    running, sent = start(spec("columnar_session", options=options), given=given), 0
    begun = time.process_time()
    for at in range(0, ROUNDS * sessions, BATCH_ROWS):
        numbers = np.arange(at, at + BATCH_ROWS)
        times = (numbers * (GAP_MS / sessions)).astype(np.int64) + rng.integers(0, DISORDER_MS, BATCH_ROWS)
        figures.batches_ms.append(_come(running, times, numbers))
        sent += BATCH_ROWS
        passed = time.perf_counter()
        running.operator.on_watermark(int(times.max()) - 2 * DISORDER_MS)
        figures.watermarks_ms.append((time.perf_counter() - passed) * 1e3)
    figures.processor_s = time.process_time() - begun
    newest = ROUNDS * sessions
    for number in range(checkpoints + 1):
        store = MemoryStore()
        running.snapshot(number, store)
        running.operator.notify_checkpoint_complete(number)
        figures.written_mib.append(sum(map(len, store.contents)) / 2**20)
        some = newest - rng.integers(0, sessions // 2, int(sessions * changed / 100))
        _come(running, np.full(len(some), int(times.max())), some)
        sent += len(some)
    running.operator.on_watermark(END_OF_TIME)
    found = sum(sum(batch.data["n"].to_pylist()) for batch in running.out.batches if isinstance(batch, ArrowBatch))
    if found != sent:
        raise RuntimeError(f"{found} of {sent} rows are in the results")
    return figures


def _come(running: Running, times: np.ndarray, numbers: np.ndarray) -> float:
    """Returns the milliseconds that it took."""
    ones = np.ones(len(times), np.int64)
    columns = {"window_start": times, "window_end": times + GAP_MS, "k": numbers * SCATTERING, "n": ones, "s": numbers}
    begun = time.perf_counter()
    running.operator.process(ArrowBatch(pa.record_batch(columns)), 0)
    return (time.perf_counter() - begun) * 1e3


@click.command(help=__doc__)
@click.option("--sessions", default=1_000_000, show_default=True, help="How many are open at a time.")
@click.option("--managed", default=0, show_default=True, help="Bytes of managed memory; 0: not bounded.")
@click.option("--changed", default=1.0, show_default=True, help="Per cent of the keys between two checkpoints.")
@click.option("--checkpoints", default=5, show_default=True)
def main(sessions: int, managed: int, changed: float, checkpoints: int) -> None:
    figures, console = measure(sessions, managed, changed, checkpoints), Console(width=140)
    for name, steps in (("a batch", figures.batches_ms), ("a watermark", figures.watermarks_ms)):
        console.print(f"{name}: p50, p99, worst {', '.join(percentiles(steps, (50, 99, 100)))} ms")
    each = figures.processor_s / (ROUNDS * sessions) * 1e9
    console.print(f"processor time for each partial: {each:,.0f} ns")
    first, *others = figures.written_mib
    console.print(f"checkpoints: the first {first:.1f} MiB, then {', '.join(f'{one:.2f}' for one in others)} MiB")


if __name__ == "__main__":
    main()
