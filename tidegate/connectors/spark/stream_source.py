"""A stream of Spark's as an unbounded source: ``StreamExecutionEnvironment.from_spark_stream``.

    fetcher's thread    PlanBatch ─▶ RunBatch ─▶ rows of all partitions ─▶ the next batch ─▶ ... (the Spark driver works for it)
    subtask's thread    poll ─▶ rows that were not emitted ─▶ position: offsets, and what of the batch was emitted

One subtask reads: Spark itself is parallel below it. So the source has parallelism 1, and what follows it any other.

Watermarks: the partitions of a batch are its splits. They hold event time back from the moment the batch is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.spark.stream_blocks import BlockServer
from tidegate.connectors.spark.stream_link import (
    BatchPlanned,
    ForgetBefore,
    Offsets,
    PartitionEnded,
    PlanBatch,
    RequestFailed,
    RowBlock,
    RunBatch,
    SparkLink,
    error_of,
)
from tidegate.connectors.spark.stream_position import StreamPosition, StreamProgress
from tidegate.model.errors import ExternalError, InternalError, TidegateError, Unreachable, UserFunctionError
from tidegate.records.batch import ArrowBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT = "stream"
_READ_AHEAD_BLOCKS = 4
"""How many blocks are read ahead. Chosen, not measured: as for files."""


class SparkStreamSource(Source):
    """An unbounded source of a Spark stream. ``query``: returns a streaming DataFrame for a SparkSession. ``partitions``: the most Spark tasks that
    read a batch."""

    bounded = False

    def __init__(
        self, query: Callable[[SparkSession], DataFrame], schema: pa.Schema, partitions: int, interval_s: float
    ) -> None:
        self.query = query
        self.schema = schema
        self.partitions = partitions
        self.interval_s = interval_s

    def produced_type(self) -> TypeInformation:
        from tidegate.common.typeinfo import Types

        return Types.SCHEMA(self.schema)

    def list_splits(self, parallelism: int) -> list[Split]:
        return [Split(SPLIT)]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return SparkStreamReader(self.schema, self.interval_s, context)


@dataclass(frozen=True, slots=True)
class _Block:
    rows: RowBlock
    data: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _BatchEnded:
    partitions: frozenset[int]


_Event: TypeAlias = BatchPlanned | _Block | PartitionEnded | _BatchEnded


class SparkStreamReader(SourceReader):
    """Reads the only split, which is the whole stream."""

    def __init__(self, schema: pa.Schema, interval_s: float, context: ReaderContext) -> None:
        self._schema = schema
        self._context = context
        self._conversation: _Conversation | None = None
        self._fetcher: Fetcher[_Event] | None = None
        self._interval_s = interval_s
        self._progress = StreamProgress(StreamPosition())
        self._block: _Block | None = None
        self._emitted = 0
        self._finished: set[str] = set()
        self._partitions = 0
        self._lags: dict[str, float] = {}
        self._noted: dict[int, Offsets] = {}

    def open(self, states: Sequence[SplitState]) -> None:
        if not states:
            return
        position = StreamPosition.from_state(states[0].position)
        self._progress = StreamProgress(position)
        conversation = self._conversation = _Conversation(self._schema, self._interval_s, self._context)
        self._fetcher = Fetcher(lambda: conversation.events(position), _READ_AHEAD_BLOCKS, self._context.wakeup)

    def poll(self) -> Polled | None:
        while self._fetcher is not None:
            event = self._fetcher.take()
            match event:
                case None:
                    return None
                case BatchPlanned():
                    self._on_planned(event)
                case _Block():
                    skipped = self._progress.on_rows(event.rows, event.data.num_rows)
                    if skipped < event.data.num_rows:
                        self._block, self._emitted = event, skipped
                        return Polled(ArrowBatch(event.data.slice(skipped)), self._split_of(event.rows.partition))
                case PartitionEnded():
                    self._progress.on_ended(event)
                case _BatchEnded():
                    self._finished |= {self._split_of(i) for i in range(self._partitions)}
                    self._progress.on_batch_ended(event.partitions)
        return None

    def advance(self, records: int) -> None:
        assert self._block is not None
        self._emitted += records
        self._progress.on_emitted(self._block.rows, self._emitted, self._block.data.num_rows)

    def is_finished(self) -> bool:
        return self._fetcher is None

    def finished_splits(self) -> set[str]:
        """Returns finished batches, and the stream's own split, which never has records of its own."""
        finished, self._finished = self._finished, set()
        return finished | {SPLIT}

    def snapshot_state(self) -> list[SplitState]:
        if self._fetcher is None:
            return []
        return [SplitState(Split(SPLIT), self._progress.position.to_state())]

    def note_snapshot(self, checkpoint_id: int, states: Sequence[SplitState]) -> None:
        starts = self._progress.position.starts
        if starts is not None:
            self._noted[checkpoint_id] = starts

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        starts = self._noted.pop(checkpoint_id, None)
        self._noted = {n: kept for n, kept in self._noted.items() if n > checkpoint_id}
        if starts is not None and self._conversation is not None:
            self._conversation.forget(starts)

    def close(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
        if self._fetcher is not None:
            self._fetcher.close()

    def _on_planned(self, planned: BatchPlanned) -> None:
        self._progress.on_planned(planned)
        self._watch(planned.lags)
        if planned.ends != planned.starts:
            self._partitions = planned.partitions
            if self._context.times is not None:
                for i in range(planned.partitions):
                    self._context.times.expected(self._split_of(i))

    def _split_of(self, partition: int) -> str:
        return f"{self._progress.batch}/{partition}"

    def _watch(self, lags: dict[str, float]) -> None:
        for name in lags.keys() - self._lags.keys():
            if self._context.watch is not None:
                self._context.watch(name, lambda name=name: self._lags.get(name, 0.0))  # type: ignore[misc]
        self._lags.update(lags)


class _Conversation:
    """The connection to the Spark driver; used by the fetcher's thread, except ``forget`` and ``close``."""

    def __init__(self, schema: pa.Schema, interval_s: float, context: ReaderContext) -> None:
        self._schema = schema
        self._interval_s = interval_s
        self._context = context
        self._closing = threading.Event()
        self._forgotten: Offsets | None = None
        self._sent: Offsets | None = None
        self._link: SparkLink | None = None
        self._server: BlockServer | None = None

    def events(self, position: StreamPosition) -> Iterator[_Event]:
        service, operator_id = self._context.spark_service, self._context.operator_id
        starts, ends, batch = position.starts, position.ends, position.batch
        try:
            link = self._link = SparkLink.opened(service, operator_id, position.written, ends or starts)
            server = self._server = BlockServer(link.socket.getsockname()[0], link.ports)
            while not self._closing.is_set():
                self._send_forgotten(link)
                planned = link.ask(PlanBatch(starts, ends))
                if not isinstance(planned, BatchPlanned):
                    raise InternalError(
                        f"the Spark driver answered the request to plan a batch with {type(planned).__name__} instead of BatchPlanned"
                    )
                if starts is None or planned.starts != planned.ends:
                    yield planned
                starts = planned.starts
                if planned.starts == planned.ends:
                    self._closing.wait(self._interval_s)
                    continue
                ends = planned.ends
                yield from self._batch(link, server, batch, planned)
                starts, ends, batch = planned.ends, None, batch + 1
        except (ExternalError, UserFunctionError) as error:
            raise self._with_place(error, batch, starts, ends) from None
        except (OSError, EOFError):
            if not self._closing.is_set():
                raise Unreachable(
                    "the Spark driver of the TaskManager closed the connection; the log of the TaskManager says why"
                ) from None
        finally:
            self.close()

    def forget(self, ends: Offsets) -> None:
        """Notes that the sources need nothing before ``ends``; thread-safe. It is sent with the next request, and only the newest: checkpoints are more
        frequent than batches, and each costs Spark's log a request."""
        self._forgotten = ends

    def close(self) -> None:
        """Closes the connections; thread-safe."""
        self._closing.set()
        if self._server is not None:
            self._server.close()
        if self._link is not None:
            self._link.close()

    def _batch(self, link: SparkLink, server: BlockServer, batch: int, planned: BatchPlanned) -> Iterator[_Event]:
        server.begin(batch)
        link.send(RunBatch(server.address, server.secret, batch))
        threading.Thread(target=self._await, args=(link, server), name="spark batch", daemon=True).start()
        ended = set()
        while True:
            message, rest = server.take()
            match message:
                case RowBlock():
                    yield _Block(message, pa.ipc.read_record_batch(pa.py_buffer(rest), self._schema))
                case PartitionEnded():
                    ended.add(message.partition)
                    yield message
                case RequestFailed():
                    raise error_of(message)
                case _:
                    yield _BatchEnded(frozenset(ended))
                    return

    def _with_place(
        self, error: ExternalError | UserFunctionError, batch: int, starts: Offsets | None, ends: Offsets | None
    ) -> TidegateError:
        """Returns the error with the operator and the batch in its message."""
        reach = f" to {_shown(ends)}" if ends is not None else ""
        place = (
            f"operator '{self._context.operator_name}': batch {batch} of the Spark stream, from {_shown(starts)}{reach}"
        )
        return type(error)(f"{place}: {error.message}", details=error.details)

    def _await(self, link: SparkLink, server: BlockServer) -> None:
        """Receives the answer that follows the rows."""
        try:
            answer, rest = link.receive()
            server.put(answer, rest)
        except (OSError, EOFError):
            server.close()

    def _send_forgotten(self, link: SparkLink) -> None:
        forgotten, self._forgotten = self._forgotten, None
        if forgotten is not None and forgotten != self._sent:
            link.ask(ForgetBefore(forgotten))
            self._sent = forgotten


def _shown(offsets: Offsets | None) -> str:
    return "its beginning" if offsets is None else ", ".join(one or "its beginning" for one in offsets)
