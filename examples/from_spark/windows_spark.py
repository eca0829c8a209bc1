"""Structured Streaming: taps and takings of each station in each minute, by ``withWatermark`` and ``window``.

python windows_spark.py INPUT OUTPUT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

TAPS = "id long, card string, station string, cents long, at timestamp"


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    taps = spark.readStream.schema(TAPS).parquet(source).withWatermark("at", "10 seconds")
    by_minute = taps.groupBy(f.window("at", "1 minute"), "station")
    totals = by_minute.agg(f.count("*").alias("taps"), f.sum("cents").alias("cents"))
    rows = totals.select(f.unix_millis("window.start").alias("start_ms"), "station", "taps", "cents")
    writer = rows.writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start(target)


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
