"""The window benchmark in Spark Structured Streaming: the rows of ``benchmarks.rows``, tumbling windows, count and sum by key, Parquet.

Arguments: parallelism, rows of a micro-batch. Each line of the standard input is a run: ``rows directory``; the answer is a line
``ANSWER {"seconds": ..., "batches": ...}``. A run is timed from the start of its first micro-batch to the end of the last with rows.

Guarantees: exactly once by micro-batches. The source replays by offsets, the file sink commits a batch by its log, and state is written
at the end of each micro-batch, so each of them is a checkpoint; the next begins when it is done (the default trigger).
Append mode tells a window when the watermark, which moves between batches, has passed it.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

KEYS, WINDOW_S, ROWS_PER_MS = 10_000, 5, 500
AFTER_ALL_S = 10_000_000
"""Event time of the rows behind the last, which end all windows. Their key is -1."""


def windows(spark: SparkSession, rows: int, parallelism: int, batch_rows: int) -> DataFrame:
    each = rows // parallelism
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", batch_rows)
    value = f.col("value")
    turn = f.floor(value / parallelism)
    number = f.when(value < rows, (value % parallelism) * each + turn)
    at_ms = f.coalesce(turn / ROWS_PER_MS, f.lit(0.0))
    made = (
        stream.option("numPartitions", parallelism)
        .load()
        .select(
            f.when(value < rows, number * 7919 % KEYS).otherwise(-1).alias("key"),
            number.bitwiseAND(1023).alias("value"),
            f.timestamp_millis(f.when(value < rows, f.floor(at_ms)).otherwise(AFTER_ALL_S * 1000)).alias("ts"),
        )
    )
    grouped = made.withWatermark("ts", "0 seconds").groupBy(f.window("ts", f"{WINDOW_S} seconds"), "key")
    return grouped.agg(f.count("*").alias("rows"), f.sum("value").alias("total")).select("key", "rows", "total")


def run(spark: SparkSession, rows: int, directory: str, parallelism: int, batch_rows: int) -> dict[str, float]:
    batches = rows // batch_rows
    writer = windows(spark, rows, parallelism, batch_rows).writeStream.format("parquet").outputMode("append")
    query = writer.option("checkpointLocation", f"{directory}/checkpoint").start(f"{directory}/out")
    first = last = 0.0
    try:
        while True:
            for one in query.recentProgress:
                begun = time.mktime(time.strptime(one["timestamp"][:19], "%Y-%m-%dT%H:%M:%S")) + float(
                    one["timestamp"][19:-1]
                )
                if one["batchId"] == 0:
                    first = begun
                if one["batchId"] == batches - 1:
                    last = begun + one["durationMs"]["triggerExecution"] / 1000
                if one["batchId"] >= batches + 2:  # the watermark passed all windows, and they are told
                    return {"seconds": last - first, "batches": batches}
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.2)
    finally:
        query.stop()


def main(parallelism: int, batch_rows: int) -> None:
    builder = SparkSession.builder.master(f"local[{parallelism}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", parallelism).config("spark.driver.memory", "3g")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config(
        "spark.sql.streaming.numRecentProgressUpdates", "1000"
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        rows, directory = line.split()
        print("ANSWER " + json.dumps(run(spark, int(rows), directory, parallelism, batch_rows)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
