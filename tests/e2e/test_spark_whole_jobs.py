"""Bounded jobs of columns from Spark to Spark, which run there as one DataFrame: the rows are those of the operators."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.jobs import spark_whole
from tests.unit.taskmanager.operators.harness import spec, start
from tidegate.common.typeinfo import ArrowTypeInfo
from tidegate.model.channel_events import END_OF_TIME
from tidegate.operator_options import AggregateOptions
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.operator import Ending
from tidegate.taskmanager.runtime.operator_factory import options_of

LIMIT_S = 240
NAME = r"Source: Spark -> .*Sink: Spark sink \(one DataFrame in Spark\)"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("whole", pa.int64()),
        ("small", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us")),
    ]
)


def edges() -> pa.RecordBatch:
    columns = zip(*spark_whole.values(), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def written(output: Path) -> pa.Table:
    (epoch,) = (path for path in output.iterdir() if path.is_dir())
    return pq.read_table(epoch)


def exactly(value: object) -> object:
    """A value that equals only itself: NaN does, and the two zeros are different ones."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def nearly(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of fractions differ in their last digits, by the order of the rows."""
    return {k: exactly(float(f"{v:.9e}")) if isinstance(v, float) else v for k, v in row.items()}


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(map(nearly, rows), key=lambda row: [str(row[key]) for key in spark_whole.KEYS])


def test_spark_gives_the_values_that_the_expressions_give(cluster: Cluster, tmp_path: Path) -> None:
    watch = cluster.submit(JOBS / "spark_whole.py", f"--output={tmp_path}", parallelism=2)
    (vertex,) = watch.wait_finished(LIMIT_S).status.vertices
    assert re.fullmatch(NAME, vertex.name)
    found, rows = written(tmp_path).sort_by("id"), edges()
    assert found["id"].to_pylist() == list(range(spark_whole.ROWS))
    for name, expression in spark_whole.expressions().items():
        wanted = expression.compute(rows)
        assert found[name].type == wanted.type, name
        assert list(map(exactly, found[name].to_pylist())) == list(map(exactly, wanted.to_pylist())), name


def test_a_write_that_raises_is_said_with_operator_and_epoch_and_the_totals_come_when_it_is_mended(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    settings = {
        "sink.committer.retries": "0",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    watch = cluster.submit(
        JOBS / "spark_whole.py", f"--output={tmp_path}", "--totals", parallelism=2, settings=settings
    )
    message = rf"operator '{NAME}': the write of epoch \d+ failed in 1 attempts: .*the table is locked"
    watch.wait_for(lambda found: bool(re.search(message, found.status.failure.message, re.S)), LIMIT_S, message)
    (tmp_path / "broken").unlink()
    watch.wait_finished(LIMIT_S)
    assert by_key(written(tmp_path).to_pylist()) == by_key(totals_of_the_operators())


def totals_of_the_operators() -> list[dict[str, Any]]:
    rows = edges()
    named = [(one.output_name, one.function, one.column) for one in spark_whole.totals()]
    options = {"keys": list(spark_whole.KEYS), "aggregates": named}
    made = spec("columnar_aggregate", options=options, input_types=(ArrowTypeInfo(SCHEMA),))
    running = start(replace(made, options=replace(options_of(made, AggregateOptions), is_final=True)))
    with np.errstate(invalid="ignore"):  # one infinity and the other
        running.operator.process(ArrowBatch(rows.filter(spark_whole.kept().compute(rows))), 0)
        running.operator.on_watermark(END_OF_TIME)
        while running.operator.ending() is Ending.IN_FLIGHT:
            assert running.operator.emit_some()
    running.operator.finish()
    found: list[dict[str, Any]] = running.out.values()
    return found
