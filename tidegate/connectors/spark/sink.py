"""Rows of a stream as DataFrames: ``DataStream.to_spark``, like Structured Streaming's ``foreachBatch`` on this job's checkpoints.

    rows ─▶ kept until the barrier n ─┬▶ committable [TAG, application id, epoch n, rows, Arrow IPC] in the checkpoint
                                      └▶ while an epoch is being written: state, and part of the epoch of a later barrier
            confirmed ─▶ Spark driver of the TaskManager: write(df, epoch) ─▶ returned: done; raised: again, later

Laws: epochs are written one by one, in their order, each at least once. Application id and epoch are those of the vote, also when
another job commits it, so a write that notes them is exactly once. What an epoch has in it is settled at its barrier, never later: a
writer that is behind gets fewer and larger epochs, and none of them is put together anew after a failure. While too much waits and an epoch is
being written, no further rows are taken. What no epoch has yet waits for a barrier, which comes behind rows where they come by channels: these
are taken then. One subtask writes, since epochs are whole; what it votes for stays together at any
parallelism.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, ReaderContext, Sink, SinkContext, SinkWriter
from tidegate.connectors.spark.nanoseconds import DroppedNanoseconds
from tidegate.connectors.spark.stream_link import SparkLink, WriteEpoch
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, ExternalError, InvalidJob, Unreachable, UserFunctionError
from tidegate.model.options import CheckpointingOptions
from tidegate.model.values import Committable, StateValue
from tidegate.records.batch import ArrowBatch, Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Key: TypeAlias = tuple[str, int]
"""Application id and epoch."""
TAG = "spark-epoch"
HELD = "spark-rows"
"""The mark of rows in the writer's state that belong to no epoch yet."""
MAX_WAITING_EPOCHS = 8
"""How many epochs may wait for their checkpoints to be confirmed. Chosen, not measured."""
MAX_WAITING_BYTES = 256 << 20
"""How many bytes of rows may wait in memory, and in every checkpoint, until they are written or their barrier comes: a quarter of a slot's
default 1 GiB, since a snapshot encodes them once more."""
MAX_BYTES_OF_EPOCH = 2 << 30
"""How many bytes of rows one epoch may have, of a job without checkpoints as well: half of the largest message to the driver, since compressed
rows may be larger than others."""


@dataclass(frozen=True, slots=True)
class SparkEpoch:
    """The ids of an epoch's rows. A checkpoint's rows always have the same two values."""

    application_id: str
    """The id of the sink in one execution of the job. Its epochs only increase."""
    number: int
    """The checkpoint's id; of the last one, where a writer that is behind writes the rows of several."""

    def __int__(self) -> int:
        return self.number


class SparkSink(Sink):
    """Writes rows as DataFrames; made by ``DataStream.to_spark``."""

    keeps_together = True

    def __init__(self, write: Callable[[DataFrame, SparkEpoch], None]) -> None:
        self.write = write
        self._waiting: _Waiting | None = None

    def validate_input(self, input_type: TypeInformation, configuration: Configuration) -> None:
        """Raises ``InvalidJob`` for columns that Spark has no types for."""
        from tidegate.connectors.spark.query import TIMES_KEY, check_rows  # the half that imports PySpark

        takes_times = configuration.spark_properties().get(TIMES_KEY, "").lower() == "true"
        check_rows(input_type.arrow_schema(), takes_times=takes_times)

    def make_committer(self, context: SinkContext) -> Committer:
        self._waiting = _Waiting(context.wakeup, writes_at_end=_writes_at_end(context))
        return _Committer(self._waiting, context, self.connect)

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        assert self._waiting is not None, "the committer is made first: it writes what was restored"
        return _Writer(self._waiting, application_id_of(context), input_type.arrow_schema(), state)

    def connect(self, context: SinkContext) -> SparkLink:
        """Connects to the Spark driver."""
        return SparkLink.opened(context.spark_service, context.operator_id)


def application_id_of(context: SinkContext | ReaderContext) -> str:
    """Returns the application id of one subtask, unique to it since epochs of two subtasks may overtake each other."""
    subtask = f"-{context.subtask_index}" if context.subtask_index else ""
    return f"tidegate-{context.job_id}-{context.operator_id}{subtask}"


def _writes_at_end(context: SinkContext) -> bool:
    """Returns whether no checkpoint will make an epoch of the rows, so that they are written at the end."""
    return Configuration.from_strings(context.configuration).get(CheckpointingOptions.INTERVAL) is None


