"""The yardstick: pyarrow's ``group_by([window, key])`` with sum and count over a table in memory, on 2 threads."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.rows import KEYS, WINDOW_MS, Rows


@dataclass(frozen=True)
class Answer:
    """What contenders must agree on: result rows, sum of the counts, sum of the sums, and a checksum over all."""

    rows: int
    counted: int
    total: int
    checksum: int


def answer(window: pa.ChunkedArray, key: pa.ChunkedArray, rows: pa.ChunkedArray, total: pa.ChunkedArray) -> Answer:
    columns = [np.asarray(column.combine_chunks()).astype(np.uint64) for column in (window, key, rows, total)]
    mixed = columns[0] * np.uint64(1_000_003) + columns[1]
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + columns[2] * np.uint64(31) + columns[3] * np.uint64(17)
    mixed ^= mixed >> np.uint64(29)
    return Answer(len(columns[0]), int(columns[2].sum()), int(columns[3].sum()), int(mixed.sum(dtype=np.uint64)))


def build_table(rows: int, parallelism: int, keys: int = KEYS) -> pa.Table:
    """The rows with their window in place of the timestamp; not part of what is timed."""
    generate, step = Rows(rows, parallelism, keys), 1 << 20
    batches = []
    for first in range(0, rows, step):
        batch = generate(first, min(step, rows - first))
        ts = np.asarray(batch["ts"])
        window = pa.array(ts - ts % WINDOW_MS)
        batches.append(pa.record_batch({"window": window, "key": batch["key"], "value": batch["value"]}))
    return pa.Table.from_batches(batches)


def run(table: pa.Table, threads: int) -> tuple[float, Answer]:
    """(seconds, answer)"""
    pa.set_cpu_count(threads)
    begun = time.perf_counter()
    found = table.group_by(["window", "key"]).aggregate([("value", "count"), ("value", "sum")])
    seconds = time.perf_counter() - begun
    count = pc.cast(found["value_count"], pa.int64())
    return seconds, answer(found["window"], found["key"], count, found["value_sum"])
