"""The fetching thread of the Kafka source: polls, decodes whole batches, discovers partitions.

Incoming ─▶ columns of values, offsets, timestamps by partition ─▶ Decoding ─▶ Fetched
partitions that are added ─▶ read from their beginning
as part of a hybrid source, every discovery interval: partitions of the topics that are new, and that belong to this subtask
offsets of confirmed checkpoints ─▶ committed by the thread that finds the client free: the subtask's thread never waits for it
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tidegate.connectors.base import ReaderContext, Split, SplitState
from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.consumer_port import FETCH_WAIT_S, ConsumerPort, Place
from tidegate.connectors.kafka.decoding import Decoding, Fetched, ReaderSettings
from tidegate.connectors.kafka.partition_records import PartitionRecords
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.connectors.kafka.splits import owner_of, place_in, split_of, topic_id_of
from tidegate.connectors.kafka.topic_ids import UNKNOWN, topic_ids, topic_was_remade
from tidegate.model.errors import CorruptData, TidegateError

ASK_IDS_AGAIN_S = 30.0
"""The interval in seconds at which topic ids are requested. Chosen, not measured: librdkafka does not report them with records."""
LOOK_AGAIN_S = 30.0
"""The pause in seconds after a failed discovery; less if the next one is due earlier."""

_LOG = logging.getLogger(__name__)


class Fetch:
    """The work of the fetcher's thread, which may block."""

    def __init__(
        self,
        settings: ReaderSettings,
        context: ReaderContext,
        shared: SharedClient,
        incoming: ConsumerPort,
        todo: list[SplitState],
        known: set[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._context = context
        self._shared = shared
        self._incoming = incoming
        self._decoding = Decoding(settings)
        self._clock = clock
        self._known = known
        self._added: queue.SimpleQueue[Split] = queue.SimpleQueue()
        self._ends: dict[str, int | None] = {}
        self._at: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        """By split: how many rows of the first record were emitted before the checkpoint that was restored."""
        self._topic_ids: dict[str, str] = {}
        """By split: the id of the topic whose offsets they are."""
        self._ask_ids_at = clock()
        self.ends: dict[str, int] = {}
        """The offsets after the last records of partitions. The subtask's thread reads it."""
        for state in todo:
            self._note(state.split, state.position)
        self._look_at = clock() + (settings.discovery_s or 0)

    def run(self) -> Iterator[Fetched]:
        """Yields decoded batches until all partitions are read to their ends; closing it closes the consumer."""
        try:
            self._incoming.add({_place(split_id): self._at[split_id] for split_id in self._ends})
            yield from self._finished([s for s in self._ends if self._is_at_end(s)])
            while self._ends or self._settings.discovery_s is not None or self._settings.is_given_splits:
                self._take_added()
                yield from self._discover()
                yield from self._ask_topic_ids()
                yield from self._take()
        except GeneratorExit:  # the reader was closed; at the end of all partitions its client still commits offsets
            with self._shared.used() as client:
                client.close()
            raise
        finally:
            self._incoming.close()

    def commit(self, offsets: list[Any]) -> None:
        """Passes offsets of a confirmed checkpoint on; called by the subtask's thread, never waits."""
        self._shared.commit(offsets)

    def add(self, split: Split) -> None:
        """Adds a partition to read; called by the subtask's thread."""
        self._added.put(split)

    def _take_added(self) -> None:
        added: dict[Place, int] = {}
        while not self._added.empty():
            split = self._added.get()
            self._note(split, None)
            added[_place(split.split_id)] = self._at[split.split_id]
        if added:
            self._incoming.add(added)

    def _note(self, split: Split, position: Any) -> None:
        _, _, start, stop = split.payload[:4]
        self._topic_ids[split.split_id] = topic_id_of(split)
        self._ends[split.split_id] = stop
        self._at[split.split_id], self._left_out[split.split_id] = place_in(start if position is None else position)

    def _take(self) -> Iterator[Fetched]:
        if not self._ends:
            threading.Event().wait(FETCH_WAIT_S)  # nothing to read, but partitions may still appear
            return
        try:
            arrived = self._incoming.take()
        except CorruptData:
            yield from self._checked(self._current_topic_ids())  # another topic has other offsets
            raise
        yield from self._checked(arrived.topic_ids)
        self.ends |= {_split_id(place): end for place, end in arrived.ends.items()}
        for taken in arrived.records:
            yield from self._records(taken)
        for place, offset in arrived.reached:
            split_id = _split_id(place)
            if split_id in self._ends:
                self._at[split_id] = max(self._at[split_id], offset)
        yield from self._finished([s for s in self._ends if self._is_at_end(s)])

    def _ask_topic_ids(self) -> Iterator[Fetched]:
        """Requests the ids of topics, where the consumer does not report them with records."""
        if self._incoming.tells_topic_ids or not self._ends or self._clock() < self._ask_ids_at:
            return
        self._ask_ids_at = self._clock() + ASK_IDS_AGAIN_S
        yield from self._checked(self._current_topic_ids())

    def _current_topic_ids(self) -> dict[str, str]:
        topics = sorted({_place(split_id)[0] for split_id in self._ends})
        try:
            return topic_ids(self._settings.servers, self._settings.properties, topics)
        except TidegateError as error:
            _LOG.info("could not read the ids of topics: %s", error.message)
            return {}

    def _checked(self, found: Mapping[str, str]) -> Iterator[Fetched]:
        """Sets the topic ids of splits that have none. Raises ``CorruptData`` for a topic that was created again."""
        for split_id in self._ends if found else ():
            topic, number = _place(split_id)
            known, now = self._topic_ids[split_id], found.get(topic, UNKNOWN)
            if now != UNKNOWN and known == UNKNOWN:
                self._topic_ids[split_id] = now
                yield Fetched(split_id, topic_id=now)
            elif now not in (UNKNOWN, known):
                raise topic_was_remade(topic, number, self._at[split_id], known, now)

    def _records(self, taken: PartitionRecords) -> Iterator[Fetched]:
        split_id = _split_id((taken.topic, taken.partition))
        if split_id not in self._ends:
            return
        stop, begin = self._ends[split_id], self._at[split_id]
        last = int(taken.offsets[-1])
        if stop is not None and last >= stop:
            taken = taken.part(0, int(np.searchsorted(taken.offsets, stop)))
            self._at[split_id] = stop
        else:
            self._at[split_id] = last + 1
        first = self._left_out.pop(split_id, 0)
        for found in self._decoding.decoded(split_id, taken):
            yield _without_first(found, begin, first) if first else found
            first = 0

    def _is_at_end(self, split_id: str) -> bool:
        stop = self._ends[split_id]
        return stop is not None and self._at[split_id] >= stop

    def _finished(self, split_ids: list[str]) -> Iterator[Fetched]:
        if not split_ids:
            return
        for split_id in split_ids:
            del self._ends[split_id]
            yield Fetched(split_id)
        self._incoming.remove([_place(split_id) for split_id in split_ids])

    def _discover(self) -> Iterator[Fetched]:
        every = self._settings.discovery_s
        if every is None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + every
        added: dict[Place, int] = {}
        try:
            with self._shared.used() as client:
                partitions = list(self._settings.subscription.partitions(client, self._settings.servers))
        except (
            TidegateError
        ) as error:  # what is known is read on; new partitions are read from their beginning, whenever found
            self._look_at = self._clock() + min(every, LOOK_AGAIN_S)
            _LOG.warning("could not look for new partitions (this is tried again): %s", error.message)
            return
        for topic, number in partitions:
            split = split_of(topic, number, library().OFFSET_BEGINNING, None)
            if split.split_id in self._known:
                continue
            self._known.add(split.split_id)
            if owner_of(split, self._context.parallelism) == self._context.subtask_index:
                self._note(split, None)
                added[topic, number] = library().OFFSET_BEGINNING
                yield Fetched(split.split_id, found=split)
        if added:
            self._incoming.add(added)


def _without_first(found: Fetched, offset: int, rows: int) -> Fetched:
    """Drops the first rows of the record at an offset, if the batch begins with that record."""
    if found.data is None or found.offsets is None or not len(found.offsets) or found.offsets[0] != offset:
        return found
    stamps = None if found.timestamps is None else found.timestamps.slice(rows)
    return replace(found, data=found.data.slice(rows), offsets=found.offsets[rows:], timestamps=stamps, left_out=rows)


def _place(split_id: str) -> Place:
    topic, _, number = split_id.rpartition("-")
    return topic, int(number)


def _split_id(place: Place) -> str:
    topic, number = place
    return f"{topic}-{number}"
