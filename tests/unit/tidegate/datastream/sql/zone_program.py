"""A program that prints what depends on time zones, for ``test_time_zones``: it runs under several ``TZ``."""

from __future__ import annotations

import datetime
import io
import itertools
import os
import pickle
import sys
import tempfile
from pathlib import Path

import fastavro
import pyarrow as pa

from tests.unit.taskmanager.runtime.collecting import CollectingSink, committed
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.connectors.files.buckets import DateTimeBuckets
from tidegate.connectors.formats.avro_messages import rows_as_dicts
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.functions.sql.duckdb_values import DuckDbColumns

ROWS = 400
_WORLDS = itertools.count()

QUERIES = (
    "SELECT moment::DATE AS d, moment::VARCHAR AS s, date_trunc('day', moment)::VARCHAR AS t, extract(hour FROM moment) AS h FROM input",
    "SELECT moment::TIMESTAMP AS t, wall::TIMESTAMPTZ::VARCHAR AS z, wall::DATE AS d, strftime(moment, '%d.%m. %H:%M') AS f FROM input",
    "SELECT ('2024-03-10 01:30:00')::TIMESTAMPTZ AS given, moment < '2024-03-11 00:00' AS early, dayname(moment) AS d FROM input",
    "SELECT moment + INTERVAL '1' DAY AS next, age(moment, TIMESTAMPTZ '2024-01-01 00:00Z') AS a, date_diff('day', moment, wall) AS n FROM input",
    "SELECT current_date = (now()::DATE) AND current_date = today() AS same, typeof(now()) AS kind, "
    "current_setting('TimeZone') AS zone, localtimestamp = now()::TIMESTAMP AS here FROM input",
    "SELECT moment::DATE AS d, count(*) AS n FROM input WHERE extract(hour FROM moment) < 12 GROUP BY moment::DATE, TUMBLE(moment, INTERVAL '15' MINUTE)",
    "SELECT TUMBLE_START(moment, INTERVAL '15' MINUTE) AS s, count(*) AS n FROM input GROUP BY TUMBLE(moment, INTERVAL '15' MINUTE)",
)
OF_DUCKDB = 4
"""So many of them DuckDB can answer by itself, and not by the clock."""


def rows(first: int, number: int) -> pa.RecordBatch:
    moments = [1_710_000_000_000 + i * 3_000_000 for i in range(first, first + number)]
    columns = [pa.array(moments, pa.timestamp("ms", "America/Chicago")), pa.array(moments, pa.timestamp("ms"))]
    return pa.RecordBatch.from_arrays(columns, names=["moment", "wall"])


def stream(zone: str) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"table.local-time-zone": zone} if zone else {})
    )
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("moment")
    return env.from_source(DataGeneratorSource(rows, ROWS, batch_rows=100), strategy, "rows")


def result(made: DataStream, directory: Path) -> list[str]:
    world = f"zones-{os.getpid()}-{next(_WORLDS)}"
    made.sink_to(CollectingSink(world))
    made.get_execution_environment().enable_checkpointing(1000)
    job = InProcessJob(made.get_execution_environment().build(), directory)
    job.start()
    job.finish()
    return sorted(repr(tuple(row)) for row in committed(world))


def of_sql(zone: str) -> None:
    for query in QUERIES:
        made = stream(zone).sql(query)
        with tempfile.TemporaryDirectory(dir=os.environ["TMPDIR"]) as directory:
            print(made.get_type().arrow_schema(), *result(made, Path(directory)), sep="\n")


def of_connectors() -> None:
    moment = datetime.datetime(2024, 3, 10, 2, 30)
    print(DateTimeBuckets("yyyy-MM-dd").now() == datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"))
    internal = Types.SQL_TIMESTAMP().to_internal_type(moment)
    print(internal, Types.SQL_TIMESTAMP().from_internal_type(internal))
    for logical in ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"):
        schema = fastavro.parse_schema(
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "t", "type": {"type": "long", "logicalType": logical}}],
            }
        )
        for zone in (None, "UTC", "Asia/Tokyo"):
            (row,) = rows_as_dicts(
                pa.RecordBatch.from_arrays([pa.array([moment], pa.timestamp("us", zone))], names=["t"])
            )
            written = io.BytesIO()
            fastavro.schemaless_writer(written, schema, row)
            print(logical, zone, written.getvalue().hex())


def of_columns_that_another_process_made(pickled: str) -> None:
    columns: DuckDbColumns = pickle.loads(bytes.fromhex(pickled))
    print(columns(rows(0, 5)).to_pylist()[0:5])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sql", zone]:
            of_sql(zone)
        case ["connectors"]:
            of_connectors()
        case ["columns", pickled]:
            of_columns_that_another_process_made(pickled)
