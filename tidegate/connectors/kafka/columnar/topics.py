"""The partitions of topics and their leaders, for producers; and the partition of each record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.columnar.connection import Connections, failure, is_soon, refusal
from tidegate.connectors.kafka.columnar.partitioning import partitions
from tidegate.connectors.kafka.record_batches import cut

ASK_AGAIN_S = 0.1
"""Kafka's default of ``retry.backoff.ms``."""
MAX_AGE_S = 300.0
"""The age in seconds after which metadata is refreshed, so that added partitions are seen."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The leader of each partition of a topic, and when it was learned."""

    leaders: list[int]
    """Leader node id by partition; -1 if there is none."""
    learned_at: float


class Topics:
    """Caches the leaders of topics' partitions, and asks again when they may have changed."""

    def __init__(self, connections: Connections, clock: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._clock = clock
        self._known: dict[str, Topic] = {}

    def leaders(self, topic: str, limit_s: float) -> list[int]:
        """Returns the leader by partition. Waits for missing leaders and for a topic that is being created. Raises ``KafkaException``."""
        known = self._known.get(topic)
        if known is None or self._clock() - known.learned_at > MAX_AGE_S:
            self._known[topic] = known = self._learn(topic, limit_s)
        return known.leaders

    def _learn(self, topic: str, limit_s: float) -> Topic:
        gives_up_at = self._clock() + limit_s
        last = 0
        while True:
            code, leaders = self._requested(topic, max(gives_up_at - self._clock(), 0.0), last)
            if not code:
                return Topic(leaders, self._clock())
            if not is_soon(code) or self._clock() >= gives_up_at:
                raise refusal(code, abort=True)
            last = code
            self._connections.wait(lambda: False, ASK_AGAIN_S)

    def _requested(self, topic: str, limit_s: float, last: int) -> tuple[int, list[int]]:
        """Requests the metadata of a topic; returns an error code and the leaders. ``last``: the previous error code, which is raised when there is no
        answer in time."""
        future = self._connections.metadata([topic], may_create=True)
        if not self._connections.wait(lambda: bool(future.is_done), limit_s):
            if last:
                raise refusal(last, abort=True)
            raise failure(TimeoutError("the broker's response does not mention the topic"), abort=True)
        if future.exception is not None:
            raise failure(future.exception, abort=True)
        self._connections.learn(future.value)
        (topic_metadata,) = future.value.topics
        if topic_metadata.error_code:
            return int(topic_metadata.error_code), []
        leaders = [-1] * len(topic_metadata.partitions)
        for one in topic_metadata.partitions:
            leaders[one.partition_index] = one.leader_id
        return (library().KafkaError.LEADER_NOT_AVAILABLE if -1 in leaders else 0), leaders


def pieces(records: pa.RecordBatch, count: int, first: int, limit_bytes: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields (partition, records) in order, each for one record batch. Records with a key go where Java's client sends them; those without fill one
    partition after the other, from ``first`` on."""
    keys = records.column("key")
    if count == 1 or keys.null_count == len(keys):
        yield from _cut(records, None if count > 1 else 0, count, first, limit_bytes)
        return
    places = partitions(keys, count, count)  # those without a key as a partition of their own, behind the last
    order = np.argsort(places.astype(np.int16) if count < 1 << 15 else places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=count + 1))
    begin = 0
    for partition, end in enumerate(ends):
        if end > begin:
            found = records.take(pa.array(order[begin:end]))
            yield from _cut(found, partition if partition < count else None, count, first, limit_bytes)
        begin = int(end)


def _cut(
    records: pa.RecordBatch, partition: int | None, count: int, first: int, limit_bytes: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for start, length in cut(records.column("key"), records.column("value"), limit_bytes):
        yield (first % count if partition is None else partition), records.slice(start, length)
        first += 1
