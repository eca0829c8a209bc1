"""Running aggregates over columns with a key of almost each row; sources wait in the middle while ``--hold`` is there.

Each key comes once in the first half of the rows and once in the second: what is written, its last result, has the state from before a restore in it.
"""

from __future__ import annotations

from tests.e2e.jobs.large_windows import asked_for
from tidegate.common import WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import count, sum


def main() -> None:
    source, output = asked_for()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(300)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        .key_by("key")
        .agg(count().alias("rows"), sum("value").alias("total"))
        .uid("totals")
        .filter(col("rows") == 2)
        .select("key", "rows", "total")
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("running totals")


if __name__ == "__main__":
    main()
