"""Columnar windows alone, without processes: ``python -m benchmarks.windows [--rows 2000000] [--repeats 3]``.

Rows of (few | many windows) x (int | sparse int | two ints | string keys) go through the local aggregation of one sender,
and what it emits through the window operator behind the exchange, with a watermark every 16 batches. Beside them, in the
same run and on the same one thread, pyarrow's ``group_by([window, keys])`` with count and sum over the whole table in
memory. Rates are million rows a second of the best repeat, by the processor time of this process, so that a busy machine
distorts them less.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tidegate.model.accumulators import Accumulator
from tidegate.model.channel_events import END_OF_TIME, UserEvent
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.windows.columns.local import ColumnarWindowLocal
from tidegate.taskmanager.windows.columns.window import ColumnarWindow

BATCH_ROWS = 1 << 16
WATERMARK_BATCHES = 16
SIZE_MS = 1000
KEYS = 10_000
AGGREGATES = [("rows", "count", None), ("total", "sum", "value")]
WINDOWS_OF_BATCH = {"few": 0.25, "many": 500.0}
"""How many windows one batch spreads over."""
MANY_WINDOWS_KEYS = 100
"""With many windows keys are fewer, or no row would share a window and a key with another."""


@dataclass
class _Out:
    """Output and metrics of an operator."""

    batches: list[ArrowBatch] = field(default_factory=list)

    def emit(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)
        self.batches.append(batch)

    def emit_side(self, tag: str, batch: Batch) -> None:
        raise AssertionError(tag)

    def emit_watermark(self, timestamp_ms: int) -> None:
        pass

    def emit_event(self, event: UserEvent) -> None: ...

    def emit_idle(self, idle: bool) -> None:
        pass

    def add(self, name: str, amount: int = 1) -> None:
        raise AssertionError(name)

    def gauge(self, name: str, value: float) -> None:
        raise AssertionError(name)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Not looked at."""

    def accumulate(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Not looked at."""


@click.command(help=__doc__)
@click.option("--rows", default=2_000_000, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--only", default="", help="Cases whose name contains this.")
def main(rows: int, repeats: int, only: str) -> None:
    table = Table(
        "windows, keys", "local", "local + window", "slowest step ms", "pyarrow", "local / pyarrow", "both / pyarrow"
    )
    for windows in WINDOWS_OF_BATCH:
        for keys in ("int", "sparse int", "two ints", "string"):
            name = f"{windows}, {keys}"
            if only in name:
                table.add_row(name, *_case(windows, keys, rows, repeats))
    Console().print(table)


def _case(windows: str, keys: str, rows: int, repeats: int) -> list[str]:
    names, batches = _rows(windows, keys, rows)
    local = both = plain = slowest = float("inf")
    for _ in range(repeats):
        seconds, partials, _ = _drive(lambda: ColumnarWindowLocal("local", SIZE_MS, 0, names, AGGREGATES), batches)
        local = min(local, seconds)
        more, results, step = _drive(lambda: ColumnarWindow("window", SIZE_MS, 0, names, AGGREGATES, True), partials)
        both, slowest = min(both, seconds + more), min(slowest, step)
        alone, groups = _pyarrow(names, batches)
        plain = min(plain, alone)
        assert sum(len(batch) for batch, _ in results) == groups, "the answers differ"
    rate = rows / 1e6
    return [
        f"{rate / local:.1f}",
        f"{rate / both:.1f}",
        f"{slowest * 1000:.1f}",
        f"{rate / plain:.1f}",
        f"{plain / local:.2f}",
        f"{plain / both:.2f}",
    ]


Timed = list[tuple[ArrowBatch, int]]
"""Batches, each with the watermark behind it (-1: none)."""


def _rows(windows: str, keys: str, rows: int) -> tuple[list[str], Timed]:
    rng = np.random.default_rng(1)
    number = KEYS if windows == "few" else MANY_WINDOWS_KEYS
    span_ms = int(WINDOWS_OF_BATCH[windows] * SIZE_MS)
    batches: Timed = []
    for index in range(max(1, rows // BATCH_ROWS)):
        columns = _key_columns(keys, rng.integers(0, number, BATCH_ROWS), number)
        columns["value"] = pa.array(rng.integers(0, 1000, BATCH_ROWS))
        stamps = np.sort(rng.integers(index * span_ms, (index + 1) * span_ms, BATCH_ROWS))
        watermark = int(stamps[-1]) - 1 if index % WATERMARK_BATCHES == WATERMARK_BATCHES - 1 else -1
        batches.append((ArrowBatch(pa.record_batch(columns), pa.array(stamps)), watermark))
    names = [name for name in batches[0][0].data.schema.names if name != "value"]
    return names, batches


def _key_columns(keys: str, codes: Any, number: int) -> dict[str, pa.Array]:
    side = int(number**0.5)
    match keys:
        case "int":
            return {"key": pa.array(codes)}
        case "sparse int":
            return {"key": pa.array(codes * 1_000_003 * 2**20)}
        case "two ints":
            return {"first": pa.array(codes // side), "second": pa.array(codes % side)}
        case _:
            return {"key": pa.array([f"customer {code:06d}" for code in range(number)]).take(pa.array(codes))}


def _drive(make: Callable[[], Operator], batches: Timed) -> tuple[float, Timed, float]:
    """(seconds, what it emitted, the longest call in seconds)"""
    out = _Out()
    operator = make()
    operator.setup(_context(out))
    operator.open()
    emitted: Timed = []
    total = longest = 0.0
    for batch, watermark in [*batches, (None, END_OF_TIME)]:
        begun = time.process_time()
        if batch is not None:
            operator.process(batch, 0)
        if watermark >= 0:
            operator.on_watermark(watermark)
        took = time.process_time() - begun
        total += took
        longest = max(longest, took)
        emitted += [(one, -1) for one in out.batches]
        out.batches.clear()
        if watermark >= 0 and emitted:
            emitted[-1] = (emitted[-1][0], watermark)
    return total, emitted, longest


def _context(out: _Out) -> OperatorContext:
    unused: Any = None
    return OperatorContext(
        attempt=AttemptId(JobId("0" * 32), VertexId("1" * 32), 0, 0),
        operator_id=OperatorId("2" * 32),
        operator_name="window",
        job_name="job",
        task_name="task",
        parallelism=1,
        max_parallelism=128,
        output=out,
        clock=unused,
        timers=unused,
        metrics=out,
    )


def _pyarrow(names: list[str], batches: Timed) -> tuple[float, int]:
    parts = []
    for batch, _ in batches:
        assert batch.timestamps is not None
        window = pa.array(batch.timestamps.to_numpy() // SIZE_MS)
        parts.append(pa.RecordBatch.from_arrays([window, *batch.data.columns], ["window", *batch.data.schema.names]))
    table = pa.Table.from_batches(parts)
    begun = time.process_time()
    found = table.group_by(["window", *names], use_threads=False).aggregate([("value", "count"), ("value", "sum")])
    return time.process_time() - begun, found.num_rows


if __name__ == "__main__":
    main()
