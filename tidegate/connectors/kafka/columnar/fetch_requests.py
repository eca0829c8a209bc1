"""Fetch requests and the content of their answers, without any I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from tidegate.connectors.kafka.columnar.client_properties import number
from tidegate.connectors.kafka.consumer_port import Place
from tidegate.connectors.kafka.record_batches import Aborted

FETCH_WAIT_MS = 100
"""How long a broker waits for records, in ms: the longest wait of other tasks of the fetching thread."""
PARTITION_BYTES = 2 << 20
"""The most bytes of a partition in an answer: twice Kafka's ``max.partition.fetch.bytes``; chosen, not measured."""
FETCH_BYTES = 8 << 20
"""The most bytes of an answer. As much is read ahead of each leader, and as much again is at a broker or in transit."""

_OLDEST_WITH_ISOLATION, _NEWEST_WITH_NAMES, _OLDEST_WITH_IDS = 4, 12, 13
_NO_SESSION = {"session_id": 0, "session_epoch": -1}
_BATCH = struct.Struct(">qi4xbi2xi")
"""The head of a record batch: base offset, length behind itself, (epoch of the leader), magic, CRC, (attributes), last offset's delta."""
_LENGTH_BEGINS_AT = 12
"""How many bytes of a record batch its length does not count: base offset and length."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of a fetch: how much a broker may answer, and how long it may wait for more (bytes, milliseconds)."""

    min_bytes: int
    wait_ms: int
    max_bytes: int
    partition_bytes: int

    @staticmethod
    def of(properties: Mapping[str, str]) -> FetchLimits:
        """Reads the limits from a consumer's properties."""
        return FetchLimits(
            number(properties, 1, "fetch.min.bytes"),
            min(number(properties, FETCH_WAIT_MS, "fetch.wait.max.ms"), FETCH_WAIT_MS),
            number(properties, FETCH_BYTES, "fetch.max.bytes"),
            number(properties, PARTITION_BYTES, "max.partition.fetch.bytes", "fetch.message.max.bytes"),
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer for one partition. ``content`` holds whole record batches; the last may be cut off."""

    place: Place
    error_code: int
    content: bytes
    aborted: Sequence[Aborted]
    end: int = -1
    """The high watermark: the offset after the last record that is on all replicas."""


def fetch_request(
    positions: Mapping[Place, int],
    limits: FetchLimits,
    topic_id: Callable[[str], UUID | None],
    *,
    committed_only: bool,
) -> Any:
    """Makes a fetch request in the order of ``positions``, in which a broker fills its answer. Topics are named by their ids where all are known, so
    that another topic of the same name does not answer."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), offset in positions.items():
        wanted = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=limits.partition_bytes,
        )
        topics.setdefault(topic, []).append(wanted)
    ids = {topic: topic_id(topic) for topic in topics}
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=limits.wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(committed_only),
        **_NO_SESSION,
        topics=[
            FetchRequest.FetchTopic(topic=topic, topic_id=ids[topic], partitions=wanted)
            for topic, wanted in topics.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_OLDEST_WITH_ISOLATION,
        max_version=_NEWEST_WITH_NAMES if None in ids.values() else _OLDEST_WITH_IDS,
    )


def answered(response: Any, named: Callable[[UUID], str]) -> list[Answered]:
    """Splits an answer by partition; an error of the whole answer becomes one of each partition. ``named``: returns the topic with an id."""
    return [
        Answered(
            (topic.topic or named(topic.topic_id), one.partition_index),
            one.error_code or response.error_code or 0,
            one.records or b"",
            [Aborted(a.producer_id, a.first_offset) for a in one.aborted_transactions or ()],
            one.high_watermark,
        )
        for topic in response.responses
        for one in topic.partitions
    ]


def end_of(content: bytes, from_offset: int) -> int | None:
    """Returns the offset after the last whole record batch, from the batches' heads alone; ``None`` when one has an older format (magic 0 or 1), which
    shares only the place of the length."""
    at, size = 0, len(content)
    while at + _BATCH.size <= size:
        base, length, magic, _, last_delta = _BATCH.unpack_from(content, at)
        if magic < 2:
            return None
        at += _LENGTH_BEGINS_AT + length
        if at > size:
            break
        from_offset = max(from_offset, base + last_delta + 1)
    return from_offset


def offsets_request(wanted: Mapping[Place, int], *, committed_only: bool) -> Any:
    """Makes a request for logical offsets: -2 is the beginning of a partition, -1 its end."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[str, list[Any]] = {}
    for (topic, partition), logical in wanted.items():
        one = kind.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=logical)
        topics.setdefault(topic, []).append(one)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=[kind(name=topic, partitions=found) for topic, found in topics.items()],
        min_version=2,
        max_version=7,
    )
