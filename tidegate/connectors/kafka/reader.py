"""The reader of a subtask's partitions: a background thread fetches and decodes ahead, the subtask's thread only takes batches.

    Fetch ─▶ queue ─▶ poll ─▶ emitted in slices ─▶ advance: position = last offset + 1

Laws: the position is that of what was emitted. Offsets are committed to the group only for a confirmed checkpoint, exactly
those of its snapshot, and at most ``MAX_PENDING`` unconfirmed snapshots are remembered (Flink: ``KafkaSourceReader.java``).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tidegate.connectors.base import Polled, ReaderContext, SourceReader, Split, SplitState
from tidegate.connectors.fetcher import Fetcher
from tidegate.connectors.kafka.client import consumer, library
from tidegate.connectors.kafka.columnar.client_properties import goes_by_column
from tidegate.connectors.kafka.consumer_port import ConsumerPort, MessageConsumer
from tidegate.connectors.kafka.decoding import Fetched, KafkaRecordDeserializationSchema, ReaderSettings
from tidegate.connectors.kafka.fetching import Fetch
from tidegate.connectors.kafka.partition_records import PoisonAction
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.connectors.kafka.splits import place_in, with_topic_id
from tidegate.records.batch import ArrowBatch

MAX_PENDING = 100
"""How many checkpoints' offsets are remembered until they are confirmed; chosen, not measured."""
_READ_AHEAD = 4
"""How many batches are read ahead. Chosen, not measured."""
SETTLE_LIMIT_S = 5.0
"""How many seconds `close` waits for the fetching thread. Chosen, not measured."""

_LOG = logging.getLogger(__name__)


class KafkaReader(SourceReader):
    """Reads the partitions of one subtask, and commits their offsets when checkpoints are confirmed."""

    def __init__(self, settings: ReaderSettings, context: ReaderContext) -> None:
        self._settings = settings
        self._context = context
        self._states: dict[str, SplitState] = {}
        self._fetch: Fetch | None = None
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
        known = {state.split.split_id for state in states}
        shared = SharedClient(self._client)
        self._fetch = Fetch(settings, self._context, shared, _incoming(settings, shared), todo, known)
        self._fetcher = Fetcher(self._fetch.run, _READ_AHEAD, self._context.wakeup)
        if self._context.watch is not None:
            self._context.watch("pendingRecords", self._pending_records)
        for state in states:
            self._show(state.split)
        self._wait_for_splits()

    def add_splits(self, splits: Sequence[Split]) -> None:
        assert self._fetch is not None
        for split in splits:
            self._states[split.split_id] = SplitState(split)
            self._show(split)
            if self._context.times is not None:
                self._context.times.assigned(split.split_id)
            self._fetch.add(split)
        self._wait_for_splits()

    def _wait_for_splits(self) -> None:
        """Requests partitions that an earlier JobManager had not assigned; new ones are assigned without a request."""
        if self._context.request_split is not None:
            self._context.request_split()

    def poll(self) -> Polled | None:
        assert self._fetcher is not None
        while (taken := self._fetcher.take()) is not None:
            if taken.found is not None:
                self._states[taken.split_id] = SplitState(taken.found)
                self._show(taken.found)
                if self._context.times is not None:
                    self._context.times.assigned(taken.split_id)
            elif taken.topic_id:
                state = self._states[taken.split_id]
                self._states[taken.split_id] = replace(state, split=with_topic_id(state.split, taken.topic_id))
            elif taken.data is None:
                state = self._states[taken.split_id]
                self._states[taken.split_id] = SplitState(state.split, state.position, done=True)
            elif not taken.data.num_rows:
                self._moved(taken.split_id, taken.next_offset)
            else:
                self._open.append((taken, 0))
                return Polled(ArrowBatch(taken.data, taken.timestamps), taken.split_id, taken.side)
        return None

    def advance(self, records: int) -> None:
        fetched, emitted = self._open.popleft()
        assert fetched.data is not None
        assert fetched.offsets is not None
        emitted += records
        if emitted < fetched.data.num_rows:
            self._open.appendleft((fetched, emitted))
            offset = int(fetched.offsets[emitted - 1])
            if fetched.offsets[emitted] == offset:  # rows of one record: before and after an update, say
                first = int(np.searchsorted(fetched.offsets, offset))
                self._moved(fetched.split_id, [offset, emitted - first + (0 if first else fetched.left_out)])
            else:
                self._moved(fetched.split_id, offset + 1)
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

    def _pending_records(self) -> float:
        """Returns Flink's ``pendingRecords``: how many records follow the positions, as far as the broker has reported."""
        ends = {} if self._fetch is None else dict(self._fetch.ends)
        return float(sum(max(0, end - self._position(split_id)) for split_id, end in ends.items()))

    def _show(self, split: Split) -> None:
        """Registers Flink's gauge ``currentOffset``, from which an autoscaler learns the number of partitions."""
        topic, number = split.payload[:2]
        name = f"KafkaSourceReader.topic.{topic}.partition.{number}.currentOffset"
        if self._context.watch is not None:
            self._context.watch(name, lambda: float(self._position(split.split_id) - 1))

    def _position(self, split_id: str) -> int:
        """Returns the offset of the next record of a split."""
        state = self._states[split_id]
        return place_in(state.split.payload[2] if state.position is None else state.position)[0]

    def _moved(self, split_id: str, position: int | list[int]) -> None:
        """Sets the position of a split; see ``splits.place_in``."""
        self._states[split_id] = SplitState(self._states[split_id].split, position)

    def _commit(self, states: list[SplitState]) -> None:
        assert self._fetch is not None
        kafka = library()
        wanted = [
            kafka.TopicPartition(*s.split.payload[:2], place_in(s.position)[0])
            for s in states
            if s.position is not None
        ]
        if not wanted:
            return
        self._last_commit = wanted
        self._fetch.commit(wanted)

    def _settle(self) -> None:
        """Commits the last offsets at the end of all partitions, if the broker answers soon."""
        client, wanted = self._client, self._last_commit

        def settle() -> None:
            if wanted:
                with contextlib.suppress(library().KafkaException):
                    client.commit(offsets=wanted, asynchronous=False)
            client.close()

        thread = threading.Thread(target=settle, name="tidegate-kafka-close", daemon=True)
        thread.start()
        thread.join(SETTLE_LIMIT_S)


def _incoming(settings: ReaderSettings, shared: SharedClient) -> ConsumerPort:
    decoder = settings.decoder if isinstance(settings.decoder, KafkaRecordDeserializationSchema) else None
    with_keys = settings.poison is PoisonAction.SIDE_OUTPUT or callable(settings.tombstones)
    with_keys = with_keys or (decoder is not None and decoder.needs_keys)
    with_attributes = decoder is not None and decoder.needs_attributes
    if with_attributes or not goes_by_column(settings.properties):
        return MessageConsumer(shared, settings.servers, with_keys=with_keys, with_attributes=with_attributes)
    from tidegate.connectors.kafka.columnar.fetching import ColumnarConsumer

    isolation = settings.subscription.isolation
    return ColumnarConsumer(shared, settings.servers, settings.properties, isolation, with_keys=with_keys)


def _on_commit(error: Any, partitions: Sequence[Any]) -> None:
    if error is not None:
        _LOG.warning("could not commit the offsets of the group; the next checkpoint commits them: %s", error.str())
