"""What Spark sees: ``read`` gives the rows of several sources, each by ``spark.read.format(...).options(...).load()``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_LIMIT_S = 240


def read(sources: Mapping[str, Mapping[str, str]], jars: Sequence[Path], directory: Path) -> dict[str, list[Any]]:
    """``sources``: name -> options, among them ``format`` and perhaps ``schema``. The rows of each as dicts, in any order. One process, one Spark."""
    asked = json.dumps({"sources": sources, "jars": [str(jar) for jar in jars], "output": str(directory)})
    done = subprocess.run(
        [sys.executable, __file__, asked], cwd=directory, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "\tat " not in line)[-3000:]
    return {name: pq.read_table(directory / f"read-{name}.parquet").to_pylist() for name in sources}


def _main(asked: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if asked["jars"]:
        builder = builder.config("spark.jars", ",".join(asked["jars"]))
    spark = builder.getOrCreate()
    for name, options in asked["sources"].items():
        reader = spark.read.format(options.pop("format"))
        if "schema" in options:
            reader = reader.schema(options.pop("schema"))
        table = reader.options(**options).load().toArrow()
        pq.write_table(table, f"{asked['output']}/read-{name}.parquet")
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
