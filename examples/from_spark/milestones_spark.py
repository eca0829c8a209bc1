"""Structured Streaming: every tenth tap of a card, by a stateful function in pandas (``applyInPandasWithState``).

python milestones_spark.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

TAPS = "id long, card string, station string, cents long, at timestamp"


def milestones(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    before = state.get[0] if state.exists else 0
    after = before + sum(len(frame) for frame in frames)
    state.update((after,))
    reached = range(before // 10 + 1, after // 10 + 1)
    yield pd.DataFrame({"card": [key[0] for _ in reached], "taps": [10 * number for number in reached]})


def start(spark: SparkSession, source: str, target: str) -> StreamingQuery:
    taps = spark.readStream.schema(TAPS).parquet(source)
    rows = taps.groupBy("card").applyInPandasWithState(
        milestones, "card string, taps long", "taps long", "append", GroupStateTimeout.NoTimeout
    )
    writer = rows.writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    return writer.option("checkpointLocation", f"{target}-checkpoint").start(target)


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
