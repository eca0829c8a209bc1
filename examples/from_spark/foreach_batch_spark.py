"""Structured Streaming: each batch of taps by ``foreachBatch`` to a directory of its own.

    python foreach_batch_spark.py INPUT OUTPUT

A batch that comes again overwrites what it wrote, so that each tap is there once.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

TAPS = "id long, card string, station string, cents long, at timestamp"


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{target}/{batch}")

    taps = spark.readStream.schema(TAPS).parquet(source).where("cents > 0")
    writer = taps.writeStream.foreachBatch(write).trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start()


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
