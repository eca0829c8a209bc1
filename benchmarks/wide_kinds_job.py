"""Job of ``wide_kinds``: rows of a mapped file, sum and count by one key with a million values, dropped.

Arguments: kind (``windows``, ``aggregate`` or ``sessions``), file of the rows, how many they are, length of a window or gap of a session in ms,
checkpoint interval in ms, parallelism.
"""

from __future__ import annotations

import sys

from benchmarks.dropping import Dropping
from benchmarks.wide_rows import Mapped
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows


def main(kind: str, path: str, rows: int, length_ms: int, interval_ms: int, parallelism: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.enable_checkpointing(interval_ms)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    keyed = env.from_source(DataGeneratorSource(Mapped(path), rows), strategy, "rows").key_by("k")
    totals = (count().alias("rows"), sum("v").alias("total"))
    if kind == "aggregate":
        results = keyed.agg(*totals)
    elif kind == "sessions":
        results = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(length_ms))).agg(*totals)
    else:
        results = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(length_ms))).agg(*totals)
    results.sink_to(Dropping())
    env.execute(f"a million keys: {kind}")


if __name__ == "__main__":
    kind, path, rows, length_ms, interval_ms, parallelism = sys.argv[1:]
    main(kind, path, int(rows), int(length_ms), int(interval_ms), int(parallelism))
