"""``from_spark``: the partitions of the user's DataFrame, each with a subtask at its end.

    user's query ─▶ DataFrame ─▶ mapInArrow(subtask) ─▶ RDD; partition i is run for subtask i

The JVM hands the rows of partition i to the subtask's process as Arrow batches; the subtask yields nothing. Everything that
decides how Spark cuts a query into partitions is pinned before it is planned, so that every attempt, on every TaskManager,
gets the same rows in its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from taskmanager.spark.entry import SubtaskEntry
from tidegate.model.errors import InvalidJob, TidegateError, UserFunctionError

if TYPE_CHECKING:
    from taskmanager.spark.deploy import Submission

PINNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxPartitionBytes": "134217728",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
}


def query_partitions(spark: Any, query: Any, entry: SubtaskEntry, submission: Submission) -> Any:
    """The Java RDD whose partition ``i`` runs subtask ``i`` over partition ``i`` of the query.

    Raises ``UserFunctionError`` when the user's query does, and ``InvalidJob`` when it has another number of partitions
    than the vertex has subtasks.
    """
    session = spark.newSession()
    parallelism = submission.parallelism
    for key, value in PINNED.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.files.minPartitionNum", str(parallelism))
    session.conf.set("spark.sql.leafNodeDefaultParallelism", str(parallelism))
    session.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    try:
        frame = query(session)
        found = frame.rdd.getNumPartitions()
    except TidegateError:
        raise
    except Exception as error:
        raise UserFunctionError(
            f"{submission.task_name}: the Spark query raised {type(error).__name__}: {str(error).splitlines()[0]}",
            details=str(error),
        ) from error
    if found > parallelism:
        frame = frame.coalesce(parallelism)
    elif found < parallelism and submission.attempt.subtask >= found:
        raise InvalidJob(
            f"{submission.task_name}: the Spark query has {found} partitions and the source {parallelism} subtasks; "
            f"set its parallelism to {found}, or repartition the query in the job"
        )
    rows = frame.mapInArrow(entry.over_arrow, schema="nothing boolean")
    return rows.rdd._jrdd
