"""Which jobs Spark runs as one, and what such a job is: one vertex that says so."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.spark.frame_job import SparkFrameJob
from tidegate.connectors.spark.source import SparkSource
from tidegate.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment, col
from tidegate.datastream.aggregates import count, sum

SCHEMA = pa.schema([("name", pa.string()), ("cents", pa.int64()), ("day", pa.timestamp("us", "UTC"))])


def written(rows: Any, epoch: Any) -> None:
    """What a user gives to ``to_spark``."""


def rows(
    env: StreamExecutionEnvironment, strategy: WatermarkStrategy | None = None, *, materialize: bool = False
) -> DataStream:
    source = SparkSource(lambda spark: spark.table("sales"), SCHEMA, materialize)
    return env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "Spark")


def batch(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(3)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def totals(env: StreamExecutionEnvironment) -> None:
    sold = rows(env).filter(col("cents") > 0).select("name", euros=col("cents") / 100)
    sold.key_by("name").agg(count().alias("sold"), sum("euros").alias("euros")).to_spark(written).uid("table")


def test_a_job_of_columns_is_one_vertex_that_says_what_spark_does(caplog: pytest.LogCaptureFixture) -> None:
    env = batch()
    totals(env)
    with caplog.at_level(logging.INFO, "tidegate"):
        job = env.build("totals")
    (vertex,) = job.graph.vertices
    assert vertex.name == "Source: Spark -> Filter -> Select -> Aggregate -> Sink: Spark sink (one DataFrame in Spark)"
    assert (vertex.parallelism, vertex.keeps_parallelism, job.graph.edges) == (1, True, ())
    assert vertex.spark_query is not None
    (made,) = cloudpickle.loads(job.blobs[vertex.spark_query]).values()
    assert isinstance(made, SparkFrameJob)
    assert made.schema.names == ["name", "sold", "euros"]
    assert made.parallelism == 3
    assert "the job runs as one Spark query: where (`cents` > CAST(0 AS BIGINT)); select name, " in caplog.text


def test_the_plan_shows_it_too() -> None:
    env = batch()
    totals(env)
    (node,) = json.loads(env.get_execution_plan())["nodes"]
    assert node["type"].endswith("(one DataFrame in Spark)")
    assert node["pact"] == "Data Source"


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


OTHERS: list[tuple[str, Callable[[StreamExecutionEnvironment], object]]] = [
    (
        "'MapBatches' has no equivalent among the operations of a DataFrame",
        lambda env: rows(env).map_batches(doubled, SCHEMA).to_spark(written),
    ),
    ("'Map' has no equivalent", lambda env: rows(env).map(lambda row: row, rows(env).get_type()).to_spark(written)),
    ("whole numbers wrap", lambda env: rows(env).select(c=col("cents") + 1).to_spark(written)),
    ("the rows of its query are kept as files", lambda env: rows(env, materialize=True).to_spark(written)),
    (
        "has a watermark strategy",
        lambda env: rows(env, WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("day")).to_spark(
            written
        ),
    ),
    ("a stream with its own partitioning", lambda env: rows(env).broadcast().to_spark(written)),
    ("more than one input", lambda env: rows(env).union(rows(env)).to_spark(written)),
]


@pytest.mark.parametrize(("why", "build"), OTHERS)
def test_any_other_job_runs_as_it_did_and_the_log_says_why(
    why: str, build: Callable[[StreamExecutionEnvironment], object], caplog: pytest.LogCaptureFixture
) -> None:
    env = batch()
    build(env)
    with caplog.at_level(logging.INFO, "tidegate"):
        names = [node.name for node in env.stream_graph().nodes]
    assert names[-1] == "Spark sink"
    assert "the job does not run as one Spark query: " in caplog.text
    assert why in caplog.text


def test_a_stream_and_another_sink_are_no_such_jobs(caplog: pytest.LogCaptureFixture) -> None:
    streaming = make_env()
    totals(streaming)
    to_files = batch()
    rows(to_files).sink_to(FileSink.for_parquet("out"))
    switched_off = batch(**{"tidegate.spark.whole-jobs": "false"})
    totals(switched_off)
    with caplog.at_level(logging.INFO, "tidegate"):
        assert [len(env.stream_graph().nodes) for env in (streaming, to_files, switched_off)] == [5, 2, 5]
    assert "as one Spark query" not in caplog.text
