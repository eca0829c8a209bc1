"""Structured Streaming: each tap once although the gates send some twice, by ``dropDuplicates`` within a watermark.

python distinct_spark.py INPUT OUTPUT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

TAPS = "id long, card string, station string, cents long, at timestamp"


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    taps = spark.readStream.schema(TAPS).parquet(source).withWatermark("at", "10 seconds")
    rows = taps.dropDuplicates(["id", "at"]).select("id", "card", "station", "cents")
    writer = rows.writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start(target)


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
