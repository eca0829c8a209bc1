"""A database's changes become a table of the lake that is always up to date: Debezium's messages, merged by Spark with each checkpoint.

    python examples/gallery/cdc_table.py

    changes, as JSON ─▶ id, row, position in the database's log ─▶ merged into the table with each checkpoint ─▶ a new snapshot

A snapshot is a directory of Parquet, and the file CURRENT names the one that counts, so readers see whole checkpoints. A table format does the
same with more comfort: with Delta or Iceberg on the cluster, ``merge`` is one MERGE INTO.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidegate.common import WatermarkStrategy
from tidegate.connectors.files import FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment, call, coalesce, col

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.connectors.spark import SparkEpoch

CHANGES, CUSTOMERS = 60_000, 8_000
ROW = pa.struct([("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("cents", pa.int64())])
MESSAGE = pa.schema(
    [("before", ROW), ("after", ROW), ("op", pa.string()), ("source", pa.struct([("lsn", pa.int64())]))]
)
CITIES = ["Berlin", "Hamburg", "Leipzig", "Munich"]


def merge_into(table: str, rows: DataFrame, epoch: SparkEpoch) -> None:
    """Makes the next snapshot of the table: of each customer what was written last in the database, if it was not that the customer is gone."""
    from pyspark.sql import functions as f

    snapshot, current = f"{table}/{epoch.application_id}-{epoch.number}", Path(table) / "CURRENT"
    before = current.read_text() if current.exists() else None
    if before == snapshot:
        return  # this epoch is in the table: it comes again after a failure
    rows.sparkSession.conf.set("spark.sql.shuffle.partitions", "1")
    if before is not None:
        rows = rows.unionByName(rows.sparkSession.read.parquet(before).withColumn("op", f.lit("r")))
    newest = rows.groupBy("id").agg(f.max(f.struct("lsn", "op", "name", "city", "cents")).alias("row"))
    there = newest.where("row.op <> 'd'").select("id", "row.name", "row.city", "row.cents", "row.lsn")
    there.write.mode("overwrite").parquet(snapshot)
    current.with_suffix(".next").write_text(snapshot)
    os.replace(current.with_suffix(".next"), current)


def write_input(directory: Path) -> None:
    """Messages in the form of Debezium: customers come, change and go, and some come back."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(48)
    rows: dict[int, dict[str, Any]] = {}
    lines = []
    for lsn, (key, cents, goes) in enumerate(
        zip(*rng.integers(0, [[CUSTOMERS], [99_999], [10]], (3, CHANGES)), strict=True)
    ):
        before, id = rows.pop(int(key), None), int(key)
        is_gone = before is not None and goes < 3
        after = (
            None if is_gone else {"id": id, "name": f"customer-{id}", "city": CITIES[lsn * 7 % 4], "cents": int(cents)}
        )
        if after is not None:
            rows[id] = after
        op = "d" if is_gone else "c" if before is None else "u"
        lines.append(json.dumps({"before": before, "after": after, "op": op, "source": {"lsn": lsn}}))
    (directory / "changes.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="a database's changes become a table that is up to date")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/cdc_table"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the changes down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())
    table = str(directory / "customers")
    Path(table).mkdir(exist_ok=True)

    def field(row: str, name: str) -> Any:
        return call("struct_field", col(row), indices=[name])

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    messages = FileSource.for_json_lines(str(directory / "changes.json"), schema=MESSAGE)
    changes = env.from_source(
        ThrottledSource(messages, arguments.rows_per_second), WatermarkStrategy.no_watermarks(), "changes"
    ).set_parallelism(1)
    rows = changes.select(
        coalesce(field("after", "id"), field("before", "id")).alias("id"),
        *(field("after", name).alias(name) for name in ("name", "city", "cents")),
        "op",
        field("source", "lsn").alias("lsn"),
    )
    rows.to_spark(lambda rows, epoch: merge_into(table, rows, epoch)).name("merge").uid("merge")
    env.execute("cdc table")


if __name__ == "__main__":
    main()
