"""The leaders of partitions: asks any broker, and again when a leader answers that it does not lead."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from tidegate.connectors.kafka.client import library, typed_error
from tidegate.connectors.kafka.columnar.connection import Connections, failure, is_soon
from tidegate.connectors.kafka.consumer_port import Place
from tidegate.connectors.kafka.topic_ids import UNKNOWN, shown

ASK_AGAIN_S = 0.1
"""Kafka's default of ``retry.backoff.ms``."""
UNKNOWN_LIMIT_S = 30.0
"""How many seconds a topic may be unknown: one that is being created, or whose broker is starting, is not known at once."""

_LOG = logging.getLogger(__name__)


class Leaders:
    """Keeps the leaders of partitions without blocking: ``look`` sends requests and takes answers. An unresponsive cluster is logged once."""

    def __init__(self, connections: Connections, servers: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._servers = servers
        self._clock = clock
        self._nodes: dict[Place, int] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._new_ids: dict[str, str] = {}
        self._doubted: set[Place] = set()
        self._future: Any = None
        self._learns_brokers = True
        self._ask_at = 0.0
        self._unknown_since: dict[str, float] = {}
        self._is_away = False

    def of(self, place: Place) -> int | None:
        """Returns the broker that leads a partition, or ``None`` while that is not known."""
        return None if place in self._doubted else self._nodes.get(place)

    def topic_id(self, topic: str) -> UUID | None:
        """Returns the id of a topic, or ``None`` where the broker does not provide it."""
        return self._topic_ids.get(topic)

    def topic_named(self, topic_id: UUID) -> str:
        """Returns the name of a topic by an id that was learned before."""
        return self._names[topic_id]

    def new_topic_ids(self) -> dict[str, str]:
        """Returns the ids of topics learned since the last call, in Kafka's text form."""
        found, self._new_ids = self._new_ids, {}
        return found

    def doubt(self, places: Iterable[Place]) -> None:
        """Marks leaders as outdated, since they refused or did not answer; asks again after a moment."""
        self._doubted.update(places)
        self._ask_at = max(self._ask_at, self._clock() + ASK_AGAIN_S)

    def look(self, places: Mapping[Place, Any]) -> None:
        """Sends and takes metadata requests for partitions whose leader is missing. Raises ``ExternalError`` for topics that do not exist or may not be
        read."""
        if self._future is not None:
            if not self._future.is_done:
                return
            self._take(self._future)
        missing = {topic for topic, number in places if self.of((topic, number)) is None}
        if not missing or self._clock() < self._ask_at:
            return
        if self._learns_brokers:
            self._future = self._connections.bootstrap()
        else:
            self._future = self._connections.metadata(sorted(missing), may_create=False)

    def has_answer(self) -> bool:
        """Returns whether an answer has arrived that ``look`` will take."""
        return self._future is not None and bool(self._future.is_done)

    def _take(self, future: Any) -> None:
        self._future = None
        if future.exception is not None:
            self._failed(future.exception)
            return
        if self._is_away:
            _LOG.info("Kafka at %s answers again", self._servers)
            self._is_away = False
        if self._learns_brokers:
            self._learns_brokers = False
            return
        self._connections.learn(future.value)
        for topic in future.value.topics:
            self._learn(topic)

    def _failed(self, error: BaseException) -> None:
        kafka_error = failure(error).args[0]
        if kafka_error.code() in (
            library().KafkaError.SASL_AUTHENTICATION_FAILED,
            library().KafkaError._UNSUPPORTED_FEATURE,
        ):
            raise typed_error(kafka_error, "connect", self._servers)
        if not self._is_away:
            _LOG.info("Kafka at %s does not answer, waiting for it: %s", self._servers, kafka_error.str())
        self._is_away = True
        self._learns_brokers = True  # those that it knows may be gone for good
        self._ask_at = self._clock() + ASK_AGAIN_S

    def _learn(self, topic: Any) -> None:
        if topic.error_code:
            self._refused(topic.name, topic.error_code)
            return
        self._unknown_since.pop(topic.name, None)
        if shown(topic.topic_id) != UNKNOWN and self._topic_ids.get(topic.name) != topic.topic_id:
            self._topic_ids[topic.name] = topic.topic_id
            self._names[topic.topic_id] = topic.name
            self._new_ids[topic.name] = shown(topic.topic_id)
        for one in topic.partitions:
            place = topic.name, one.partition_index
            if one.leader_id >= 0:
                self._nodes[place] = one.leader_id
                self._doubted.discard(place)
            else:
                self.doubt([place])

    def _refused(self, topic: str, code: int) -> None:
        since = self._unknown_since.setdefault(topic, self._clock())
        if not is_soon(code) or self._clock() - since > UNKNOWN_LIMIT_S:
            raise typed_error(library().KafkaError(code), f"read topic {topic!r}", self._servers)
        self._ask_at = self._clock() + ASK_AGAIN_S
