"""A job of three queries over one stream: windows, an interval join, and the first row of each key. Each query writes CSV files below a directory."""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

from tidegate.common import WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.table import Schema, StreamTableEnvironment

KEYS = 13
FIRST_KEYS = 2_000
STEP_MS = 2
"""From a row to the next one, in event time."""
AHEAD = 200
"""A row refers to the one so many before it."""
QUERIES = {
    "windows": (
        "k BIGINT, start_ms BIGINT, n BIGINT, total BIGINT, different BIGINT",
        "SELECT k, MIN(id) / 500, COUNT(*), SUM(id), COUNT(DISTINCT id % 7) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
    ),
    "pairs": (
        "id BIGINT, later BIGINT",
        "SELECT a.id, b.id FROM events a JOIN events b ON a.id = b.earlier AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' SECOND",
    ),
    "firsts": (
        "k BIGINT, id BIGINT",
        f"SELECT k, id FROM (SELECT id % {FIRST_KEYS} AS k, id, ROW_NUMBER() OVER (PARTITION BY id % {FIRST_KEYS} ORDER BY ts) AS number "
        "FROM events) WHERE number = 1",
    ),
}
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("earlier", pa.int64()), ("ts", pa.timestamp("ms"))])


class Events:
    """Rows of two sources in turn, so that event time goes on in both alike."""

    def __init__(self, rows: int) -> None:
        self._half = rows // 2

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        row = np.arange(first, first + count)
        ids = row % self._half * 2 + row // self._half
        columns = [ids, ids % KEYS, ids - AHEAD, (ids * STEP_MS).astype("datetime64[ms]")]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    t_env = StreamTableEnvironment.create(env)
    source = DataGeneratorSource(Events(arguments.rows), arguments.rows, arguments.rate, SCHEMA)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    columns = ("id BIGINT", "k BIGINT", "earlier BIGINT", "ts TIMESTAMP(3)")
    schema = Schema.new_builder()
    for column in columns:
        schema = schema.column(*column.split(" "))
    t_env.create_temporary_view("events", stream, schema.watermark("ts", "ts - INTERVAL '0.5' SECOND").build())
    inserts = t_env.create_statement_set()
    for name, (types, query) in QUERIES.items():
        t_env.execute_sql(
            f"CREATE TABLE {name} ({types}) WITH ('connector' = 'filesystem', 'path' = '{arguments.out}/{name}', 'format' = 'csv')"
        )
        inserts.add_insert_sql(f"INSERT INTO {name} {query}")
    inserts.execute()


if __name__ == "__main__":
    main()
