"""Spark Structured Streaming copies a topic: jars, servers, input, output, trigger in ms, directory."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(jars: str, servers: str, source: str, sink: str, interval_ms: str, directory: str) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.jars", jars).getOrCreate()
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1000000").load().select("value")
    write = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
    write = write.option("checkpointLocation", f"{directory}/checkpoint")
    write.trigger(processingTime=f"{interval_ms} milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
