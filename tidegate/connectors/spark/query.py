"""The part of ``from_spark`` that uses Spark: describes a query in the client, and partitions and writes its result in a TaskManager's Spark driver.
The only module outside ``tidegate.taskmanager.spark`` that imports pyspark, and only when called."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.files.file_system import is_local, resolve, storage_errors, sync_file
from tidegate.connectors.spark.frame_steps import FrameStep, GroupBy, KeepRows, Select, quoted
from tidegate.connectors.spark.source import MARKER, SparkSource, pinned, read_marker
from tidegate.connectors.spark.spark_errors import explained
from tidegate.connectors.spark.stream_plan import JavaObject, check_plan
from tidegate.model.errors import InvalidJob, SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUIET_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1} - %m%n
"""
STARTS_A_JVM = "A JVM is started to analyse the query of from_spark; no row is read."
tell_start: ContextVar[Callable[[str], None] | None] = ContextVar("tell_start", default=None)
"""Called with ``STARTS_A_JVM`` before a JVM is started, which takes seconds; ``None``: nothing is called."""
_PARTITION_BYTES = 32 << 20
"""The size of partitions of rows in memory: a quarter of what Spark reads of files in one partition, since such rows cost it less."""
TIMES_KEY = "spark.sql.timeType.enabled"
_INSTEAD = (
    "write it as a type that Spark has, such as int64 or decimal128(20, 0) for unsigned integers, "
    "float for half floats, date32 for date64, string for times"
)
_MOST_PARTITIONS = 8
"""The most partitions of an epoch: the largest epochs (256 MiB) in partitions of that size."""


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """The description of a query. ``must_materialize``: why a replay may give other rows; empty: it may not."""

    schema: pa.Schema
    must_materialize: str


def describe(
    query: Callable[[SparkSession], DataFrame], parallelism: int, spark_options: Mapping[str, str]
) -> QueryDescription:
    """Analyses a query in a small local Spark in this process, without reading rows.

    Raises ``InvalidJob`` when the query fails to build, gives no DataFrame, or one without end.
    """
    from pyspark.sql import DataFrame

    with _client_session(spark_options) as spark, _pinned_session(spark, parallelism):
        try:
            frame = query(session_like_everywhere(spark, parallelism))
        except Exception as error:
            raise InvalidJob(f"the query of from_spark failed: {explained(error)}") from error
        if not isinstance(frame, DataFrame):
            raise InvalidJob(f"the query of from_spark must give a DataFrame, not {type(frame).__name__}")
        if frame.isStreaming:
            raise InvalidJob("the query of from_spark reads a stream, which has no end: give it to from_spark_stream")
        try:
            return QueryDescription(frame.limit(0).toArrow().schema, _why_it_may_differ(frame))
        except Exception as error:
            raise InvalidJob(f"the rows of from_spark cannot be read from Spark: {explained(error)}") from error


def describe_stream(
    query: Callable[[SparkSession], DataFrame], partitions: int, spark_options: Mapping[str, str]
) -> pa.Schema:
    """Analyses a streaming query in a small local Spark in this process, without reading rows.

    Raises ``InvalidJob`` when the query fails to build, reads no stream, or keeps state in Spark.
    """
    from pyspark.sql import DataFrame

    with _client_session(spark_options) as spark, _pinned_session(spark, partitions):
        try:
            frame = query(spark)
        except Exception as error:
            raise InvalidJob(f"the query of from_spark_stream failed: {explained(error)}") from error
        if not isinstance(frame, DataFrame):
            raise InvalidJob(f"the query of from_spark_stream must give a DataFrame, not {type(frame).__name__}")
        check_plan(frame._jdf.queryExecution().analyzed())
        return arrow_schema_of(spark, frame)


