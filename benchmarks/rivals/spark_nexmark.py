"""Nexmark's queries in Spark Structured Streaming, where it can express them, over Parquet files that are micro-batches two by two.

Arguments: parallelism, directory for checkpoints and results. Each line of the standard input is a run: ``query directory name``, with the directory
of the files; the answer is a line ``ANSWER {"seconds": ...}`` or ``ANSWER {"error": ...}``. A run is timed from the start of its first micro-batch to
the end of the last. Each micro-batch is an exactly-once checkpoint: the next begins when it is done.

Left out are those for which it has no operator on streams: ROW_NUMBER (q9, q18, q19), COUNT(DISTINCT) (q15, q16), windows of processing time (q12), aggregates
of aggregates without a window (q4), and joins of a window with its own aggregate (q5, q7, q8).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_HOUR = "hour(dateTime)"
_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
SQL = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS euros, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id "
    "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
    "q10": "SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm FROM bid",
    "q11": "SELECT bidder, count(*) AS bids, session_window.start, session_window.end FROM bid "
    "GROUP BY bidder, session_window(dateTime, '10 seconds')",
    "q14": "SELECT auction, bidder, 0.908 * price AS euros, "
    f"CASE WHEN {_HOUR} >= 8 AND {_HOUR} <= 18 THEN 'dayTime' WHEN {_HOUR} <= 6 OR {_HOUR} >= 20 THEN 'nightTime' ELSE 'otherTime' END AS part, "
    "dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS cs FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    "q17": "SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS dt, count(*) AS bids, "
    + ", ".join(f"count_if({rank}) AS bids_{number}" for number, rank in enumerate(_RANKS, 1))
    + ", min(price) AS least, max(price) AS most, avg(price) AS average, sum(price) AS total FROM bid GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')",
    "q20": "SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemName, description, initialBid, reserve, a.dateTime AS since, expires, "
    "seller, category, a.extra AS more FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' "
    f"WHEN 'baidu' THEN '3' ELSE {_ID} END AS channel_id FROM bid WHERE {_ID} != '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    "q22": "SELECT auction, bidder, price, channel, split(url, '/')[3] AS dir1, split(url, '/')[4] AS dir2, split(url, '/')[5] AS dir3 FROM bid",
    "q23": "SELECT bidder, price, channel, url, b.extra, p.id, name, emailAddress, creditCard, city, state, p.extra AS about, itemName, description, "
    "initialBid, reserve, a.dateTime, expires, seller, category, a.extra AS more "
    "FROM bid b JOIN person p ON p.id = b.bidder JOIN auction a ON a.seller = b.bidder",
}  # fmt: skip
UPDATES = {"q17"}
"""Aggregates that are told as they change."""
KINDS = ("person", "auction", "bid")


def make_views(spark: SparkSession, directory: str, files_of_batch: int) -> None:
    schema = spark.read.parquet(directory).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_of_batch).parquet(directory)
    events = events.withColumn("dateTime", events["dateTime"].cast("timestamp")).withWatermark("dateTime", "4 seconds")
    for number, kind in enumerate(KINDS):
        names = [name for name in schema.names if name.startswith(f"{kind[0]}_")]
        columns = [f"{name} AS {name.partition('_')[2]}" for name in names]
        made: DataFrame = events.where(f"event_type = {number}").selectExpr(*columns, "dateTime")
        made.createOrReplaceTempView(kind)


def run(spark: SparkSession, query: str, directory: str, place: Path, parallelism: int) -> dict[str, Any]:
    make_views(spark, directory, parallelism)
    writer = spark.sql(SQL[query]).writeStream.outputMode("update" if query in UPDATES else "append")
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(place / "checkpoint"))
    if query == "q10":
        started = writer.format("csv").partitionBy("dt", "hm").start(str(place / "out"))
    else:
        started = writer.format("noop").start()
    started.awaitTermination()
    batches = [one for one in started.recentProgress if one["numInputRows"]]
    if not batches:
        raise RuntimeError(f"no micro-batch of {query} had rows")
    first, last = _seconds(batches[0]["timestamp"]), _seconds(batches[-1]["timestamp"])
    return {"seconds": last + batches[-1]["durationMs"]["triggerExecution"] / 1000 - first, "batches": len(batches)}


def _seconds(timestamp: str) -> float:
    return time.mktime(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(timestamp[19:-1])


def main(parallelism: int, directory: Path) -> None:
    builder = SparkSession.builder.master(f"local[{parallelism}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", parallelism).config("spark.driver.memory", "3g")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        query, files, name = line.split()
        try:
            told = run(spark, query, files, directory / name, parallelism)
        except Exception as error:  # noqa: BLE001  what Spark refuses is told to who asked
            told = {"error": str(error)[:2000]}
        print("ANSWER " + json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
