"""SQL on streams: whole jobs in one process, beside DuckDB over the same rows as a table; refusals by what they say."""

from __future__ import annotations

import math
import pickle
from itertools import count as numbers
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.functions.sql.duckdb_values import DuckDbColumns
from tidegate.model.errors import InvalidJob, SchemaMismatch

ROWS = 2_000
_WORLDS = numbers()


def rows(first: int, number: int) -> pa.RecordBatch:
    index = range(first, first + number)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f"c{i % 7}" for i in index]),
            pa.array([None if i % 11 == 0 else i % 100 for i in index], pa.int64()),
            pa.array([i / 8 for i in index]),
            pa.array([i * 10 for i in index], pa.timestamp("ms")),
        ],
        names=["carrier", "delay", "Distance", "ts"],
    )


def stream() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    return env.from_source(DataGeneratorSource(rows, ROWS, batch_rows=300), strategy, "rows")


def result(made: DataStream, directory: Path) -> list[tuple[Any, ...]]:
    world = f"sql-{next(_WORLDS)}"
    made.sink_to(CollectingSink(world))
    made.get_execution_environment().enable_checkpointing(1000)
    job = InProcessJob(made.get_execution_environment().build(), directory)
    job.start()
    job.finish()
    return sorted((tuple(row) for row in committed(world)), key=repr)


def reference(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("input", pa.Table.from_batches([rows(0, ROWS)]))
        found = connection.sql(query).to_arrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM input WHERE delay > 90",
        "SELECT carrier, delay * 2 + 1 AS d, input.DISTANCE / 3 AS third FROM input WHERE delay BETWEEN 10 AND 12",
        "SELECT upper(carrier) AS c, delay FROM input i WHERE i.delay IN (3, 5) AND NOT (carrier = 'c1' OR carrier = 'c2')",
        "SELECT delay IS NULL AS missing, coalesce(delay, -1) AS d, -delay AS n FROM input WHERE Distance < 20",
        "SELECT CASE WHEN delay > 50 THEN 'late' WHEN delay > 20 THEN 'soon' ELSE 'fine' END AS k, ts FROM input",
        "SELECT carrier || '-' || carrier AS twice, carrier LIKE 'c_' AS alike, delay % 7 AS rest FROM input",
        "SELECT regexp_extract(carrier, '[0-9]') AS digit, round(Distance) AS r FROM input WHERE ends_with(carrier, '3')",
        "SELECT CAST(delay AS DOUBLE) AS f, CAST(delay AS VARCHAR) AS s, DATE '2024-01-31' AS day FROM input",
    ],
)
def test_stateless_queries_give_what_duckdb_gives(query: str, tmp_path: Path) -> None:
    assert result(stream().sql(query), tmp_path) == reference(query)


def test_windows_give_what_duckdb_gives_by_time_bucket(tmp_path: Path) -> None:
    made = stream().sql(
        "SELECT TUMBLE_START(ts, INTERVAL '5' SECOND) AS began, carrier, count(*) AS n, count(delay) AS known, "
        "sum(delay + 1) / count(*) AS share, max(Distance) - min(Distance) AS span, avg(delay) AS mean "
        "FROM input WHERE Distance > 3 GROUP BY carrier, TUMBLE(ts, INTERVAL '5' SECOND) HAVING count(*) > 70"
    )
    expected = reference(
        "SELECT time_bucket(INTERVAL '5' SECOND, ts) AS began, carrier, count(*) AS n, count(delay) AS known, "
        "sum(delay + 1)::BIGINT / count(*) AS share, max(Distance) - min(Distance) AS span, avg(delay) AS mean "
        "FROM input WHERE Distance > 3 GROUP BY ALL HAVING count(*) > 70"
    )
    found = result(made, tmp_path)
    assert len(found) == len(expected) > 5
    for row, other in zip(found, expected, strict=True):
        assert row[:4] == other[:4]
        assert all(math.isclose(a, b) for a, b in zip(row[4:], other[4:], strict=True))


