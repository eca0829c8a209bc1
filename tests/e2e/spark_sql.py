"""The same query by Spark SQL, in a process of its own: ``query(sql, views)`` gives the rows, sorted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_LIMIT_S = 240


def query(sql: str, views: Mapping[str, tuple[str, str]], directory: Path) -> list[tuple[Any, ...]]:
    """``views``: name -> (format, path), such as ``{"flights": ("parquet", "/data/flights.parquet")}``."""
    output = directory / "spark_sql.parquet"
    asked = json.dumps({"sql": sql, "views": views, "output": str(output)})
    done = subprocess.run(
        [sys.executable, __file__, asked], cwd=directory, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = pq.read_table(output)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _main(asked: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for name, (kind, path) in asked["views"].items():
        spark.read.format(kind).load(path).createOrReplaceTempView(name)
    pq.write_table(spark.sql(asked["sql"]).toArrow(), asked["output"])
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
