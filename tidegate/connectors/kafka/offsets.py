"""Offsets initialisers: where reading begins and ends, resolved to numbers once, in the client.

Names follow PyFlink's ``KafkaOffsetsInitializer``. A number that is fixed when the job is submitted means the same after
every restart, also before the first checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from tidegate.connectors.kafka.client import METADATA_TIMEOUT_S, answer, library
from tidegate.model.errors import InvalidJob
from tidegate.model.whole_numbers import whole_number

TopicPartition = tuple[str, int]


class KafkaOffsetResetStrategy(Enum):
    """The replacement for an offset that the group never committed, or that the partition does not have."""

    NONE = "none"
    LATEST = "latest"
    EARLIEST = "earliest"


class _Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific"


@dataclass(frozen=True)
class KafkaTopicPartition:
    """A partition of a topic, as the key of specific offsets."""

    topic: str
    partition: int


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Starting or stopping offsets of a source, made by its static methods."""

    kind: _Kind
    timestamp_ms: int = 0
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    specific: tuple[tuple[TopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Starts at the first record that each partition still holds."""
        return KafkaOffsetsInitializer(_Kind.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Starts after the last record that each partition holds when the job is submitted."""
        return KafkaOffsetsInitializer(_Kind.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Starts at the group's committed offsets; the strategy says what to do where there is none, or where the partition does not have it (NONE:
        refuse)."""
        return KafkaOffsetsInitializer(_Kind.COMMITTED, reset=offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Starts at the first record with this timestamp, in ms since 1970, or a later one; at the partition's end when there is none."""
        ms = whole_number(timestamp, "KafkaOffsetsInitializer.timestamp")
        return KafkaOffsetsInitializer(_Kind.TIMESTAMP, timestamp_ms=ms)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Starts at the given offset of each partition; others start at the group's committed offsets. The strategy says what to do where there is
        none, and where a partition does not have the offset (Flink: ``SpecifiedOffsetsInitializer``)."""
        named = tuple(
            ((p.topic, p.partition), whole_number(offset, f"KafkaOffsetsInitializer.offsets: the offset of {p}"))
            for p, offset in offsets.items()
        )
        return KafkaOffsetsInitializer(_Kind.SPECIFIC, reset=offset_reset_strategy, specific=named)

    def resolve(self, client: Any, partitions: Sequence[TopicPartition], servers: str) -> dict[TopicPartition, int]:
        """Returns the offset for each partition. ``client`` is a consumer. Raises ``InvalidJob``, ``ExternalError``."""
        match self.kind:
            case _Kind.EARLIEST:
                return {p: _watermarks(client, p, servers)[0] for p in partitions}
            case _Kind.LATEST:
                return {p: _watermarks(client, p, servers)[1] for p in partitions}
            case _Kind.TIMESTAMP:
                return self._by_time(client, partitions, servers)
            case _Kind.COMMITTED:
                return self._committed(client, partitions, servers)
            case _Kind.SPECIFIC:
                named = {place: offset for place, offset in self.specific if place in partitions}
                others = [place for place in partitions if place not in named]
                return named | (self._committed(client, others, servers) if others else {})

    def may_be_out_of_range(self) -> bool:
        """Returns whether it may resolve to offsets that partitions do not have."""
        return self.kind in (_Kind.SPECIFIC, _Kind.COMMITTED)

    def in_range(self, client: Any, offsets: Mapping[TopicPartition, int], servers: str) -> dict[TopicPartition, int]:
        """Replaces offsets that partitions do not have, by the strategy. ``client``: must see records of open transactions, which are in the range.
        Raises ``InvalidJob`` for the strategy NONE, ``ExternalError``."""
        found = {}
        for place, offset in offsets.items():
            low, high = _watermarks(client, place, servers)
            found[place] = offset if low <= offset <= high else self._reset_to(place, offset, low, high)
        return found

    def _reset_to(self, place: TopicPartition, offset: int, low: int, high: int) -> int:
        if self.reset is KafkaOffsetResetStrategy.NONE:
            whose = "the offset that the group committed" if self.kind is _Kind.COMMITTED else "the offset to begin at"
            raise InvalidJob(
                f"{whose}, {offset}, is not in partition {place[1]} of topic {place[0]!r}, which has {low} up to {high}; give another, or a "
                "KafkaOffsetResetStrategy"
            )
        return low if self.reset is KafkaOffsetResetStrategy.EARLIEST else high

    def _by_time(self, client: Any, partitions: Sequence[TopicPartition], servers: str) -> dict[TopicPartition, int]:
        kafka = library()
        partitions_at = [kafka.TopicPartition(topic, number, self.timestamp_ms) for topic, number in partitions]
        ask = partial(client.offsets_for_times, partitions_at, timeout=METADATA_TIMEOUT_S)
        offsets = answer(ask, "look up offsets by time", servers)
        found = {(t.topic, t.partition): t.offset for t in offsets}
        return {p: found[p] if found[p] >= 0 else _watermarks(client, p, servers)[1] for p in partitions}

    def _committed(self, client: Any, partitions: Sequence[TopicPartition], servers: str) -> dict[TopicPartition, int]:
        kafka = library()
        wanted = [kafka.TopicPartition(topic, number) for topic, number in partitions]
        ask = partial(client.committed, wanted, timeout=METADATA_TIMEOUT_S)
        offsets = answer(ask, "read the offsets that the group committed", servers)
        found = {(t.topic, t.partition): t.offset for t in offsets}
        return {p: found[p] if found[p] >= 0 else self._reset(client, p, servers) for p in partitions}

    def _reset(self, client: Any, partition: TopicPartition, servers: str) -> int:
        if self.reset is KafkaOffsetResetStrategy.NONE:
            what = (
                "the group committed no offset for"
                if self.kind is _Kind.COMMITTED
                else "no offset is given, and the group committed none, for"
            )
            raise InvalidJob(
                f"{what} partition {partition[1]} of topic {partition[0]!r}; give a KafkaOffsetResetStrategy"
            )
        low, high = _watermarks(client, partition, servers)
        return low if self.reset is KafkaOffsetResetStrategy.EARLIEST else high


def _watermarks(client: Any, partition: TopicPartition, servers: str) -> tuple[int, int]:
    topic, number = partition
    ask = partial(client.get_watermark_offsets, library().TopicPartition(topic, number), timeout=METADATA_TIMEOUT_S)
    low, high = answer(ask, f"read the offsets of partition {number} of topic {topic!r}", servers)
    return int(low), int(high)
