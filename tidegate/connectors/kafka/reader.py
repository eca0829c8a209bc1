"""Reads the partitions of one subtask: a thread fetches and decodes ahead, the subtask's thread only takes.

    consume ─▶ by partition ─▶ decode ─▶ queue ─▶ poll ─▶ emitted in slices ─▶ advance: position = last offset + 1
    every discovery interval: partitions of the topics that nobody knew yet, and that belong to this subtask

Laws: the position is that of what was emitted. Offsets are committed to the group only for a confirmed checkpoint, exactly
those of its snapshot, and at most ``MAX_PENDING`` unconfirmed snapshots are remembered (Flink: ``KafkaSourceReader.java``).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common.batch import ArrowBatch
from tidegate.connectors.base import Polled, ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.kafka.client import consumer, kafka_errors, library, typed_error
from tidegate.connectors.kafka.splits import KafkaSubscription, owner_of, split_of
from tidegate.connectors.message_formats import DeserializationSchema, PoisonRecord
from tidegate.model.errors import CorruptData

MAX_PENDING = 100
FETCH_MESSAGES = 16_384
FETCH_WAIT_S = 0.1
_READ_AHEAD = 4
SETTLE_LIMIT_S = 5.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Some records of one partition; ``data`` is ``None`` for a partition that is at its end."""

    split_id: str
    data: pa.RecordBatch | None = None
    offsets: npt.NDArray[np.int64] | None = None
    timestamps: pa.Array | None = None
    next_offset: int = 0
    """Where the records behind these begin: poison that was skipped lies before it."""
    found: Split | None = None
    """A partition that was discovered."""


@dataclass(frozen=True)
class ReaderSettings:
    servers: str
    group_id: str
    properties: dict[str, str]
    subscription: KafkaSubscription
    decoder: DeserializationSchema
    skip_poison: bool
    commits_offsets: bool
    discovery_s: float | None
    """``None``: never look for new partitions."""


class KafkaReader(SourceReader):
    def __init__(self, settings: ReaderSettings, context: ReaderContext) -> None:
        self._settings = settings
        self._context = context
        self._states: dict[str, SplitState] = {}
        self._fetcher: Fetcher[Fetched] | None = None
        self._open: deque[tuple[Fetched, int]] = deque()
        self._pending: OrderedDict[int, list[SplitState]] = OrderedDict()
        self._client: Any = None
        self._last_commit: list[Any] = []

    def open(self, states: Sequence[SplitState]) -> None:
        settings = self._settings
        self._states = {state.split.split_id: state for state in states}
        self._client = consumer(
            settings.servers,
            {"queued.min.messages": "200000", "fetch.queue.backoff.ms": "5", **settings.properties},
            group_id=settings.group_id or f"tidegate-{self._context.job_id}",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level=settings.subscription.isolation,
            on_commit=_on_commit,
        )
        todo = [state for state in states if not state.done]
        fetch = _Fetch(settings, self._context, self._client, todo, known={s.split.split_id for s in states})
        self._fetcher = Fetcher(fetch.run, _READ_AHEAD, self._context.wakeup)

    def poll(self) -> Polled | None:
        assert self._fetcher is not None
        while (taken := self._fetcher.take()) is not None:
            if taken.found is not None:
                self._states[taken.split_id] = SplitState(taken.found)
            elif taken.data is None:
                state = self._states[taken.split_id]
                self._states[taken.split_id] = SplitState(state.split, state.position, done=True)
            elif not taken.data.num_rows:
                self._moved(taken.split_id, taken.next_offset)
            else:
                self._open.append((taken, 0))
                return Polled(ArrowBatch(taken.data, taken.timestamps), taken.split_id)
        return None

    def advance(self, records: int) -> None:
        fetched, emitted = self._open.popleft()
        assert fetched.data is not None
        assert fetched.offsets is not None
        emitted += records
        if emitted < fetched.data.num_rows:
            self._open.appendleft((fetched, emitted))
            self._moved(fetched.split_id, int(fetched.offsets[emitted - 1]) + 1)
        else:
            self._moved(fetched.split_id, fetched.next_offset)

    def is_finished(self) -> bool:
        return self._fetcher is not None and self._fetcher.ended and not self._open

    def snapshot_state(self) -> list[SplitState]:
        return list(self._states.values())

    def note_snapshot(self, checkpoint_id: int, states: Sequence[SplitState]) -> None:
        if not self._settings.commits_offsets:
            return
        self._pending[checkpoint_id] = list(states)
        while len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        states = self._pending.get(checkpoint_id)
        for pending_id in [n for n in self._pending if n <= checkpoint_id]:
            del self._pending[pending_id]
        if states:
            self._commit(states)

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            if self._fetcher.ended:
                self._settle()

    def _moved(self, split_id: str, offset: int) -> None:
        self._states[split_id] = SplitState(self._states[split_id].split, offset)

    def _commit(self, states: list[SplitState]) -> None:
        """Without waiting: the group's offsets are for people and for ``committed_offsets``, not for recovery."""
        kafka = library()
        wanted = [kafka.TopicPartition(*s.split.payload[:2], s.position) for s in states if s.position is not None]
        if not wanted:
            return
        self._last_commit = wanted
        try:
            self._client.commit(offsets=wanted, asynchronous=True)
        except kafka.KafkaException as error:
            _LOG.warning("the group's offsets were not committed, the next checkpoint will: %s", error.args[0].str())

    def _settle(self) -> None:
        """At the end of all partitions: the last offsets arrive before the process goes, if the broker answers soon."""
        client, wanted = self._client, self._last_commit

        def settle() -> None:
            if wanted:
                with contextlib.suppress(library().KafkaException):
                    client.commit(offsets=wanted, asynchronous=False)
            client.close()

        thread = threading.Thread(target=settle, name="tidegate-kafka-close", daemon=True)
        thread.start()
        thread.join(SETTLE_LIMIT_S)


