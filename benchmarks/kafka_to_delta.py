"""Kafka to Delta: ``from_spark_stream`` and ``to_spark`` beside Structured Streaming doing the same, in turns.

python -m benchmarks.kafka_to_delta [--repeats 2]      with PySpark 4.2, the newest for which Delta has a release

A broker of Kafka with three partitions and Delta tables on this machine; Spark runs in this process on two cores, tidegate in a cluster on the same
machine, and the other one is idle. Both have 100 ms: a trigger there, the source and the checkpoints here. A row counts when a reader of the table's
log sees it, and each row is there once at the end.

    latency   so many rows come each half second: until the table has them
    rate      so many rows are in the topic at once: until the table has them
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table as Cells

from benchmarks.percentiles import percentiles
from tests.e2e.four_sources import kafka_jars
from tests.servers import jars
from tests.servers.kafka_broker import KafkaBroker
from tidegate.common import Configuration
from tidegate.common.time import Duration
from tidegate.connectors.spark.writes import delta_writer
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing import MiniCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERVAL_MS = 100
EVERY_S = 0.5
"""From one small batch to the next."""
LOOK_S = 0.005
"""How exact a latency is."""
LIMIT_S = 120
SMALL = 200
WARM = 5
PARTITIONS = 3
_POM = Path(jars.__file__).parent / "lakehouse" / "spark_4_2" / "pom.xml"


class DeltaLog:
    """How many rows a table of Delta has, by the statistics in its log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.commits = 0
        self._rows = 0

    def rows(self) -> int:
        while (entry := self.directory / "_delta_log" / f"{self.commits:020}.json").exists():
            for line in entry.read_text().splitlines():
                added = json.loads(line).get("add")
                if added is not None:
                    self._rows += json.loads(added["stats"])["numRecords"]
            self.commits += 1
        return self._rows

    def wait(self, count: int) -> float:
        """Until so many rows are there. Returns the moment."""
        deadline = time.monotonic() + LIMIT_S
        while self.rows() < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.directory}: {self._rows} of {count} rows after {LIMIT_S} s")
            time.sleep(LOOK_S)
        return time.monotonic()


class Topic:
    def __init__(self, broker: KafkaBroker, name: str) -> None:
        from confluent_kafka import Producer

        broker.create_topic(name, PARTITIONS)
        self.name, self.servers = name, broker.servers
        self._producer: Any = Producer({"bootstrap.servers": broker.servers, "queue.buffering.max.messages": 2_000_000})
        self._count = 0

    def add(self, count: int) -> int:
        """How many there are now."""
        for number in range(self._count, self._count + count):
            self._producer.produce(self.name, f"{number},{number % 97}", partition=number % PARTITIONS)
            self._producer.poll(0)
        assert self._producer.flush(LIMIT_S) == 0
        self._count += count
        return self._count

    def query(self) -> Callable[[SparkSession], DataFrame]:
        """Knows nothing of the producer, which cannot travel with a job."""
        servers, name = self.servers, self.name

        def rows(spark: SparkSession) -> DataFrame:
            stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
            lines = stream.option("subscribe", name).option("startingOffsets", "earliest").load()
            parts = lines.selectExpr("split(CAST(value AS STRING), ',') AS parts")
            return parts.selectExpr("CAST(parts[0] AS BIGINT) AS id", "CAST(parts[1] AS BIGINT) AS card")

        return rows


@contextlib.contextmanager
def structured_streaming(topic: Topic, spark: SparkSession, table: Path, directory: Path) -> Iterator[None]:
    writer = (
        topic.query()(spark).writeStream.format("delta").option("checkpointLocation", str(directory / "checkpoints"))
    )
    query = writer.trigger(processingTime=f"{INTERVAL_MS} milliseconds").start(str(table))
    try:
        yield
    finally:
        query.stop()


@contextlib.contextmanager
def tidegate(topic: Topic, cluster: MiniCluster, table: Path, settings: dict[str, str]) -> Iterator[None]:
    with cluster.installed():
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        env.enable_checkpointing(INTERVAL_MS)
        rows = env.from_spark_stream(
            topic.query(), partitions=PARTITIONS, trigger_interval=Duration.of_millis(INTERVAL_MS)
        )
        rows.to_spark(delta_writer(str(table)))
        job = env.execute_async("kafka to delta")
    try:
        yield
    finally:
        job.cancel().result()


def measure(topic: Topic, log: DeltaLog, batches: int, at_once: int) -> tuple[list[float], float]:
    """Latencies in ms, and rows a second."""
    for _ in range(WARM):
        log.wait(topic.add(SMALL))
    latencies = []
    for _ in range(batches):
        came = time.monotonic()
        latencies.append(1000 * (log.wait(topic.add(SMALL)) - came))
        time.sleep(max(0.0, came + EVERY_S - time.monotonic()))  # a rate, not a wait for something
    began = time.monotonic()
    total = topic.add(at_once)
    rate = at_once / (log.wait(total) - began)
    return latencies, rate


def settings_of() -> dict[str, str]:
    delta = sorted(map(str, jars.fetched(_POM, "delta-4.2").glob("*.jar")))
    return {
        "spark.jars": ",".join([*delta, kafka_jars()]),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


@click.command(help=__doc__)
@click.option("--repeats", default=1, show_default=True, help="Turns, of both.")
@click.option("--batches", default=20, show_default=True, help="Small batches of each turn.")
@click.option("--rows", default=300_000, show_default=True, help="Rows that come at once.")
def main(repeats: int, batches: int, rows: int) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = settings_of()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {**settings, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    console, cells = Console(), Cells("turn", "", "rows/s", "p50 ms", "p99 ms", "commits")
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name,
        KafkaBroker() as broker,
        MiniCluster(slots=1, configuration=settings) as cluster,
    ):
        for turn in range(repeats):
            for label in ("Structured Streaming", "tidegate"):
                directory = Path(name, f"{turn}-{label[0]}")
                directory.mkdir()
                topic, table = Topic(broker, f"rows-{turn}-{label[0]}"), directory / "table"
                runs = (
                    structured_streaming(topic, spark, table, directory)
                    if label != "tidegate"
                    else tidegate(topic, cluster, table, settings)
                )
                log = DeltaLog(table)
                with runs:
                    latencies, rate = measure(topic, log, batches, rows)
                found = spark.read.format("delta").load(str(table))
                assert found.count() == found.select("id").distinct().count() == log.rows(), "each row is there once"
                p50, p99 = percentiles(latencies, [50, 99])
                cells.add_row(str(turn + 1), label, f"{rate:,.0f}", p50, p99, str(log.commits))
    spark.stop()
    console.print(f"PySpark {pyspark.__version__}")
    console.print(cells)


if __name__ == "__main__":
    main()
