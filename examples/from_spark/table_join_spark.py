"""Structured Streaming: a stream joined with a table, here the zone of each station.

python table_join_spark.py INPUT OUTPUT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

TAPS = "id long, card string, station string, cents long, at timestamp"


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    stations = spark.createDataFrame([("Centraal", 1), ("Zuid", 2)], "station string, zone int")
    taps = spark.readStream.schema(TAPS).parquet(source)
    rows = taps.join(stations, "station").select("id", "zone")
    writer = rows.writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start(target)


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
