"""A stream of Spark's through a job: rows of files, of a table of Delta or Iceberg, of Spark's rate source, or of a DataSource in Python, to Parquet
by the file sink or by Spark, or to such a table."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.spark.writes import delta_writer, iceberg_writer
from tidegate.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.spark.sink import SparkEpoch

COUNTED = 200
"""Rows a second of the DataSource in Python."""


def files(path: str) -> Callable[[SparkSession], DataFrame]:
    def query(spark: SparkSession) -> DataFrame:
        stream = spark.readStream.schema("id long, part long").option("maxFilesPerTrigger", 2)
        return stream.parquet(path).where("id >= 0")

    return query


def delta(path: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: (
        spark.readStream.format("delta").option("maxFilesPerTrigger", 2).load(path).select("id", "part")
    )


def iceberg(table: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: spark.readStream.table(table).select("id", "part")


def every(path: str, servers: str, topic: str) -> Callable[[SparkSession], DataFrame]:
    """Several sources as one stream, of which each knows its rows by their ``part``: files 0, Kafka 1, rate 2, the DataSource in Python 3."""

    def query(spark: SparkSession) -> DataFrame:
        kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        kafka = kafka.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100)
        ids = kafka.load().selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id")
        streams = [files(path)(spark), ids, rate(spark), counting(spark)]
        tagged = [stream.selectExpr("id", f"CAST({part} AS BIGINT) AS part") for part, stream in enumerate(streams)]
        return tagged[0].union(tagged[1]).union(tagged[2]).union(tagged[3])

    return query


def rate(spark: SparkSession) -> DataFrame:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 500).option("numPartitions", 2)
    return stream.load().selectExpr("value as id", "value % 2 as part")


def counting(spark: SparkSession) -> DataFrame:
    """A source of the user's own, which knows nothing of checkpoints."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Range(InputPartition):
        def __init__(self, first: int, end: int) -> None:
            self.first, self.end = first, end

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return self.latestOffset()

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # PySpark before 4.3 gives no arguments
            """Offsets by the clock, as of a system that grows."""
            import time

            return {"rows": int(time.time() * COUNTED)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:
            middle = (start["rows"] + end["rows"]) // 2
            return [Range(start["rows"], middle), Range(middle, end["rows"])]

        def read(self, partition: Any) -> Iterator[tuple[int, int]]:
            return iter([(n, n % 2) for n in range(partition.first, partition.end)])

    class Counting(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return "id long, part long"

        def streamReader(self, schema: Any) -> Reader:
            return Reader()

    spark.dataSource.register(Counting)
    return spark.readStream.format("counting").load()


class Seen:
    """Leaves the id of each process that reads the stream."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.told = False

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.told:
            Path(self.directory, str(os.getpid())).touch()
            self.told = True
        return batch


class ByEpoch:
    """An epoch overwrites its own directory: exactly once, whatever is repeated."""

    def __init__(self, output: str) -> None:
        self.output = output

    def __call__(self, rows: DataFrame, epoch: SparkEpoch) -> None:
        rows.write.mode("overwrite").parquet(f"{self.output}/{epoch.application_id}-{epoch.number}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", choices=["files", "delta", "iceberg", "rate", "counting", "every"], required=True)
    parser.add_argument("--sink", choices=["files", "spark", "delta", "iceberg"], default="files")
    parser.add_argument("--input", default="")
    parser.add_argument("--table", default="")
    parser.add_argument("--servers", default="")
    parser.add_argument("--topic", default="")
    parser.add_argument("--interval", type=int, default=300)
    parser.add_argument("--seen", required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(arguments.interval)
    tables = {"delta": delta(arguments.table), "iceberg": iceberg(arguments.table)}
    queries = {"files": files(arguments.input), "rate": rate, "counting": counting, **tables}
    queries["every"] = every(arguments.input, arguments.servers, arguments.topic)
    query = queries[arguments.source]
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    rows = env.from_spark_stream(query, WatermarkStrategy.no_watermarks(), "rows", partitions=2).uid("rows")
    seen = rows.map_batches(Seen(arguments.seen), schema).uid("seen").force_non_parallel()
    shuffled = seen.key_by("part").map_batches(lambda batch: batch, schema).uid("map")
    writes: dict[str, Callable[[DataFrame, SparkEpoch], None]] = {
        "spark": ByEpoch(arguments.output),
        "delta": delta_writer(arguments.table or "unused"),
        "iceberg": iceberg_writer(arguments.table),
    }
    if arguments.sink in writes:
        shuffled.to_spark(writes[arguments.sink]).uid("sink")
    else:
        shuffled.sink_to(FileSink.for_parquet(arguments.output)).uid("sink")
    env.execute("spark rows")


if __name__ == "__main__":
    main()
