"""``foreach_batch_spark.py`` moved over: the query and the function stay, and the rows of each checkpoint take the place of a batch.

tidegate run foreach_batch.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidegate.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.spark import SparkEpoch

TAPS = "id long, card string, station string, cents long, at timestamp"


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def taps(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(TAPS).parquet(source).where("cents > 0")

    def write(rows: DataFrame, epoch: SparkEpoch) -> None:
        rows.write.mode("overwrite").parquet(f"{target}/{epoch.application_id}-{epoch.number}")

    env.from_spark_stream(taps).uid("taps").to_spark(write).uid("table")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("foreach batch")