class _Waiting:
    """Epochs that are prepared and not yet written; thread-safe. ``writes_at_end``: nothing is written before the end, so waiting for space would never
    end."""

    def __init__(self, wakeup: Callable[[], None] | None = None, *, writes_at_end: bool = False) -> None:
        self.writes_at_end = writes_at_end
        self._lock = threading.Lock()
        self._bytes: dict[_Key, int] = {}
        self._begun: set[_Key] = set()
        self._wakeup = wakeup

    def add(self, key: _Key, size: int) -> None:
        with self._lock:
            self._bytes[key] = size

    def begin(self, keys: Iterable[_Key]) -> None:
        """Marks epochs as being written, until each is removed."""
        with self._lock:
            self._begun.update(keys)

    def remove(self, key: _Key) -> None:
        with self._lock:
            self._begun.discard(key)
            self._bytes.pop(key, None)
        if self._wakeup is not None:
            self._wakeup()

    def is_writing(self) -> bool:
        with self._lock:
            return bool(self._begun)

    def has_room(self, more: int) -> bool:
        with self._lock:
            few = len(self._bytes) < MAX_WAITING_EPOCHS and sum(self._bytes.values()) + more < MAX_WAITING_BYTES
        return few or self.writes_at_end


class _Rows:
    """The encoded rows of one epoch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._content = io.BytesIO()
        self._stream = pa.ipc.new_stream(self._content, schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        self.count = 0

    @property
    def size(self) -> int:
        return self._content.tell()

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._stream.write_batch(batch.cast(self._schema) if batch.schema != self._schema else batch)
            self.count += batch.num_rows

    def content(self) -> bytes:
        """Returns the Arrow stream so far, without its end, which readers do not need."""
        return self._content.getvalue()

    def close(self) -> None:
        self._stream.close()


class _Writer(SinkWriter):
    works_on = "arrow"

    def __init__(
        self, waiting: _Waiting, application_id: str, schema: pa.Schema, state: Sequence[StateValue] = ()
    ) -> None:
        self._waiting = waiting
        self._application_id = application_id
        self._schema = schema
        self._nanoseconds = DroppedNanoseconds(schema)
        self._rows = _Rows(schema)
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._is_ending = False
        for tag, _, content in state:
            if tag != HELD:
                raise CorruptData(
                    f"the checkpoint holds state {tag!r:.200} for a to_spark sink, which has only {HELD!r}; give the sink another uid where another "
                    "kind of sink had its uid"
                )
            with pa.ipc.open_stream(content) as stream:
                self._rows.add(stream)

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)
        self._nanoseconds.look(batch.data)
        self._batches.append(batch.data)
        self._bytes += batch.data.nbytes
        if self._rows.size + self._bytes <= MAX_BYTES_OF_EPOCH:
            return
        if self._waiting.writes_at_end:
            raise InvalidJob(
                f"to_spark: without checkpoints all rows of the job are one epoch, written at its end, and these are more than {MAX_BYTES_OF_EPOCH >> 20} MiB: "
                "set execution.checkpointing.interval and run it in STREAMING mode, or write files with a FileSink"
            )
        raise InvalidJob(
            f"to_spark: the rows that came before the next checkpoint are more than {MAX_BYTES_OF_EPOCH >> 20} MiB: set a shorter "
            "execution.checkpointing.interval, or write files with a FileSink"
        )

    def has_room(self) -> bool:
        return self._waiting.has_room(self._rows.size + self._bytes)

    def waits_for_barrier(self) -> bool:
        return not self._waiting.is_writing()

    def holds_rows(self) -> bool:
        return bool(self._rows.count)

    def flush(self, end_of_input: bool) -> None:
        self._is_ending |= end_of_input

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        batches, self._batches, self._bytes = self._batches, [], 0
        self._rows.add(batches)
        if not self._rows.count or (self._waiting.is_writing() and not self._is_ending):
            return []
        sealed, self._rows = self._rows, _Rows(self._schema)
        sealed.close()
        content = sealed.content()
        self._waiting.add((self._application_id, checkpoint_id), len(content))
        return [[TAG, self._application_id, checkpoint_id, sealed.count, content]]

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        return [[HELD, self._rows.count, self._rows.content()]] if self._rows.count else []


class _Committer(Committer):
    def __init__(self, waiting: _Waiting, context: SinkContext, connect: Callable[[SinkContext], SparkLink]) -> None:
        self._waiting = waiting
        self._context = context
        self._connect = connect
        self._link: SparkLink | None = None
        self._written: set[_Key] = set()

    def commit(self, committables: Sequence[Committable]) -> None:
        """Writes epochs in order; one that failed stays marked as begun and is retried."""
        epochs = sorted(committables, key=_key)
        for committable in epochs:
            if committable[0] != TAG:
                raise CorruptData(
                    f"the checkpoint holds what is not an epoch of a to_spark sink: {committable!r:.200}; give the sink another uid where another "
                    "kind of sink had its uid"
                )
        self._waiting.begin(_key(committable) for committable in epochs)
        for committable in epochs:
            key = application_id, epoch = _key(committable)
            if key not in self._written:
                self._write(WriteEpoch(application_id, epoch), committable[-1])
                self._written.add(key)
            self._waiting.remove(key)

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
            raise Unreachable(
                f"the connection to the Spark driver broke during the write of epoch {request.epoch}: {error}"
            ) from error
        except (ExternalError, UserFunctionError) as error:
            raise ExternalError(
                f"the write of epoch {request.epoch} failed: {error.message}", details=error.details
            ) from None


def _key(committable: Committable) -> _Key:
    return committable[1], committable[2]