def arrow_schema_of(spark: SparkSession, frame: DataFrame) -> pa.Schema:
    """Returns the schema of the Arrow batches that Spark makes of a stream's rows. No row is computed, which would need one of Spark's workers."""
    from pyspark.sql import DataFrame

    jvm: JavaObject = spark._jvm
    output, none = (
        frame._jdf.queryExecution().analyzed().output(),
        jvm.org.apache.spark.api.python.PythonUtils.toSeq([]),
    )
    rows = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(output, none, False, jvm.scala.Option.empty())
    java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, rows)
    return DataFrame(java, spark).toArrow().schema


def _why_it_may_differ(frame: DataFrame) -> str:
    execution = frame._jdf.queryExecution()
    if not execution.analyzed().deterministic():
        return "it has a non-deterministic expression"
    if "Exchange" in execution.executedPlan().toString():
        return "its plan has a shuffle, which deals rows in another order every time"
    return ""


@contextmanager
def _client_session(spark_options: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields the active session when the script has one, else a temporary one."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    tell = tell_start.get()
    if tell is not None:
        tell(STARTS_A_JVM)
    builder = SparkSession.builder.master("local[1]").appName("tidegate from_spark")
    with tempfile.TemporaryDirectory(prefix="tidegate-spark-") as directory:
        log4j = Path(directory, "log4j2.properties")
        log4j.write_text(_QUIET_LOG4J)
        options = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        }
        for key, value in {**options, **spark_options}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _pinned_session(spark: SparkSession, parallelism: int) -> Iterator[None]:
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in pinned(parallelism)}
    for key, value in pinned(parallelism).items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


def session_like_everywhere(session: SparkSession, parallelism: int) -> SparkSession:
    """Returns a session whose default parallelism is the source's: it is the number of partitions of ``spark.range`` and local data, and differs
    between clients (1) and embedded TaskManagers (1,024)."""
    from pyspark import SparkContext

    class PinnedContext(SparkContext):
        defaultParallelism = parallelism  # noqa: N815  (a property in the base class)

    context = object.__new__(PinnedContext)
    context.__dict__ = session.sparkContext.__dict__
    session._sc = context
    return session