def _on_commit(error: Any, partitions: Sequence[Any]) -> None:
    if error is not None:
        _LOG.warning("the group's offsets were not committed, the next checkpoint will: %s", error.str())


class _Fetch:
    """The fetcher's thread: everything in it may block."""

    def __init__(
        self,
        settings: ReaderSettings,
        context: ReaderContext,
        client: Any,
        todo: list[SplitState],
        known: set[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._context = context
        self._client = client
        self._clock = clock
        self._known = known
        self._ends: dict[str, int | None] = {}
        self._at: dict[str, int] = {}
        for state in todo:
            self._take(state.split, state.position)
        self._look_at = clock() + (settings.discovery_s or 0)

    def run(self) -> Iterator[Fetched]:
        try:
            self._assign()
            yield from self._finished([s for s in self._ends if self._is_at_end(s)])
            while self._ends or self._settings.discovery_s is not None:
                yield from self._discover()
                yield from self._consume()
        except GeneratorExit:  # the reader was closed; at the end of all partitions its client still commits offsets
            self._client.close()
            raise

    def _take(self, split: Split, position: int | None) -> None:
        _, _, start, stop = split.payload
        self._ends[split.split_id] = stop
        self._at[split.split_id] = start if position is None else int(position)

    def _assign(self) -> None:
        kafka = library()
        parts = [kafka.TopicPartition(*_named(split_id), self._at[split_id]) for split_id in self._ends]
        with kafka_errors("read from its partitions", self._settings.servers):
            self._client.assign(parts)

    def _consume(self) -> Iterator[Fetched]:
        if not self._ends:
            threading.Event().wait(FETCH_WAIT_S)  # nothing to read, but partitions may still appear
            return
        with kafka_errors("read", self._settings.servers):
            messages = self._client.consume(FETCH_MESSAGES, FETCH_WAIT_S)
        by_partition: dict[tuple[str, int], list[Any]] = {}
        at_end = []
        for message in messages:
            error = message.error()
            if error is None:
                by_partition.setdefault((message.topic(), message.partition()), []).append(message)
            elif error.code() == library().KafkaError._PARTITION_EOF:
                at_end.append((f"{message.topic()}-{message.partition()}", message.offset()))
            else:
                self._failed(error, message)
        for (topic, number), found in by_partition.items():
            yield from self._records(f"{topic}-{number}", found)
        for split_id, offset in at_end:
            if split_id in self._ends:
                self._at[split_id] = max(self._at[split_id], offset)
        yield from self._finished([s for s in self._ends if self._is_at_end(s)])

    def _failed(self, error: Any, message: Any) -> None:
        codes = library().KafkaError
        if error.code() == codes._AUTO_OFFSET_RESET or error.code() == codes.OFFSET_OUT_OF_RANGE:
            raise CorruptData(
                f"partition {message.partition()} of topic {message.topic()!r} does not hold the offset to read from any "
                f"more ({error.str()}): its retention was shorter than the time the job was down"
            )
        if error.fatal() or not error.retriable():
            raise typed_error(error, f"read topic {message.topic()!r}", self._settings.servers)

    def _records(self, split_id: str, messages: list[Any]) -> Iterator[Fetched]:
        if split_id not in self._ends:
            return
        stop = self._ends[split_id]
        if stop is not None and messages[-1].offset() >= stop:
            messages = [m for m in messages if m.offset() < stop]
            self._at[split_id] = stop
        else:
            self._at[split_id] = messages[-1].offset() + 1
        yield from self._decoded(split_id, messages)

    def _decoded(self, split_id: str, messages: list[Any]) -> Iterator[Fetched]:
        """Poison is left out when it is to be skipped: what lies around it is decoded in pieces."""
        while messages:
            try:
                yield self._batch(split_id, messages)
                return
            except PoisonRecord as poison:
                bad = messages[poison.index]
                where = f"offset {bad.offset()} of partition {bad.partition()} of topic {bad.topic()!r}"
                if not self._settings.skip_poison:
                    raise CorruptData(
                        f"the record at {where} cannot be read: {poison.reason}; remove it, or build the source with "
                        "set_poison_records('skip')"
                    ) from poison
                _LOG.warning("skipped the record at %s: %s", where, poison.reason)
                if poison.index:
                    yield self._batch(split_id, messages[: poison.index])
                messages = messages[poison.index + 1 :]
                if not messages:
                    schema = self._settings.decoder.get_produced_type().arrow_schema()
                    nothing = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
                    yield Fetched(split_id, nothing, next_offset=bad.offset() + 1)

    def _batch(self, split_id: str, messages: list[Any]) -> Fetched:
        data = self._settings.decoder.decode([m.value() for m in messages])
        offsets = np.fromiter((m.offset() for m in messages), np.int64, len(messages))
        times = np.fromiter((m.timestamp()[1] for m in messages), np.int64, len(messages))
        return Fetched(split_id, data, offsets, pa.array(times, mask=times < 0), int(offsets[-1]) + 1)

    def _is_at_end(self, split_id: str) -> bool:
        stop = self._ends[split_id]
        return stop is not None and self._at[split_id] >= stop

    def _finished(self, split_ids: list[str]) -> Iterator[Fetched]:
        if not split_ids:
            return
        kafka = library()
        for split_id in split_ids:
            del self._ends[split_id]
            yield Fetched(split_id)
        self._client.incremental_unassign([kafka.TopicPartition(*_named(split_id)) for split_id in split_ids])

    def _discover(self) -> Iterator[Fetched]:
        every = self._settings.discovery_s
        if every is None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + every
        kafka = library()
        added = []
        for topic, number in self._settings.subscription.partitions(self._client, self._settings.servers):
            split = split_of(topic, number, kafka.OFFSET_BEGINNING, None)
            if split.split_id in self._known:
                continue
            self._known.add(split.split_id)
            if owner_of(split, self._context.parallelism) == self._context.subtask_index:
                self._take(split, None)
                added.append(kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING))
                yield Fetched(split.split_id, found=split)
        if added:
            self._client.incremental_assign(added)


def _named(split_id: str) -> tuple[str, int]:
    topic, _, number = split_id.rpartition("-")
    return topic, int(number)
