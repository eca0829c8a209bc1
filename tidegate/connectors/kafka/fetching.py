"""The thread that fetches: consumes in small pieces, sorts by partition, decodes whole batches.

    consume ─▶ columns of values, offsets, timestamps by partition ─▶ decode ─▶ Fetched
    every discovery interval: partitions of the topics that nobody knew yet, and that belong to this subtask
    offsets of confirmed checkpoints ─▶ committed by whoever finds the client free: the subtask's thread never waits for it

Messages are taken apart piece by piece: objects by the ten thousand would make Python's garbage collector run over them
again and again (twice the processor time of everything else here).
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.connectors.base import ReaderContext, Split, SplitState
from tidegate.connectors.kafka.client import kafka_errors, library, typed_error
from tidegate.connectors.kafka.splits import KafkaSubscription, owner_of, split_of
from tidegate.connectors.kafka.taken import PoisonAction, Taken, dead_letter, runs
from tidegate.connectors.message_formats import DeserializationSchema, PoisonRecord
from tidegate.model.errors import CorruptData

FETCH_MESSAGES = 16_384
PIECE = 500
FETCH_WAIT_S = 0.1
GATHER_S = 0.005
"""How long the first message waits for others, so that a calm topic is not read one by one."""

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
    side: str = ""
    """``data`` is for this side output: dead letters."""


@dataclass(frozen=True)
class ReaderSettings:
    servers: str
    group_id: str
    properties: dict[str, str]
    subscription: KafkaSubscription
    decoder: DeserializationSchema
    poison: PoisonAction
    commits_offsets: bool
    discovery_s: float | None
    """``None``: never look for new partitions."""
    dead_letters: str = ""
    """The tag of the side output, when ``poison`` is ``SIDE_OUTPUT``."""


class Fetch:
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
        self._confirmed: SimpleQueue[list[Any]] = SimpleQueue()
        self._in_use = threading.Lock()
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
            with self._using_client():
                self._client.close()
            raise

    def commit(self, offsets: list[Any]) -> None:
        """Called by the subtask's thread. The client is locked while it waits for messages, so a commit would wait for that, for
        minutes where a topic is calm: then the fetcher's thread commits as soon as it is back from the broker."""
        self._confirmed.put(offsets)
        self._commit_confirmed()

    def _commit_confirmed(self) -> None:
        """Looks again after letting the client go: offsets that came meanwhile found it in use and were left to us."""
        while not self._confirmed.empty() and self._in_use.acquire(blocking=False):
            try:
                latest: list[Any] = []
                while not self._confirmed.empty():
                    latest = self._confirmed.get()
                if latest:
                    commit(self._client, latest)
            finally:
                self._in_use.release()

    @contextmanager
    def _using_client(self) -> Iterator[None]:
        """Never around a ``yield`` of records: that waits for the subtask."""
        self._commit_confirmed()
        with self._in_use:
            yield
        self._commit_confirmed()

    def _take(self, split: Split, position: int | None) -> None:
        _, _, start, stop = split.payload
        self._ends[split.split_id] = stop
        self._at[split.split_id] = start if position is None else int(position)

    def _assign(self) -> None:
        kafka = library()
        parts = [kafka.TopicPartition(*_named(split_id), self._at[split_id]) for split_id in self._ends]
        with self._using_client(), kafka_errors("read from its partitions", self._settings.servers):
            self._client.assign(parts)

    def _consume(self) -> Iterator[Fetched]:
        if not self._ends:
            threading.Event().wait(FETCH_WAIT_S)  # nothing to read, but partitions may still appear
            return
        taken: dict[str, Taken] = {}
        at_end: list[tuple[str, int]] = []
        with self._using_client(), kafka_errors("read", self._settings.servers):
            self._gather(taken, at_end)
        for split_id, found in taken.items():
            yield from self._records(split_id, found)
        for split_id, offset in at_end:
            if split_id in self._ends:
                self._at[split_id] = max(self._at[split_id], offset)
        yield from self._finished([s for s in self._ends if self._is_at_end(s)])

    def _gather(self, taken: dict[str, Taken], at_end: list[tuple[str, int]]) -> None:
        count, wanted, wait_s = 0, 1, FETCH_WAIT_S
        while count < FETCH_MESSAGES:
            messages = self._client.consume(wanted, wait_s)
            self._sort(messages, taken, at_end)
            if len(messages) < wanted:
                return
            # the client waits until it has all that it was asked for: so for one at first, and then hardly any more
            count, wait_s = count + len(messages), GATHER_S if wanted == 1 else 0.0
            wanted = PIECE

    def _sort(self, messages: list[Any], taken: dict[str, Taken], at_end: list[tuple[str, int]]) -> None:
        kind = library().Message
        if any(map(kind.error, messages)):
            good = []
            for message in messages:
                error = message.error()
                if error is None:
                    good.append(message)
                elif error.code() == library().KafkaError._PARTITION_EOF:
                    at_end.append((f"{message.topic()}-{message.partition()}", message.offset()))
                else:
                    self._failed(error, message)
            messages = good
        with_keys = self._settings.poison is PoisonAction.SIDE_OUTPUT
        for (topic, number), run in runs(messages):
            taken.setdefault(f"{topic}-{number}", Taken(topic, number)).add(run, with_keys)

    def _failed(self, error: Any, message: Any) -> None:
        codes = library().KafkaError
        if error.code() == codes._AUTO_OFFSET_RESET or error.code() == codes.OFFSET_OUT_OF_RANGE:
            raise CorruptData(
                f"partition {message.partition()} of topic {message.topic()!r} does not hold the offset to read from any "
                f"more ({error.str()}): its retention was shorter than the time the job was down"
            )
        if error.fatal() or not error.retriable():
            raise typed_error(error, f"read topic {message.topic()!r}", self._settings.servers)

    def _records(self, split_id: str, taken: Taken) -> Iterator[Fetched]:
        if split_id not in self._ends:
            return
        stop = self._ends[split_id]
        last = taken.offsets[-1]
        if stop is not None and last >= stop:
            taken = taken.part(0, bisect_left(taken.offsets, stop))
            self._at[split_id] = stop
        else:
            self._at[split_id] = last + 1
        yield from self._decoded(split_id, taken)

    def _decoded(self, split_id: str, taken: Taken) -> Iterator[Fetched]:
        """Poison is left out when it need not fail: what lies around it is decoded in pieces."""
        while taken.values:
            try:
                yield self._batch(split_id, taken)
                return
            except PoisonRecord as poison:
                at = poison.index
                if at:
                    yield self._batch(split_id, taken.part(0, at))
                yield self._poisoned(split_id, taken, poison)
                taken = taken.part(at + 1, len(taken.values))

    def _poisoned(self, split_id: str, taken: Taken, poison: PoisonRecord) -> Fetched:
        """What becomes of it. Raises ``CorruptData`` when it fails the job."""
        offset = taken.offsets[poison.index]
        where = f"offset {offset} of partition {taken.partition} of topic {taken.topic!r}"
        settings = self._settings
        if settings.poison is PoisonAction.SIDE_OUTPUT:
            letter = dead_letter(taken, poison)
            one = np.array([offset], np.int64)
            return Fetched(split_id, letter, one, None, offset + 1, side=settings.dead_letters)
        if settings.poison is PoisonAction.SKIP:
            _LOG.warning("skipped the record at %s: %s", where, poison.reason)
            schema = settings.decoder.get_produced_type().arrow_schema()
            nothing = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
            return Fetched(split_id, nothing, next_offset=offset + 1)
        raise CorruptData(
            f"the record at {where} cannot be read: {poison.reason}; remove it, or build the source with "
            "set_poison_records('skip') or with a side output for dead letters"
        ) from poison

    def _batch(self, split_id: str, taken: Taken) -> Fetched:
        data = self._settings.decoder.decode(taken.values)
        times = np.array(taken.stamps, np.int64)
        stamps = pa.array(times, mask=times < 0)
        return Fetched(split_id, data, np.array(taken.offsets, np.int64), stamps, taken.offsets[-1] + 1)

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
        with self._using_client():
            self._client.incremental_unassign([kafka.TopicPartition(*_named(split_id)) for split_id in split_ids])

    def _discover(self) -> Iterator[Fetched]:
        every = self._settings.discovery_s
        if every is None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + every
        kafka = library()
        added = []
        with self._using_client():
            partitions = list(self._settings.subscription.partitions(self._client, self._settings.servers))
        for topic, number in partitions:
            split = split_of(topic, number, kafka.OFFSET_BEGINNING, None)
            if split.split_id in self._known:
                continue
            self._known.add(split.split_id)
            if owner_of(split, self._context.parallelism) == self._context.subtask_index:
                self._take(split, None)
                added.append(kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING))
                yield Fetched(split.split_id, found=split)
        if added:
            with self._using_client():
                self._client.incremental_assign(added)


def commit(client: Any, offsets: list[Any]) -> None:
    """Without waiting: the group's offsets are for people and for ``committed_offsets``, not for recovery."""
    try:
        client.commit(offsets=offsets, asynchronous=True)
    except library().KafkaException as error:
        _LOG.warning("the group's offsets were not committed, the next checkpoint will: %s", error.args[0].str())


def _named(split_id: str) -> tuple[str, int]:
    topic, _, number = split_id.rpartition("-")
    return topic, int(number)
