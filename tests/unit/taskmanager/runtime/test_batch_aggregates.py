"""``key_by(...).agg(...)`` in BATCH execution mode: one row for each key, the one that DuckDB finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Duration, Time, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import avg, count, max, min, sum
from tidegate.datastream.window import TumblingEventTimeWindows

ROWS = 300_000
KEYS = 41_297


def rows(first: int, number: int) -> pa.RecordBatch:
    """Keys that come again and again, far apart, some of them null; values that may be null."""
    index = np.arange(first, first + number, dtype=np.int64)
    mixed = (index * 2_654_435_761) % 2_147_483_647
    key = mixed % KEYS
    texts = pa.array(np.char.add("k", (mixed % 97).astype("U4")), pa.string(), mask=mixed % 97 == 5)
    value = pa.array(mixed % 1_000_003 - 500_000, mask=mixed % 11 == 0)
    columns = [pa.array(key), texts, value, pa.array((mixed % 8191) / 8.0)]
    return pa.RecordBatch.from_arrays(columns, names=["key", "text", "value", "share"])


def generated(parallelism: int) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism).set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env.from_source(DataGeneratorSource(rows, ROWS), WatermarkStrategy.no_watermarks(), "rows")


def run(stream: DataStream, world: str, directory: Path) -> list[tuple[Any, ...]]:
    stream.sink_to(CollectingSink(world))
    job = InProcessJob(stream._env.build(), directory)
    job.start_failing()
    job.until(lambda: job.is_over, "the end")
    job.join()
    return [tuple(row) for row in committed(world)]


def in_duckdb(query: str) -> list[tuple[Any, ...]]:
    """``query`` over all rows, which are called ``data``."""
    with duckdb.connect() as connection:
        connection.register("data", pa.table(rows(0, ROWS)))
        return connection.execute(query).fetchall()


def in_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("keys", [("key",), ("text",), ("text", "key")])
def test_every_key_has_one_row_and_it_is_duckdbs(keys: tuple[str, ...], parallelism: int, tmp_path: Path) -> None:
    aggregates = [count().alias("n"), sum("value"), min("value").alias("lo"), max("share"), avg("value").alias("mean")]
    world = f"batch-agg-{'-'.join(keys)}-{parallelism}"
    found = run(generated(parallelism).key_by(*keys).agg(*aggregates), world, tmp_path)
    names = ", ".join(keys)
    expected = in_duckdb(
        f"SELECT {names}, count(*), sum(value)::BIGINT, min(value), max(share), avg(value) FROM data GROUP BY {names}"
    )
    assert len(found) == len(expected) == len({row[: len(keys)] for row in found})
    assert in_order(found) == in_order(expected)
    assert np.sum([row[len(keys)] for row in found]) == ROWS


def test_totals_may_be_aggregated_by_windows_behind_them(tmp_path: Path) -> None:
    """Event time does not end before the rows that are given at the end of the input."""
    totals = generated(2).key_by("key").agg(count().alias("n"))
    at_key = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("key")
    timed = totals.select("key", "n", parity=col("key") % 2).assign_timestamps_and_watermarks(at_key)
    windows = timed.key_by("parity").window(TumblingEventTimeWindows.of(Time.seconds(10))).agg(sum("n").alias("n"))
    found = run(windows.select("window_start", "parity", "n"), "batch-agg-windows", tmp_path)
    assert sorted(found) == in_duckdb(
        "SELECT key // 10000 * 10000, key % 2, count(*) FROM data GROUP BY ALL ORDER BY ALL"
    )
