"""A bounded job from Spark to Spark: as one DataFrame, by subtasks, and as a program of Spark alone, in turns.

python -m benchmarks.spark_whole_jobs [--rows 10000000] [--repeats 3]

All three read the same Parquet files by Spark and write Parquet by Spark. Spark alone runs in this process on two cores; the cluster has two slots on
the same machine, and the other one is idle. A turn of each comes first that does not count.

    totals    rows are filtered and added up by one of 1,000 keys: few rows are written
    columns   rows are filtered and get a column: most of them are written

A time is from the start of a job on a cluster that runs to its end, when the files are whole.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tidegate.common import Configuration
from tidegate.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import avg, count, sum
from tidegate.testing import MiniCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.connectors.spark.sink import SparkEpoch

FILES = 8
KEYS = 1_000
SPARK, WHOLE, SUBTASKS = "Spark", "one DataFrame", "subtasks"
Query = tuple[Callable[["DataFrame"], "DataFrame"], Callable[[DataStream], DataStream]]


def totals_by_spark(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    added = [f.count("*").alias("count"), f.sum("id").alias("sum_id"), f.avg("x").alias("avg_x")]
    return rows.where("x > 0.1").groupBy("name").agg(*added)


def totals(rows: DataStream) -> DataStream:
    return rows.filter(col("x") > 0.1).key_by("name").agg(count(), sum("id"), avg("x"))


def columns_by_spark(rows: DataFrame) -> DataFrame:
    return rows.where("x > 0.1").selectExpr("id", "name", "x * 3 AS tripled")


def columns(rows: DataStream) -> DataStream:
    return rows.filter(col("x") > 0.1).select("id", "name", tripled=col("x") * 3)


QUERIES: dict[str, Query] = {"totals": (totals_by_spark, totals), "columns": (columns_by_spark, columns)}


def write_input(directory: Path, rows: int) -> None:
    directory.mkdir()
    random = np.random.default_rng(1)
    for number in range(FILES):
        ids = np.arange(number, rows, FILES)
        names = pa.array([f"station-{key}" for key in range(KEYS)]).take(pa.array(ids % KEYS))
        table = pa.table({"id": ids, "name": names, "x": random.random(len(ids))})
        pq.write_table(table, directory / f"{number}.parquet")


def by_spark(spark: SparkSession, query: Query, source: str, target: str) -> None:
    query[0](spark.read.parquet(source)).write.mode("overwrite").parquet(target)


def by_tidegate(cluster: MiniCluster, query: Query, source: str, target: str, *, whole: bool) -> None:
    def write(rows: DataFrame, epoch: SparkEpoch) -> None:
        rows.write.mode("overwrite").parquet(target)

    with cluster.installed():
        configuration = Configuration().set_string("tidegate.spark.whole-jobs", str(whole).lower())
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        query[1](env.from_spark(lambda spark: spark.read.parquet(source))).to_spark(write).uid("table")
        env.execute("whole" if whole else "by subtasks")


@click.command(help=__doc__)
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--repeats", default=3, show_default=True, help="Turns that count.")
def main(rows: int, repeats: int) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    cells = Table("query", "", "s (median)", "of Spark's time", "all, s", title=f"{rows:,} rows")
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, MiniCluster(slots=2) as cluster:
        source = str(Path(name, "in"))
        write_input(Path(source), rows)
        for query_name, query in QUERIES.items():
            taken: dict[str, list[float]] = {SPARK: [], WHOLE: [], SUBTASKS: []}
            for turn in range(repeats + 1):
                found = {}
                for label, times in taken.items():
                    target = str(Path(name, f"{query_name}-{turn}-{label}"))
                    began = time.monotonic()
                    if label == SPARK:
                        by_spark(spark, query, source, target)
                    else:
                        by_tidegate(cluster, query, source, target, whole=label == WHOLE)
                    times.append(time.monotonic() - began)
                    found[label] = pq.read_table(target).num_rows
                assert len(set(found.values())) == 1, f"all write the same rows: {found}"
            base = statistics.median(taken[SPARK][1:])
            for label, times in taken.items():
                middle = statistics.median(times[1:])
                every = ", ".join(f"{one:.2f}" for one in times[1:])
                cells.add_row(query_name, label, f"{middle:.2f}", f"{middle / base:.2f}", every)
    spark.stop()
    Console().print(cells)


if __name__ == "__main__":
    main()
