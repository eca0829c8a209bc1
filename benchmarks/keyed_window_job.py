"""Job of the window benchmark: generated rows, tumbling windows, sum and count by key, to Parquet.

Arguments: number of rows, parallelism, output directory, checkpoint interval in ms (0: off), rows per second (0: as fast as
it goes), number of keys.
"""

from __future__ import annotations

import sys

from benchmarks.rows import KEYS, WINDOW_MS, Rows
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows


def main(
    rows: int, parallelism: int, output: str, interval_ms: int, rows_per_second: int = 0, keys: int = KEYS
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    source = DataGeneratorSource(Rows(rows, parallelism, keys), rows, rows_per_second or None)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    (
        env.from_source(source, strategy, "rows")
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .agg(count().alias("rows"), sum("value").alias("total"))
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("keyed window benchmark")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
