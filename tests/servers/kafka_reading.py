"""What readers of a topic see: everything committed, by partition, in order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

_LIMIT_S = 120


@dataclass(frozen=True)
class Message:
    partition: int
    offset: int
    key: str | None
    value: str
    """Empty for a tombstone."""


def read_topic(servers: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """All that is there now: what a commit that the broker has accepted still holds back is waited for.

    Raises ``AssertionError`` when a transaction stays open."""
    found = map(_message, _read(servers, topic, isolation))
    return sorted(found, key=lambda message: (message.partition, message.offset))


def read_values(servers: str, topic: str) -> list[bytes]:
    """The bytes of the values that are committed now, as they lie in each partition."""
    found = sorted(_read(servers, topic, "read_committed"), key=lambda one: (one.partition(), one.offset()))
    return [one.value() for one in found]


def _read(servers: str, topic: str, isolation: str) -> list[Any]:
    import confluent_kafka as kafka

    settings = {
        "bootstrap.servers": servers,
        "group.id": "tests",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "log_level": 0,
    }
    client = kafka.Consumer(settings)
    try:
        ends = _ends(servers, topic)
        client.assign([kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING) for number in ends])
        found: list[Any] = []
        deadline = time.monotonic() + _LIMIT_S
        while ends:
            assert time.monotonic() < deadline, f"a transaction is open in {topic}: {ends}, read {len(found)}"
            found += [message for message in client.consume(10_000, 0.05) if message.error() is None]
            for part in client.position([kafka.TopicPartition(topic, number) for number in ends]):
                if part.offset >= ends[part.partition]:
                    del ends[part.partition]
        return found
    finally:
        client.close()


def _ends(servers: str, topic: str) -> dict[int, int]:
    """Where the partitions that hold anything end, open transactions included."""
    import confluent_kafka as kafka

    client = kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "tests", "isolation.level": "read_uncommitted", "log_level": 0}
    )
    try:
        ends: dict[int, int] = {}
        for number in client.list_topics(topic, timeout=30).topics[topic].partitions:
            low, high = client.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=30)
            if high > low:
                ends[number] = high
        return ends
    finally:
        client.close()


def _message(message: Any) -> Message:
    key = message.key()
    return Message(
        message.partition(), message.offset(), None if key is None else key.decode(), (message.value() or b"").decode()
    )


def read_now(servers: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """What such a reader gets at this moment; transactions that are open are not waited for."""
    import confluent_kafka as kafka

    settings = {"bootstrap.servers": servers, "group.id": "tests", "enable.auto.commit": False, "log_level": 0}
    client = kafka.Consumer({**settings, "isolation.level": isolation})
    try:
        parts = client.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {}
        for number in parts:
            _, end = client.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=30)
            if end > 0:
                ends[number] = end
        client.assign([kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING) for number in ends])
        found: list[Message] = []
        deadline = time.monotonic() + _LIMIT_S
        while ends:
            assert time.monotonic() < deadline, f"{topic} could not be read to {ends}, read {len(found)}"
            found += [_message(message) for message in client.consume(10_000, 0.05) if message.error() is None]
            for part in client.position([kafka.TopicPartition(topic, number) for number in ends]):
                if part.offset >= ends[part.partition]:
                    del ends[part.partition]
        return sorted(found, key=lambda message: (message.partition, message.offset))
    finally:
        client.close()
