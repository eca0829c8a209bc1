"""Rows of a stream as DataFrames: ``DataStream.to_spark``, like Structured Streaming's ``foreachBatch`` on this job's checkpoints.

    rows ─▶ kept until the barrier n ─▶ committable [TAG, application id, epoch n, rows, Arrow IPC] in the checkpoint
                     confirmed ─▶ Spark driver of the TaskManager: write(df, epoch) ─▶ returned: done; raised: again, later

Laws: epochs are written one by one, in their order, each at least once. Application id and epoch are those of the vote, also when
another job commits it, so a write that notes them is exactly once. While too much waits to be written, no further rows are taken;
barriers go on. One subtask writes, since epochs are whole; what it votes for stays together at any parallelism.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.common.records.batch import ArrowBatch, Batch
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.spark.stream_link import SparkLink, WriteEpoch
from tidegate.model.errors import CorruptData, ExternalError, Unreachable, UserFunctionError
from tidegate.model.values import Committable, StateValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAG = "spark-epoch"
MAX_WAITING_EPOCHS = 8
"""Chosen, not measured: a write that fails for a few checkpoints does not stop the stream, one that is down for long does."""
MAX_WAITING_BYTES = 256 << 20
"""Rows that lie in memory, and in every checkpoint, until they are written: a quarter of the 1 GiB that a slot has by default, since a
snapshot encodes them once more."""


@dataclass(frozen=True, slots=True)
class SparkEpoch:
    """The ids of the rows that ``write`` gets. A checkpoint's rows are always given under the same two values."""

    application_id: str
    """Names the sink in one execution of the job. Within it epochs only grow."""
    number: int
    """The checkpoint's id."""

    def __int__(self) -> int:
        return self.number


class SparkSink(Sink):
    """Made by ``DataStream.to_spark``."""

    keeps_together = True

    def __init__(self, write: Callable[[DataFrame, SparkEpoch], None]) -> None:
        self.write = write
        self._waiting: _Waiting | None = None

    def make_committer(self, context: SinkContext) -> Committer:
        self._waiting = _Waiting(context.wakeup)
        return _Committer(self._waiting, context, self.connect)

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        assert self._waiting is not None, "the committer is made first: it writes what was restored"
        return _Writer(self._waiting, application_id_of(context), input_type.arrow_schema())

    def connect(self, context: SinkContext) -> SparkLink:
        """To the Spark driver."""
        return SparkLink.opened(context.spark_service, context.operator_id)


def application_id_of(context: SinkContext) -> str:
    """Returns that of one subtask: epochs of two subtasks would overtake each other."""
    subtask = f"-{context.subtask_index}" if context.subtask_index else ""
    return f"tidegate-{context.job_id}-{context.operator_id}{subtask}"


class _Waiting:
    """What is voted for and not written; from any thread."""

    def __init__(self, wakeup: Callable[[], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[tuple[str, int], int] = {}
        self._wakeup = wakeup

    def add(self, application_id: str, epoch: int, size: int) -> None:
        with self._lock:
            self._bytes[application_id, epoch] = size

    def remove(self, application_id: str, epoch: int) -> None:
        with self._lock:
            self._bytes.pop((application_id, epoch), None)
        if self._wakeup is not None:
            self._wakeup()

    def has_room(self, more: int) -> bool:
        with self._lock:
            return len(self._bytes) < MAX_WAITING_EPOCHS and sum(self._bytes.values()) + more < MAX_WAITING_BYTES


class _Writer(SinkWriter):
    works_on = "arrow"

    def __init__(self, waiting: _Waiting, application_id: str, schema: pa.Schema) -> None:
        self._waiting = waiting
        self._application_id = application_id
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)
        self._batches.append(batch.data)
        self._bytes += batch.data.nbytes

    def has_room(self) -> bool:
        return self._waiting.has_room(self._bytes)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        batches, self._batches, self._bytes = self._batches, [], 0
        rows = sum(batch.num_rows for batch in batches)
        if not rows:
            return []
        content = _encoded(batches, self._schema)
        self._waiting.add(self._application_id, checkpoint_id, len(content))
        return [[TAG, self._application_id, checkpoint_id, rows, content]]


def _encoded(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        for batch in batches:
            stream.write_batch(batch.cast(schema) if batch.schema != schema else batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class _Committer(Committer):
    def __init__(self, waiting: _Waiting, context: SinkContext, connect: Callable[[SinkContext], SparkLink]) -> None:
        self._waiting = waiting
        self._context = context
        self._connect = connect
        self._link: SparkLink | None = None
        self._written: set[tuple[str, int]] = set()

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in sorted(committables, key=_order):
            tag, application_id, epoch, _, content = committable
            if tag != TAG:
                raise CorruptData(f"{committable!r:.200} is not an epoch of a to_spark sink")
            if (application_id, epoch) not in self._written:
                self._write(WriteEpoch(application_id, epoch), content)
                self._written.add((application_id, epoch))
            self._waiting.remove(application_id, epoch)

    def name_of(self, committable: Committable) -> str:
        return f"epoch {committable[2]} of {committable[1]}"

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _write(self, request: WriteEpoch, content: bytes) -> None:
        try:
            if self._link is None:
                self._link = self._connect(self._context)
            self._link.ask(request, content)
        except (OSError, EOFError) as error:
            self.close()
            raise Unreachable(f"the Spark driver broke off the write of epoch {request.epoch}: {error}") from error
        except (ExternalError, UserFunctionError) as error:
            raise ExternalError(
                f"the write of epoch {request.epoch} failed: {error.message}", details=error.details
            ) from None


def _order(committable: Committable) -> tuple[str, int]:
    return committable[1], committable[2]
