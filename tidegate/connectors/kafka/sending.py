"""Messages handed to librdkafka in pieces, never more than its queue holds: a piece that half fails would reorder. Pieces
are small, because objects by the thousand keep Python's garbage collector busy.

Keys go to partitions as Java's clients send them (murmur2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.client import library, producer, typed_error
from tidegate.connectors.kafka.records import by_topic, messages
from tidegate.model.errors import ExternalError

QUEUE_MESSAGES = 500_000
PIECE = 500
DEFAULT_MESSAGE_BYTES = 1_000_000

OnDelivery = Callable[[Any, Any], None]


def make_producer(servers: str, properties: Mapping[str, str], **settings: Any) -> Any:
    defaults = {
        "linger.ms": "5",
        "batch.size": "1000000",
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": str(QUEUE_MESSAGES),
    }
    return producer(servers, {**defaults, **properties}, enable_idempotence=True, **settings)


def message_limit(properties: Mapping[str, str]) -> int:
    """The largest message in bytes that the client sends."""
    return int(properties.get("message.max.bytes", DEFAULT_MESSAGE_BYTES))


def send(client: Any, records: pa.RecordBatch | pa.Table, servers: str, on_delivery: OnDelivery | None = None) -> None:
    """In order; waits while the queue is full. Raises ``ExternalError`` for a message that cannot even be queued."""
    for topic, found in by_topic(records):
        for start in range(0, found.num_rows, PIECE):
            piece = messages(found.slice(start, PIECE))
            while len(client) + len(piece) > QUEUE_MESSAGES:
                client.poll(0.01)
            _send_piece(client, topic, piece, servers, on_delivery)
            client.poll(0)


def _send_piece(
    client: Any, topic: str, piece: list[dict[str, Any]], servers: str, on_delivery: OnDelivery | None
) -> None:
    kafka = library()
    try:
        if "timestamp" in piece[0]:  # the client's batch call takes none
            produce = client.produce
            for message in piece:
                produce(topic, on_delivery=on_delivery, **message)
            return
        queued = client.produce_batch(topic, piece, **({"on_delivery": on_delivery} if on_delivery else {}))
    except kafka.KafkaException as error:
        raise typed_error(error.args[0], f"send to topic {topic!r}", servers) from error
    except BufferError as error:
        raise ExternalError(f"Kafka at {servers} takes records for topic {topic!r} too slowly: {error}") from error
    if queued < len(piece):
        why = next((m["_error"] for m in piece if "_error" in m), None)
        raise ExternalError(f"{len(piece) - queued} records for topic {topic!r} were not taken by the client: {why}")
