"""``table_join_spark.py`` moved over: a join with a table needs no state, so it stays in the query.

tidegate run table_join.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAPS = "id long, card string, station string, cents long, at timestamp"


def build(env: StreamExecutionEnvironment, source: str, target: str) -> None:
    def zones(spark: SparkSession) -> DataFrame:
        stations = spark.createDataFrame([("Centraal", 1), ("Zuid", 2)], "station string, zone int")
        taps = spark.readStream.schema(TAPS).parquet(source)
        return taps.join(stations, "station").select("id", "zone")

    env.from_spark_stream(zones).uid("zones").sink_to(FileSink.for_parquet(target)).uid("files")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    build(env, *sys.argv[1:])
    env.execute("table join")
