"""Drives the stream sources of a query: determines the next range of offsets, and makes the DataFrame of a range.

    latest ─▶ start and end of every source ─▶ the plan with each source as its range ─▶ DataFrame of one batch
    commit ─▶ the sources may forget what is before

Spark's own streaming engine drives the same objects (``MicroBatchStream`` and ``Source``); here our checkpoint holds the offsets. The classes are internal to
Spark, so their constructors are checked, and a version of Spark with other constructors is refused with an error that names the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.spark.query import arrow_schema_of, columns_of, session_like_everywhere
from tidegate.connectors.spark.source import pinned
from tidegate.connectors.spark.stream_link import Offsets
from tidegate.connectors.spark.stream_plan import JavaObject, check_plan, children, is_stream, name_of, streams_in
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.model.errors import SchemaMismatch
from tidegate.taskmanager.spark.streams.stream import SparkStream, sequence, stream_of, streaming_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SESSION = {
    "spark.sql.streaming.unsupportedOperationCheck": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""Settings of the session: a plan over a stream is run as a batch, and progress files of a source need no checksums, since our checkpoint holds them."""


_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


class StreamPlan:
    """The plan of a streaming query with its sources. Used by one thread. ``directory``: the sources' progress files, as of the restored position."""

    def __init__(self, spark: SparkSession, source: SparkStreamSource, directory: Path) -> None:
        self._spark = _own_session(spark, source.partitions)
        self._jvm: JavaObject = spark._jvm
        _activate(self._jvm, self._spark)
        frame = source.query(self._spark)
        _check_schema(arrow_schema_of(self._spark, frame), source.schema)
        self._plan = frame._jdf.queryExecution().analyzed()
        check_plan(self._plan)
        self._partitions = source.partitions
        found = streams_in(self._plan)
        self.streams = [stream_of(self._jvm, leaf, str(directory / str(i))) for i, leaf in enumerate(found)]

    def resume(self, ends: Offsets) -> None:
        """Passes the restored offsets to the sources, before any other call."""
        for stream, end in zip(self.streams, ends, strict=True):
            stream.resume(end)

    def first(self) -> Offsets:
        """Returns the offsets at which a new job begins; ``None`` for a source that has no offset before its first batch."""
        return tuple(stream.first() for stream in self.streams)

    def latest(self, starts: Offsets) -> Offsets:
        """Returns the end offsets of the next batch; the start offset for a source without new data."""
        return tuple(stream.latest(start) for stream, start in zip(self.streams, starts, strict=True))

    def frame(self, starts: Offsets, ends: Offsets) -> DataFrame:
        """Returns the rows between the offsets as a DataFrame with at most as many partitions as the source has."""
        from pyspark.sql import DataFrame

        ranges = iter(zip(self.streams, starts, ends, strict=True))
        plan = self._between(self._plan, ranges)
        java = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        frame = DataFrame(java, self._spark)
        if partitions_of(frame) > self._partitions:
            frame = frame.coalesce(self._partitions)
        return frame

    def lags(self, ends: Offsets) -> dict[str, float]:
        """Returns the lag metrics of the sources at ``ends``, by Spark's names; the maximum over all sources."""
        found: dict[str, float] = {}
        for stream, end in zip(self.streams, ends, strict=True):
            for name, value in stream.lags(end).items():
                found[name] = max(value, found.get(name, value))
        return found

    def commit(self, ends: Offsets) -> None:
        """Commits the offsets of a completed checkpoint, so that the sources may drop older data."""
        for stream, end in zip(self.streams, ends, strict=True):
            if end is not None:
                stream.commit(end)

    def close(self) -> None:
        for stream in self.streams:
            stream.java.stop()

    def _between(self, node: JavaObject, ranges: Iterator[tuple[SparkStream, str | None, str | None]]) -> JavaObject:
        if is_stream(node):
            stream, start, end = next(ranges)
            return stream.between(start, end)
        below = [self._between(child, ranges) for child in children(node)]
        if name_of(node) == "EventTimeWatermark":
            return below[0]
        if not below:
            return node
        return node.withNewChildren(sequence(self._jvm, below))


def partitions_of(frame: DataFrame) -> int:
    """Returns the number of partitions of the plan that runs. The plan of ``DataFrame.rdd`` is another one: it is planned separately and turns all rows into
    Java objects.
    """
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def _check_schema(found: pa.Schema, declared: pa.Schema) -> None:
    """Raises ``SchemaMismatch`` if the query's columns differ from those declared in the client. Nullability is ignored, since batches do not carry it."""
    if found.names != declared.names or found.types != declared.types:
        raise SchemaMismatch(
            f"the query of from_spark_stream gives the columns {columns_of(found)} now, and gave {columns_of(declared)} in the client: what it reads was "
            "changed since the job was submitted, or it depends on where it runs. Let it select the columns that it wants by name, each with "
            "its type, and restore the job from its last checkpoint"
        )


def _activate(jvm: JavaObject, session: SparkSession) -> None:
    """Makes the session the active one of the calling thread, which sources such as Kafka's require."""
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _own_session(spark: SparkSession, partitions: int) -> SparkSession:
    """Returns a session with its own settings that shares the data sources and views of ``spark``."""
    from pyspark.sql import SparkSession

    session = session_like_everywhere(SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()), partitions)
    manager = streaming_class(spark._jvm, "checkpointing", "FileSystemBasedCheckpointFileManager")
    for key, value in {**pinned(partitions), **_SESSION, _FILE_MANAGER: manager}.items():
        session.conf.set(key, value)
    return session
