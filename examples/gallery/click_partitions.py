"""Clicks, some of which were sent twice, in partitions of hours: each is written once, and a partition that is whole says so.

    python examples/gallery/click_partitions.py        needs Java, and pip install 'tidegate[table]'

    clicks ─▶ the first of each id ─▶ dt=2026-01-05/hh=07/*.parquet, and _SUCCESS when the watermark has passed the hour

A job that reads a partition may wait for its file _SUCCESS: all rows of the hour are visible then.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.files import FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.table import DataTypes, Schema, StreamTableEnvironment

CLICKS, START_MS, HOURS, HOUR_MS = 50_000, 1_767_571_200_000, 12, 3_600_000
PARTITIONS = """
    CREATE TABLE partitions (id BIGINT, page STRING, at_ms BIGINT, dt STRING, hh STRING) PARTITIONED BY (dt, hh) WITH (
        'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet',
        'partition.time-extractor.timestamp-pattern' = '$dt $hh:00:00',
        'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 h',
        'sink.partition-commit.policy.kind' = 'success-file')"""
INSERT = """
    INSERT INTO partitions
    SELECT id, page, at_ms, DATE_FORMAT(rowtime, 'yyyy-MM-dd'), DATE_FORMAT(rowtime, 'HH') FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY came) AS n FROM clicks
    ) WHERE n = 1"""


def write_input(directory: Path) -> None:
    """Half a day of clicks. Browsers send every tenth again, up to a minute later, as it was."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(50)
    at = START_MS + rng.integers(0, HOURS * HOUR_MS, CLICKS)
    again = rng.choice(CLICKS, CLICKS // 10, replace=False)
    ids = np.concatenate([np.arange(CLICKS), again])
    come = np.argsort(np.concatenate([at, at[again] + rng.integers(0, 60_000, len(again))]), kind="stable")
    pages = pa.array([f"/item/{page}" for page in rng.integers(0, 300, CLICKS)])
    columns = {"id": pa.array(ids), "page": pages.take(pa.array(ids)), "at_ms": pa.array(at[ids])}
    table = pa.table({**columns, "at": columns["at_ms"].cast(pa.timestamp("ms", "UTC"))})
    pq.write_table(table.take(pa.array(come)), directory / "clicks.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="clicks in partitions of hours, each once")
    parser.add_argument(
        "--directory", type=Path, default=Path("out/gallery/click_partitions"), help="of input and output"
    )
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the clicks down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_column("at")
    clicked = ThrottledSource(FileSource.for_parquet(str(directory / "clicks.parquet")), arguments.rows_per_second)
    clicks = env.from_source(clicked, late, "clicks").set_parallelism(1)
    with_times = (
        Schema.new_builder()
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .column_by_expression("came", "PROCTIME()")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    t_env.create_temporary_view("clicks", t_env.from_data_stream(clicks, with_times))
    t_env.execute_sql(PARTITIONS.format(path=directory / "partitions"))
    statements = t_env.create_statement_set()
    statements.add_insert_sql(INSERT)
    statements.attach_as_datastream()
    env.execute("click partitions")


if __name__ == "__main__":
    main()
