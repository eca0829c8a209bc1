"""Windows over columns that are large: one of all rows, by a key of almost each row. It fires at the end; sources wait in the middle while ``--hold`` is there.

Rows are made from their numbers alone. Each key comes once in the first half of the rows and once in the second, so that what is added after a restore is to be
combined with what was restored.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

from tests.e2e.jobs.counts import SPAN_MS, HeldSource
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows

SPLITS = 2
RATE = 10_000_000
"""Rows a second: as fast as it goes."""


class Rows:
    def __init__(self, rows: int) -> None:
        self._per_split = rows // SPLITS

    def __call__(self, first: int, rows: int) -> pa.RecordBatch:
        number = np.arange(first, first + rows, dtype=np.int64)
        position = number % self._per_split
        half = self._per_split // 2
        key = number // self._per_split * half + position % half
        return pa.record_batch({"ts": position * SPAN_MS // self._per_split, "key": key, "value": number % 1000})


def expected(rows: int) -> pa.Table:
    """By pyarrow, sorted by key."""
    table = pa.Table.from_batches([Rows(rows)(0, rows)])
    sums = table.group_by("key").aggregate([("value", "count"), ("value", "sum")])
    return sums.rename_columns(["key", "rows", "total"]).sort_by("key")


def asked_for() -> tuple[HeldSource, str]:
    """The rows, and where the result is to be: ``--rows``, ``--hold``, ``--output``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--hold", required=True)
    arguments = parser.parse_args()
    generator = DataGeneratorSource(Rows(arguments.rows), arguments.rows, schema=Rows(2 * SPLITS)(0, 1).schema)
    source = HeldSource(generator, RATE, arguments.hold)
    return source, arguments.output


def main() -> None:
    source, output = asked_for()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    (
        env.from_source(source, strategy, "rows")
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(2 * SPAN_MS)))
        .agg(count().alias("rows"), sum("value").alias("total"))
        .uid("windows")
        .select("key", "rows", "total")
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("large windows")


if __name__ == "__main__":
    main()
