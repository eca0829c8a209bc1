"""Structured Streaming: cards that have been silent for a minute, by ``transformWithState`` with a timer.

    python silence_spark.py INPUT OUTPUT

PySpark has it from 4.1 on; in 4.0 it is ``transformWithStateInPandas``. It needs the RocksDB state store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

TAPS = "id long, card string, station string, cents long, at timestamp"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MINUTE_MS = 60_000


class Silence(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.taps = handle.getMapState("taps", "at_ms long", "there boolean")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            self.taps.updateValue((row["at_ms"],), (True,))
            self.handle.registerTimer(row["at_ms"] + MINUTE_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        expiry = expiredTimerInfo.getExpiryTimeInMs()
        at = expiry - MINUTE_MS
        taps = [tap[0] for tap in self.taps.keys()]  # noqa: SIM118  a state, no dict
        self.taps.removeKey((at,))
        if not any(at < tap <= expiry for tap in taps):
            yield Row(card=key[0], since_ms=at)

    def close(self) -> None:
        pass


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    files = spark.readStream.schema(TAPS).option("maxFilesPerTrigger", 1).parquet(source)
    taps = files.withWatermark("at", "10 seconds").selectExpr("card", "at", "unix_millis(at) AS at_ms")
    silent = taps.groupBy("card").transformWithState(
        statefulProcessor=Silence(),
        outputStructType="card string, since_ms long",
        outputMode="Append",
        timeMode="EventTime",
    )
    writer = silent.writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start(target)


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
