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
from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import avg, count, max, min, sum
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

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


AT_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_of_columns_have_one_row_for_each_key_and_window_and_drop_nothing(
    parallelism: int, tmp_path: Path
) -> None:
    """Times are all over the place, far more than the strategy allows for: in BATCH mode no row is late."""
    rows_at = generated(parallelism).select("text", at=col("key") * 10).assign_timestamps_and_watermarks(AT_VALUE)
    windows = rows_at.key_by("text").window(TumblingEventTimeWindows.of(Time.seconds(30))).agg(count().alias("n"))
    found = run(windows.select("window_start", "text", "n"), f"batch-tumbling-{parallelism}", tmp_path)
    assert in_order(found) == in_order(
        in_duckdb("SELECT key * 10 // 30000 * 30000, text, count(*) FROM data GROUP BY ALL")
    )


@pytest.mark.parametrize("parallelism", [1, 3])
def test_sessions_of_columns_have_one_row_each(parallelism: int, tmp_path: Path) -> None:
    rows_at = generated(parallelism).select("text", at=col("key") * 10).assign_timestamps_and_watermarks(AT_VALUE)
    sessions = rows_at.key_by("text").window(EventTimeSessionWindows.with_gap(Time.milliseconds(250)))
    found = run(
        sessions.agg(count().alias("n")).select("window_start", "text", "n"), f"batch-sessions-{parallelism}", tmp_path
    )
    expected = in_duckdb(
        """
        WITH begins AS (
            SELECT text, key * 10 AS ms,
                coalesce(ms - lag(ms) OVER (PARTITION BY text ORDER BY ms) > 250, true)::INTEGER AS is_first FROM data
        ), numbered AS (SELECT *, sum(is_first) OVER (PARTITION BY text ORDER BY ms) AS session FROM begins)
        SELECT min(ms), text, count(*) FROM numbered GROUP BY text, session
        """
    )
    assert len(expected) > 1000
    assert in_order(found) == in_order(expected)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("function", ["sum", "min", "max"])
def test_single_records_are_reduced_to_one_for_each_key(function: str, parallelism: int, tmp_path: Path) -> None:
    pairs = generated(parallelism).filter(col("value").is_not_null() & (col("key") < 2_000)).select("key", "value")
    records = pairs.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.LONG(), Types.LONG()]))
    keyed = records.key_by(lambda pair: pair[0], Types.LONG())
    reduced = {"sum": keyed.sum, "min": keyed.min, "max": keyed.max}[function](1)
    found = run(reduced, f"batch-{function}-{parallelism}", tmp_path)
    assert sorted(found) == in_duckdb(
        f"SELECT key, {function}(value)::BIGINT FROM data WHERE value IS NOT NULL AND key < 2000 GROUP BY key ORDER BY key"
    )
