"""Markers of published epochs: one message for each epoch, written in the epoch's own transaction.

    topic ``tidegate-markers``   key <branch>/<subtask>/<checkpoint id>   value: when it was closed, or ``aborted``

So whether an epoch is visible and whether its marker is, is one and the same. The topic is made when it is missing, deletes
what is older than ``retention_ms``, and an epoch that was closed longer ago than that is refused at recovery, since it
cannot be known whether it was published.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from tidegate.connectors.kafka.client import (
    METADATA_TIMEOUT_S,
    TRANSACTION_TIMEOUT_KEY,
    admin,
    consumer,
    kafka_errors,
    library,
    producer,
)
from tidegate.model.errors import ExternalError

TOPIC = "tidegate-markers"
NOTES_TOPIC = "tidegate-transactions"
"""The topic in which sinks that keep transactions open (``open_transactions``) note commits, outside of transactions, so that no reader waits."""
PARTITIONS = 8
"""How many partitions the topic of markers has. Chosen, not measured: markers are few and small."""
RETENTION_MS = 7 * 24 * 3600 * 1000
"""How long markers are kept, in ms: Kafka's default retention of a week; an older epoch is refused at recovery."""
CLOCK_SKEW_MS = 3_600_000
"""The tolerated difference between the clocks of a broker and of this process, in ms."""
ABORTED = "aborted"
"""The value of a marker whose epoch was aborted by hand (``tidegate txn abort``): it counts as done, without its records."""
_NOTE_LIMIT_S = 30.0
"""The limit for writing a note, in seconds: Kafka's default of ``request.timeout.ms``."""
_WAIT_S = 90.0
"""How many seconds to wait for other transactions in the same partition, which the broker ends after their timeout."""


def key_of(branch: str, subtask: int, checkpoint_id: int) -> str:
    """Returns the key of an epoch's marker."""
    return f"{branch}/{subtask}/{checkpoint_id}"


def is_abort(value: str) -> bool:
    """Returns whether a marker says that its epoch was aborted."""
    return value == ABORTED


class Markers:
    """Reads and writes the topic of markers."""

    def __init__(self, servers: str, properties: dict[str, str], topic: str = TOPIC) -> None:
        self._servers = servers
        self._properties = properties
        self.topic = topic
        self._producer: Any = None

    def on(self, topic: str) -> Markers:
        """Returns the markers of another topic; for an empty name, these."""
        return self if topic in ("", self.topic) else Markers(self._servers, self._properties, topic)

    def ensure_topic(self) -> None:
        """Creates the topic when it is missing. Raises ``ExternalError``, ``Unreachable``."""
        kafka = library()
        from confluent_kafka.cimpl import NewTopic

        client = admin(self._servers, self._properties)
        with kafka_errors("read the metadata of the topic of markers", self._servers, client):
            topic_metadata = client.list_topics(self.topic, timeout=METADATA_TIMEOUT_S).topics[self.topic]
        if topic_metadata.error is None:
            return
        wanted = NewTopic(
            self.topic, PARTITIONS, config={"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
        )
        try:
            client.create_topics([wanted], operation_timeout=METADATA_TIMEOUT_S)[self.topic].result()
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise ExternalError(
                    f"cannot make the topic {self.topic!r} in which Kafka at {self._servers} keeps what was published: "
                    f"{error.args[0].str()}; make it yourself, with cleanup.policy=delete and retention.ms={RETENTION_MS}"
                ) from error

    def read(self, since_ms: int) -> dict[str, str]:
        """Returns keys and values of all committed markers written since then. Waits for open transactions that hold back reading.

        Raises ``ExternalError`` when that does not end in time."""
        return self._found(since_ms, None)

    def note(self, key: str, says: str) -> None:
        """Writes a note outside of transactions. Raises ``ExternalError`` when it may not be durable."""
        refused: list[Any] = []
        if self._producer is None:
            own = {k: v for k, v in self._properties.items() if k != TRANSACTION_TIMEOUT_KEY}
            self._producer = producer(self._servers, own, enable_idempotence=True, linger_ms="0")
        with kafka_errors(f"note what became of {key}", self._servers):
            self._producer.produce(
                self.topic, key=key, value=says, on_delivery=lambda error, message: refused.append(error)
            )
            left = self._producer.flush(_NOTE_LIMIT_S)
        if left or refused != [None]:
            self._producer = None
            why = "no answer" if left or not refused else refused[0].str()
            raise ExternalError(
                f"cannot record whether {key} was published in topic {self.topic!r} (Kafka at {self._servers}): {why}"
            )

    def find(self, keys: Collection[str], since_ms: int) -> dict[str, str]:
        """Returns the markers with these keys that exist, with their values. Raises ``ExternalError``."""
        found = self._found(since_ms, frozenset(keys))
        return {key: found[key] for key in keys if key in found}

    def _found(self, since_ms: int, wanted: frozenset[str] | None) -> dict[str, str]:
        """Reads markers. ``wanted``: stops when these are found; ``None``: reads all."""
        client = consumer(
            self._servers,
            self._properties,
            group_id="tidegate-markers",
            enable_auto_commit=False,
            isolation_level="read_committed",
            enable_partition_eof=False,
        )
        try:
            with kafka_errors("read what was published", self._servers):
                ends = self._assign(client, since_ms - CLOCK_SKEW_MS)
                return self._read_to(client, ends, wanted)
        finally:
            client.close()

    def _assign(self, client: Any, since_ms: int) -> dict[int, int]:
        """Assigns the partitions that have messages since then; returns where they end now, open transactions included."""
        kafka = library()
        open_ends = consumer(
            self._servers, self._properties, group_id="tidegate-markers", isolation_level="read_uncommitted"
        )
        try:
            numbers = open_ends.list_topics(self.topic, timeout=METADATA_TIMEOUT_S).topics[self.topic].partitions
            parts = [kafka.TopicPartition(self.topic, n, max(0, since_ms)) for n in numbers]
            starts = {p.partition: p.offset for p in open_ends.offsets_for_times(parts, timeout=METADATA_TIMEOUT_S)}
            ends = {}
            for part in parts:
                _, high = open_ends.get_watermark_offsets(part, timeout=METADATA_TIMEOUT_S)
                if 0 <= starts[part.partition] < high:
                    ends[part.partition] = high
        finally:
            open_ends.close()
        client.assign([kafka.TopicPartition(self.topic, n, starts[n]) for n in ends])
        return ends

    def _read_to(self, client: Any, ends: dict[int, int], wanted: frozenset[str] | None) -> dict[str, str]:
        kafka = library()
        found: dict[str, str] = {}
        gives_up_at = time.monotonic() + _WAIT_S
        while ends:
            for message in client.consume(10_000, 0.05):
                if message.error() is None and message.key() is not None:
                    found[message.key().decode()] = (message.value() or b"").decode()
            if wanted is not None and wanted <= found.keys():
                return found
            parts = client.position([kafka.TopicPartition(self.topic, n) for n in ends])
            for part in parts:
                if part.offset >= ends[part.partition]:
                    del ends[part.partition]
            if ends and time.monotonic() > gives_up_at:
                raise ExternalError(
                    f"partitions {sorted(ends)} of topic {self.topic!r} (Kafka at {self._servers}) could not be read to "
                    f"their end in {_WAIT_S:g} s: another transaction is open there"
                )
        return found
