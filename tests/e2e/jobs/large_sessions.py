"""Sessions over columns that are large: each key comes twice, half of the time apart, and the gap is a little longer,
so that each is one session that ends behind the last row. The end of its first row is passed while the second is held. The rows are those of ``large_windows``.
"""

from __future__ import annotations

from tests.e2e.jobs.counts import SPAN_MS
from tests.e2e.jobs.large_windows import asked_for
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import EventTimeSessionWindows

LONGER_MS = SPAN_MS // 100


def main() -> None:
    source, output = asked_for()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    (
        env.from_source(source, strategy, "rows")
        .key_by("key")
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(SPAN_MS // 2 + LONGER_MS)))
        .agg(count().alias("rows"), sum("value").alias("total"))
        .uid("sessions")
        .select("key", "rows", "total")
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("large sessions")


if __name__ == "__main__":
    main()
