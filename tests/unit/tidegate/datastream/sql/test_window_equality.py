"""Aggregates of windows have the types and the values of DuckDB's GROUP BY over the same rows, whole jobs in one process."""

from __future__ import annotations

import math
import random
from itertools import count as numbers
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.datastream.sql.kit import plain
from tests.unit.tidegate.datastream.sql.test_equality import SEEDS, table_of
from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment

_WORLDS = numbers()
_AGGREGATES = ["count({})", "sum({})", "min({})", "max({})", "avg({})", "first({})", "last({})", "stddev({})"]
_NUMBERS = ["i8", "i16", "i32", "a", "b", "u8", "u64", "g", "f", "p", "b + 1", "h * 2", "CASE WHEN p THEN b END"]
_OTHERS = ["s", "d", "ls", "us", "day", "sec", "z", "CAST(b AS VARCHAR)"]
_KEYS = ["", "b", "s", "h", "p", "a", "d", "b % 3", "upper(s)", "day", "n", "us", "u64"]
_WINDOWS = {
    "TUMBLE(ts, INTERVAL '5' SECOND)": "SELECT *, time_bucket(INTERVAL '5' SECOND, ts) AS w FROM input",
    "HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)": (
        "SELECT *, unnest([time_bucket(INTERVAL '5' SECOND, ts), "
        "time_bucket(INTERVAL '5' SECOND, ts) - INTERVAL '5' SECOND]) AS w FROM input"
    ),
    "SESSION(ts, INTERVAL '3' SECOND)": (
        "SELECT *, min(ts) OVER (PARTITION BY {key}, session) AS w FROM (SELECT *, sum(begins) OVER (PARTITION BY {key} "
        "ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM (SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY {key} "
        "ORDER BY ts) <= INTERVAL '3' SECOND THEN 0 ELSE 1 END AS begins FROM input))"
    ),
}
"""Each row with the beginnings of its windows."""


def table_of_windows(seed: int) -> pa.RecordBatch:
    """With times in order, as a stream without late rows has them."""
    found = table_of(seed, 12)
    chance = random.Random(seed)
    times = sorted(1000 * chance.randint(0, 20) for _ in range(found.num_rows))
    return found.set_column(found.schema.names.index("ts"), "ts", pa.array(times, pa.timestamp("ms")))


def _stream(table: pa.RecordBatch) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    return env.from_source(DataGeneratorSource(table.slice, table.num_rows, batch_rows=4), strategy, "rows")


def _result(made: DataStream, directory: Path) -> tuple[pa.Schema, list[tuple[Any, ...]]]:
    world = f"sql-windows-{next(_WORLDS)}"
    schema = made.get_type().arrow_schema()
    made.sink_to(CollectingSink(world))
    (directory / world).mkdir()
    job = InProcessJob(made.get_execution_environment().build(), directory / world)
    job.start()
    job.finish()
    return schema, [tuple(row) for row in committed(world)]


def _reference(query: str, table: pa.RecordBatch) -> pa.Table:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("input", pa.Table.from_batches([table]))
        return connection.sql(query).to_arrow_table()


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-300) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """By the window and the key, which come first."""
    return sorted(rows, key=lambda row: [(one is None, str(one) if one != 0 else "0") for one in row[:2]])


_ITEMS = st.lists(
    st.builds(str.format, st.sampled_from(_AGGREGATES), st.sampled_from(_NUMBERS))
    | st.builds(str.format, st.sampled_from(["count({})", "first({})", "last({})"]), st.sampled_from(_OTHERS))
    | st.builds(str.format, st.sampled_from(["min({})", "max({})"]), st.sampled_from(["us", "day", "sec", "z"])),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("window", sorted(_WINDOWS))
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=SEEDS, items=_ITEMS, key=st.sampled_from(_KEYS))
def test_aggregates_of_windows_are_those_of_group_by(
    tmp_path: Path, seed: int, items: list[str], key: str, window: str
) -> None:
    if window.startswith("SESSION"):  # in whose reference rows are in no order
        items = [item for item in items if not item.startswith(("first", "last"))] or ["count(b)"]
    check(tmp_path, table_of_windows(seed), items, key, window)


def check(tmp_path: Path, table: pa.RecordBatch, items: list[str], key: str, window: str) -> None:
    start = window.replace("(", "_START(", 1)
    columns = ", ".join(f"{item} AS x{i}" for i, item in enumerate(items))
    grouped, named = (f"{key}, ", f"{key} AS k") if key else ("", "0 AS k")
    query = f"SELECT {start} AS w, {named}, {columns} FROM input GROUP BY {grouped}{window}"
    schema, found = _result(_stream(table).sql(query), tmp_path)
    rows_of_windows = _WINDOWS[window].format(key=key or "true")
    expected = _reference(f"SELECT w, {named}, {columns} FROM ({rows_of_windows}) GROUP BY {grouped}w", table)
    assert plain(schema.empty_table())[1][2:] == plain(expected.slice(0, 0))[1][2:]
    rows = _sorted([tuple(row.values()) for row in expected.to_pylist()])
    assert len(found) == len(rows)
    for mine, other in zip(_sorted(found), rows, strict=True):
        assert all(map(_near, mine, other)), (query, mine, other)
