"""Sending of records by librdkafka, in order; waits while its queue is full.

Keys go to partitions as Java's clients send them (murmur2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.client import library, producer, typed_error
from tidegate.connectors.kafka.records import by_topic, messages
from tidegate.model.errors import ExternalError

QUEUE_MESSAGES = 500_000
PIECE = 500
"""How many messages are converted at a time, as for reading (docs/adr/0061): more objects keep the garbage collector busy."""
ROOM_LIMIT_S = 60.0
"""How many seconds the queue may stay full before sending fails."""
DEFAULT_MESSAGE_BYTES = 1_000_000
"""librdkafka's default of ``message.max.bytes``."""
DEFAULT_BATCH_BYTES = 1_000_000
"""librdkafka's default of ``batch.size``."""

_ANY_PARTITION = -1
"""librdkafka's `RD_KAFKA_PARTITION_UA`."""

OnDelivery = Callable[[Any, Any], None]


def make_producer(servers: str, properties: Mapping[str, str], **settings: Any) -> Any:
    """Creates an idempotent producer with tidegate's defaults, which the job's properties override."""
    defaults = {
        "linger.ms": "5",
        "batch.size": str(DEFAULT_BATCH_BYTES),
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": str(QUEUE_MESSAGES),
    }
    return producer(servers, {**defaults, **properties}, enable_idempotence=True, **settings)


def message_limit(properties: Mapping[str, str]) -> int:
    """Returns the largest message in bytes that the client sends."""
    return int(properties.get("message.max.bytes", DEFAULT_MESSAGE_BYTES))


def send(client: Any, records: pa.RecordBatch, servers: str, on_delivery: OnDelivery | None = None) -> None:
    """Sends records in order; waits while the queue is full. Raises ``ExternalError`` for a message that cannot even be queued."""
    kafka = library()
    for topic, found in by_topic(records):
        try:
            for start in range(0, found.num_rows, PIECE):
                _send_piece(client, topic, found.slice(start, PIECE), on_delivery)
                client.poll(0)
        except kafka.KafkaException as error:
            raise typed_error(error.args[0], f"send to topic {topic!r}", servers) from error
        except BufferError as error:
            raise ExternalError(f"Kafka at {servers} takes records for topic {topic!r} too slowly: {error}") from error


def _send_piece(client: Any, topic: str, piece: pa.RecordBatch, on_delivery: OnDelivery | None) -> None:
    """Sends records with one call each, arguments by position: the client's call for many takes no timestamps, and costs the same."""
    produce = client.produce
    for value, key, stamp, chosen, headers in messages(piece):
        more = (stamp,) if headers is None else (stamp, headers)
        partition = _ANY_PARTITION if chosen is None else chosen
        try:
            produce(topic, value, key, partition, on_delivery, None, *more)
        except BufferError:
            _wait_for_room(client)
            produce(topic, value, key, partition, on_delivery, None, *more)


def _wait_for_room(client: Any) -> None:
    """Waits until half of the queue is empty, or until nothing moves for ``ROOM_LIMIT_S``."""
    goal, gives_up_at = len(client) // 2, time.monotonic() + ROOM_LIMIT_S
    while len(client) > goal and time.monotonic() < gives_up_at:
        client.poll(0.05)
