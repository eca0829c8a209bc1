"""Job of the benchmark of many keys: rows of a mapped file, tumbling windows, sum and count by key, to Parquet.

Arguments: file of the rows, how many they are, key columns by comma, length of a window in ms, output directory, checkpoint
interval in ms (0: off), parallelism.
"""

from __future__ import annotations

import sys

from benchmarks.wide_rows import Mapped
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows


def main(
    path: str, rows: int, keys: list[str], window_ms: int, output: str, interval_ms: int, parallelism: int
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    (
        env.from_source(DataGeneratorSource(Mapped(path), rows), strategy, "rows")
        .key_by(*keys)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(window_ms)))
        .agg(count().alias("rows"), sum("v").alias("total"))
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("windows of many keys")


if __name__ == "__main__":
    path, rows, keys, window_ms, output, interval_ms, parallelism = sys.argv[1:]
    main(path, int(rows), keys.split(","), int(window_ms), output, int(interval_ms), int(parallelism))
