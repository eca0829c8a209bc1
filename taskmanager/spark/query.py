"""Implements ``from_spark``: the partitions of the user's DataFrame, each read by one subtask.

    direct         user's query ─▶ DataFrame ─▶ mapInArrow(subtask) ─▶ RDD; partition i is run for subtask i
    materialized   user's query ─▶ DataFrame ─▶ Parquet, written once by subtask 0's TaskManager; then as any other source

The JVM passes the rows of partition i to the subtask's process as Arrow batches; the subtask yields no rows. All settings that determine how Spark partitions a
query are fixed before it is planned (``tidegate.connectors.spark.query``), so that every attempt, on every TaskManager, gets the same rows in its partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import cloudpickle

from tidegate.connectors.spark.query import materialize, numbered, partitioned
from tidegate.connectors.spark.source import SparkSource, owned_directory, read_marker
from tidegate.connectors.spark.spark_errors import explained
from tidegate.model.errors import TidegateError, UserFunctionError
from tidegate.taskmanager.spark.partitions import SubtaskPartition
from tidegate.taskmanager.spark.submission import SparkSubmission, SubmittedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.taskmanager.spark.jvm import JavaObject

MARKER_POLL_S = 0.1
"""Seconds between two looks for the marker of a materialized result. Chosen, not measured."""


def spark_operators(query: SubmittedQuery) -> dict[str, object]:
    """Returns the vertex's operators that run in the Spark driver, by operator id (``SparkSource``, ``SparkStreamSource``, ``SparkSink``). Raises
    ``UserFunctionError`` when their pickle cannot be loaded.
    """
    try:
        found: dict[str, object] = cloudpickle.loads(query.load())
    except (ImportError, AttributeError) as error:
        raise UserFunctionError(
            f"the function that the job gives to Spark cannot be unpickled in a TaskManager ({error}): install the modules that it imports there"
        ) from error
    return found


def query_partitions(
    spark: SparkSession,
    submission: SparkSubmission,
    operators: Mapping[str, object],
    run: SubtaskPartition,
    wanted: Callable[[], bool],
) -> JavaObject | None:
    """Returns the Java RDD whose partition ``i`` runs subtask ``i`` over partition ``i`` of the query.

    ``None`` when this subtask has no partition, reads a materialized result, or has no such source. Also returns early once ``wanted`` tells that the attempt
    is not wanted. Raises ``UserFunctionError`` when the user's query fails.
    """
    sources = [(name, found) for name, found in operators.items() if isinstance(found, SparkSource)]
    if not sources:
        return None
    operator_id, source = sources[0]
    try:
        if source.materialize:
            _await_result(spark, submission, operator_id, source, wanted)
            return None
        frame = partitioned(spark, source, submission.parallelism)
        if submission.attempt.subtask >= frame.rdd.getNumPartitions():
            return None
    except TidegateError:
        raise
    except Exception as error:
        raise UserFunctionError(
            f"{submission.task_name}: the query of from_spark failed: {explained(error)}",
            details=str(error),
        ) from error
    return numbered(frame).mapInArrow(run.over_arrow, schema="nothing boolean").rdd._jrdd


def _await_result(
    spark: SparkSession, submission: SparkSubmission, operator_id: str, source: SparkSource, wanted: Callable[[], bool]
) -> None:
    """Materializes the result of a query in subtask 0; in the others waits until it is there. Returns at once for a restored job, which knows its
    row groups.
    """
    query, attempt = submission.query, submission.attempt
    assert query is not None
    if query.is_restored:
        return
    directory = owned_directory(query.configuration, attempt.job_id, operator_id)
    if attempt.subtask == 0:
        materialize(spark, source, directory, submission.parallelism, f"{attempt.attempt}")
        return
    while wanted() and read_marker(directory) is None:
        time.sleep(MARKER_POLL_S)