def test_other_aggregates(tmp_path: Path) -> None:
    made = stream().sql(
        "SELECT carrier, first(Distance) AS f, last(Distance) AS l, stddev(Distance) AS sd, "
        "approx_count_distinct(delay) AS d, approx_quantile(Distance, 0.5) AS m, approx_quantile(Distance, 0.9) AS p "
        "FROM input GROUP BY carrier, TUMBLE(ts, INTERVAL '1' HOUR)"
    )
    expected = reference(
        "SELECT carrier, min(Distance) AS f, max(Distance) AS l, stddev(Distance) AS sd, count(DISTINCT delay) AS d, "
        "median(Distance) AS m, quantile_cont(Distance, 0.9) AS p FROM input GROUP BY carrier"
    )
    for row, other in zip(result(made, tmp_path), expected, strict=True):
        assert row[:3] == other[:3]
        assert row[3:] == pytest.approx(other[3:], rel=0.015)


def test_sliding_windows(tmp_path: Path) -> None:
    hop = "HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
    made = stream().sql(f"SELECT {hop.replace('HOP', 'HOP_START')} AS began, count(*) AS n FROM input GROUP BY {hop}")
    expected = reference(
        "SELECT unnest([bucket, bucket - INTERVAL '5' SECOND]) AS began, sum(n)::BIGINT AS n FROM "
        "(SELECT time_bucket(INTERVAL '5' SECOND, ts) AS bucket, count(*) AS n FROM input GROUP BY ALL) GROUP BY began"
    )
    assert result(made, tmp_path) == expected


def test_a_window_of_all_rows_and_a_key_that_is_an_expression(tmp_path: Path) -> None:
    whole = stream().sql("SELECT sum(delay) AS total FROM input GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)")
    assert result(whole, tmp_path) == reference("SELECT sum(delay)::BIGINT AS total FROM input")
    (tmp_path / "second").mkdir()
    keyed = stream().sql(
        "SELECT delay % 3 AS k, count(*) AS n FROM input GROUP BY delay % 3, TUMBLE(ts, INTERVAL '1' HOUR)"
    )
    expected = reference("SELECT delay % 3 AS k, count(*) AS n FROM input GROUP BY ALL")
    assert result(keyed, tmp_path / "second") == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT carrier FRM input", "syntax error"),
        ("SELECT dely FROM input", "no column 'dely'"),
        ("SELECT delay FROM flights", "no other table"),
        ("SELECT delay FROM input ORDER BY delay", "ORDER BY"),
        ("SELECT delay FROM input LIMIT 3", "LIMIT"),
        ("SELECT DISTINCT delay FROM input", "DISTINCT"),
        ("SELECT a.delay FROM input a JOIN input b USING (delay)", "joins"),
        ("SELECT (SELECT 1) AS one FROM input", "subqueries"),
        ("WITH x AS (SELECT 1) SELECT delay FROM input", "WITH"),
        ("SELECT sum(delay) OVER () AS s FROM input", "OVER"),
        ("SELECT sum(delay) AS s FROM input", "need one window"),
        ("SELECT delay AS a, carrier AS a FROM input", "twice"),
        ("SELECT nosuch(delay) AS a FROM input", "nosuch"),
        ("INSERT INTO input VALUES (1)", "Only SELECT"),
        ("SELECT delay, count(*) AS n FROM input GROUP BY carrier, TUMBLE(ts, INTERVAL '5' SECOND)", "GROUP BY"),
        ("SELECT mode(delay) AS m FROM input GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)", "aggregate mode"),
        ("SELECT approx_quantile(delay, 2) AS m FROM input GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)", "from 0 to 1"),
        ("SELECT count(*) AS n FROM input GROUP BY TUMBLE(ts, 'soon')", "interval"),
        ("SELECT carrier FROM read_csv('x.csv')", "no other table"),
    ],
)
def test_what_streams_do_not_have_is_refused_when_the_graph_is_built(query: str, said: str) -> None:
    with pytest.raises((InvalidJob, SchemaMismatch), match=said):
        stream().sql(query)


def test_a_query_that_is_computed_by_duckdb_travels_and_reads_no_files(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"a": [1, 2]})
    columns: DuckDbColumns = pickle.loads(pickle.dumps(DuckDbColumns(["a * 2"], schema, "UTC")))
    assert columns(batch).to_pydict() == {"a": [1, 2], "b": [2, 4]}
    reading = DuckDbColumns([f"(SELECT max(a) FROM read_csv('{tmp_path / 'x.csv'}'))"], schema, "UTC")
    with pytest.raises(duckdb.Error):
        reading(batch)
