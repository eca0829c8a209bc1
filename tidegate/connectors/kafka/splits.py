"""Partitions as splits, and the subtasks to which they belong.

A split is ``<topic>-<partition>``; its payload is ``[topic, partition, start, stop, topic id]``, stop ``None`` when it has no end. The id is empty
if the broker gave none, and missing in states of earlier versions.
Partition i of a topic belongs to subtask ``(hash(topic) + i) mod parallelism``: evenly for each topic, and the same
for every caller, at any time (Flink: ``KafkaSourceEnumerator.getSplitOwner``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xxhash

from tidegate.connectors.base import Split
from tidegate.connectors.kafka.client import partitions_of, topics_matching
from tidegate.connectors.kafka.topic_ids import UNKNOWN
from tidegate.model.errors import InvalidJob


def split_of(topic: str, partition: int, start: int, stop: int | None, topic_id: str = UNKNOWN) -> Split:
    """Returns the split of a partition, from offset ``start`` to ``stop`` (exclusive) or without an end."""
    return Split(f"{topic}-{partition}", [topic, partition, start, stop, topic_id])


def topic_id_of(split: Split) -> str:
    """Returns the id of the topic to which a split's offsets belong."""
    return str(split.payload[4]) if len(split.payload) > 4 else UNKNOWN


def with_topic_id(split: Split, topic_id: str) -> Split:
    """Returns the split with this topic id."""
    return Split(split.split_id, [*split.payload[:4], topic_id])


def place_in(position: Any) -> tuple[int, int]:
    """Parses a position to the record's offset, and how many of its rows were emitted. A position is an offset, or both as a list."""
    return (int(position[0]), int(position[1])) if isinstance(position, list | tuple) else (int(position), 0)


def owner_of(split: Split, parallelism: int) -> int:
    """Returns the index of the subtask that reads a partition."""
    topic, partition = split.payload[:2]
    return int((xxhash.xxh3_64_intdigest(topic.encode()) + partition) % parallelism)


@dataclass(frozen=True)
class KafkaSubscription:
    """The partitions that a source reads: of named topics, of topics by a pattern, or individual ones."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    named: tuple[tuple[str, int], ...] = ()
    isolation: str = "read_committed"
    """The isolation level: ``read_committed``, or ``read_uncommitted``."""

    def partitions(self, client: Any, servers: str) -> list[tuple[str, int]]:
        """Returns all partitions that exist now. Raises ``InvalidJob`` for a missing topic, ``ExternalError``."""
        if self.named:
            return sorted(self.named)
        topics = self.topics if self.pattern is None else topics_matching(client, self.pattern, servers)
        found = [(topic, number) for topic in topics for number in partitions_of(client, topic, servers)]
        if not found:
            raise InvalidJob(f"no topic of Kafka at {servers} matches the pattern {self.pattern!r}")
        return sorted(found)