def session_for_rows(spark: SparkSession) -> SparkSession:
    """Clones a session with its settings and views, as for ``foreachBatch``, so that ``frame_of_rows`` keeps rows in Arrow batches until the tasks that
    write them. Spark would decode up to 48 MiB in its driver, and send each row as a Java object."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    return session


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Creates a DataFrame of rows in this process, with as many partitions as their size calls for: Spark would make one for each row, up to the 1,024
    cores of an embedded TaskManager."""
    partitions = max(1, min(_MOST_PARTITIONS, rows.nbytes // _PARTITION_BYTES))
    return spark.createDataFrame(rows).coalesce(partitions)


def check_rows(schema: pa.Schema, *, takes_times: bool = False) -> None:
    """Checks that Spark has a type for each column of rows to write; no JVM is started. Raises ``InvalidJob``. ``takes_times``: whether
    ``spark.sql.timeType.enabled`` is set, without which its analyser refuses times."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    for field in schema:
        try:
            from_arrow_type(field.type)
        except PySparkException as error:
            raise InvalidJob(
                f"to_spark: column {field.name!r} is {field.type}, and Spark has no type for {_without_type(field.type)}: "
                f"{_INSTEAD}"
            ) from error
        if not takes_times and _has_times(field.type):
            raise InvalidJob(
                f"to_spark: column {field.name!r} is {field.type}, and Spark takes times only with {TIMES_KEY}=true: {_INSTEAD}, or set that for the job"
            )
        if (wide := _too_wide(field.type)) is not None:
            raise InvalidJob(
                f"to_spark: column {field.name!r} is {field.type}, and decimals of Spark have 38 digits at most, not those of {wide}: {_INSTEAD}"
            )


def _without_type(kind: pa.DataType) -> pa.DataType:
    """Returns the innermost part of a type that Spark does not support."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    for part in _parts(kind):
        try:
            from_arrow_type(part)
        except PySparkException:
            return _without_type(part)
    return kind


def _too_wide(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(kind):
        return kind if kind.precision > 38 else None
    return next((found for part in _parts(kind) if (found := _too_wide(part)) is not None), None)


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_time(kind) or any(map(_has_times, _parts(kind)))


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(index).type for index in range(kind.num_fields)] if pa.types.is_nested(kind) else []


def partitioned(spark: SparkSession, source: SparkSource, parallelism: int) -> DataFrame:
    """Returns the source's DataFrame in a session of its own, coalesced to at most ``parallelism`` partitions."""
    session = session_like_everywhere(spark.newSession(), parallelism)
    for key, value in pinned(parallelism).items():
        session.conf.set(key, value)
    frame = source.spark_query(session)
    if frame.columns != source.schema.names:
        raise SchemaMismatch(
            f"the query of from_spark gave the columns {', '.join(frame.columns)} in a TaskManager, and"
            f" {', '.join(source.schema.names)} in the client: it must not depend on where it runs"
        )
    if frame.rdd.getNumPartitions() > parallelism:
        frame = frame.coalesce(parallelism)
    return frame


def numbered(frame: DataFrame) -> DataFrame:
    """Renames the columns of a frame to c0, c1, ... for ``mapInArrow``, in which pyspark resolves names as SQL: a dot would be a field, a backtick a
    quote, and names that differ in case only would be one."""
    return frame.toDF(*[f"c{index}" for index in range(len(frame.columns))])


def frame_of_job(
    spark: SparkSession, source: SparkSource, steps: Sequence[FrameStep], schema: pa.Schema, parallelism: int
) -> DataFrame:
    """Returns the DataFrame of a job that Spark runs as one (``frame_job``), in a session with the settings under which the query was analysed.
    ``schema``: of the operators' result; ``parallelism``: the number of partitions at the analysis.

    Raises ``SchemaMismatch`` where Spark gives other columns than the operators promise.
    """
    from pyspark.sql import functions

    session = session_like_everywhere(spark.newSession(), parallelism)
    for key, value in pinned(parallelism).items():
        session.conf.set(key, value)
    frame = source.spark_query(session)
    for step in steps:
        match step:
            case KeepRows(condition=condition):
                frame = frame.where(condition)
            case Select(columns=columns):
                frame = frame.select(*[functions.expr(text).alias(name) for name, text in columns])
            case GroupBy(keys=keys, columns=columns):
                made = [functions.expr(text).alias(name) for name, text in columns]
                frame = frame.groupBy(*map(quoted, keys)).agg(*made)
    found = frame.limit(0).toArrow().schema
    if [(field.name, field.type) for field in found] != [(field.name, field.type) for field in schema]:
        raise SchemaMismatch(
            f"Spark returns the columns {columns_of(found)}, but the operators declare {columns_of(schema)}"
        )
    return frame


def columns_of(schema: pa.Schema) -> str:
    """Formats names and types of columns for messages."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def materialize(spark: SparkSession, source: SparkSource, directory: str, parallelism: int, writer: str) -> None:
    """Writes the result once as Parquet below ``directory`` and then a marker that names it; does nothing when the marker exists. ``writer`` makes the
    data directory's name unique, so that two writers never mix.

    Raises ``StorageError``.
    """
    if read_marker(directory) is not None:
        return
    data = f"{directory}/data-{writer}"
    partitioned(spark, source, parallelism).write.mode("overwrite").parquet(data)
    filesystem, inner = resolve(directory)
    content = json.dumps({"directory": data}).encode()
    with storage_errors("write", f"{directory}/{MARKER}"):
        if not is_local(filesystem):
            with filesystem.open_output_stream(f"{inner}/{MARKER}") as stream:
                stream.write(content)
            return
        temporary = f"{inner}/.{MARKER}.{writer}"
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, f"{inner}/{MARKER}")
        sync_file(inner)
