"""Sends the rows of a batch of ``from_spark_stream`` from Spark's workers to the subtask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from tidegate.connectors.spark.source import rechunk
from tidegate.connectors.spark.stream_link import PartitionEnded, RequestDone, RowBlock, SparkLink, WorkerHello
from tidegate.model.errors import ExternalError


@dataclass(frozen=True, slots=True)
class Push:
    """Sends the rows of a partition to the subtask, for ``DataFrame.mapInArrow``. ``schema``: of the stream, serialized."""

    address: str
    secret: str
    batch: int
    schema: bytes

    def over_arrow(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        if context is not None and context.attemptNumber() != 0:
            raise ExternalError(
                "Spark ran a task of from_spark_stream a second time, and its rows may have been sent already, so the batch fails"
            )
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        link = SparkLink.to(self.address)
        try:
            link.send(WorkerHello(self.secret, self.batch, partition))
            running, blocks = xxhash.xxh3_64(), 0
            for data in rechunk(batches, schema):
                content = data.serialize()
                running.update(content)
                link.send(RowBlock(partition, blocks, running.hexdigest()), memoryview(content))
                blocks += 1
            link.send(PartitionEnded(partition, blocks))
            answer, _ = link.receive()
            if not isinstance(answer, RequestDone):
                raise ExternalError(f"the subtask refused the rows of partition {partition}: {answer}")
        finally:
            link.close()
        return iter(())
