"""``windows_spark.py`` moved over: Spark reads, and the windows are in the job, under its checkpoints.

tidegate run windows.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidegate.common import Duration, Time, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def taps(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(TAPS).parquet(source)

    in_ten_seconds = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_column("at")
    by_minute = (
        env.from_spark_stream(taps, in_ten_seconds)
        .uid("taps")
        .key_by("station")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
    )
    totals = by_minute.agg(count().alias("taps"), sum("cents").alias("cents")).uid("totals")
    rows = totals.select(col("window_start").alias("start_ms"), "station", "taps", "cents")
    rows.sink_to(FileSink.for_parquet(target)).uid("files")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("windows")
