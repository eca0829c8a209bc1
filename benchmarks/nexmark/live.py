"""Nexmark's events as messages that come at a fixed rate, and results as they came back: topics whose broker notes when it took a message.

Event time goes on as the clock does, whatever the rate: event n has the time n / rate behind the first one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark import events
from benchmarks.nexmark.causes import partition_of
from tests.servers.kafka_broker import KafkaBroker

PARTITIONS = 2
TICK_S = 0.002
"""Events that are due are sent that often."""
_ENCODED_TOGETHER = 50_000


@dataclass(frozen=True)
class Stream:
    """Events and their messages, by number."""

    table: pa.Table
    messages: list[bytes]
    rate: int

    def first(self, seconds: int) -> Stream:
        """What comes within so many seconds."""
        count = seconds * self.rate
        return Stream(self.table.slice(0, count), self.messages[:count], self.rate)


def make_stream(count: int, rate: int) -> Stream:
    """The first ``count`` events, at so many a second of event time."""
    numbers = np.arange(count)
    table = at_rate(events.table(numbers), rate)
    messages = [message for first in range(0, count, _ENCODED_TOGETHER) for message in _encoded(table, first)]
    return Stream(table, messages, rate)


def at_rate(table: pa.Table, rate: int) -> pa.Table:
    """Events numbered from 0 with the times of another rate; an auction is open as long as it was."""
    before = table["dateTime"].cast(pa.int64()).to_numpy()
    now = events.BASE_MS + np.arange(len(table)) * 1000 // rate
    expires = pc.add(table["a_expires"].cast(pa.int64()), pa.array(now - before)).cast(pa.timestamp("ms"))
    for name, column in (("dateTime", pa.array(now).cast(pa.timestamp("ms"))), ("a_expires", expires)):
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def _encoded(table: pa.Table, first: int) -> Iterator[bytes]:
    piece = table.slice(first, _ENCODED_TOGETHER)
    for place, field in enumerate(piece.schema):
        if pa.types.is_timestamp(field.type):
            piece = piece.set_column(place, field.name, pc.strftime(piece[field.name], "%Y-%m-%d %H:%M:%S"))
    for row in piece.to_pylist():
        yield json.dumps({name: value for name, value in row.items() if value is not None}).encode()


def create_topic(broker: KafkaBroker, topic: str) -> None:
    broker.create_topic(topic, PARTITIONS, message_timestamp_type="LogAppendTime")


def produce(broker: KafkaBroker, topic: str, stream: Stream) -> float:
    """Sends all events, each at its time, and returns how late the latest one was, in seconds."""
    from confluent_kafka import Producer

    client: Any = Producer(
        {
            "bootstrap.servers": broker.servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    places = partition_of(np.arange(len(stream.messages)), PARTITIONS).tolist()
    begun, sent, latest = time.monotonic(), 0, 0.0
    while sent < len(stream.messages):
        due = min(len(stream.messages), int((time.monotonic() - begun) * stream.rate) + 1)
        for number in range(sent, due):
            client.produce(topic, stream.messages[number], partition=places[number])
        latest = max(latest, time.monotonic() - begun - sent / stream.rate)
        sent = due
        client.poll(0)
        time.sleep(TICK_S)
    assert client.flush(60) == 0
    return latest


def arrivals_ms(broker: KafkaBroker, topic: str, count: int) -> npt.NDArray[np.float64]:
    """When the broker took each event, by number, in ms since the epoch."""
    found = np.zeros(count)
    of = partition_of(np.arange(count), PARTITIONS)
    stamps: list[list[float]] = [[] for _ in range(PARTITIONS)]
    for message in _read(broker, topic):
        stamps[message.partition()].append(message.timestamp()[1])
    for place, times in enumerate(stamps):
        found[of == place] = times
    return found


def results(broker: KafkaBroker, topic: str) -> list[tuple[dict[str, Any], float]]:
    """Rows, each with the time at which the broker took it, in its order; ms since the epoch."""
    rows = [(json.loads(message.value()), float(message.timestamp()[1])) for message in _read(broker, topic)]
    return sorted(rows, key=lambda row: row[1])


def count(broker: KafkaBroker, topic: str) -> int:
    """How many messages a topic has."""
    return sum(_ends(broker, topic).values())


def _ends(broker: KafkaBroker, topic: str) -> dict[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench", "log_level": 0})
    try:
        return {n: client.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in range(PARTITIONS)}
    finally:
        client.close()


def _read(broker: KafkaBroker, topic: str) -> Iterator[Any]:
    """All messages that a topic has now, those of a partition in their order."""
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench", "log_level": 0})
    left = sum(_ends(broker, topic).values())
    try:
        client.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        while left:
            found = [message for message in client.consume(min(left, 10_000), 1.0) if not message.error()]
            left -= len(found)
            yield from found
    finally:
        client.close()
