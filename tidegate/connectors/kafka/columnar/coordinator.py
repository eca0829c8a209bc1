"""The client of the transaction coordinator: gives a transactional id to a producer, adds partitions to a transaction, ends it.

The requests are of the transaction protocol's first version, in which an epoch changes by ``init`` alone. A coordinator that is
coming up, or busy with the last transaction's end (common right after a commit), refuses: it is asked again, as Java's client
does. An answer that is lost is asked for again by ``init``, which may be repeated whatever became of it, and where the caller says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.columnar.connection import Connections, refusal
from tidegate.connectors.kafka.consumer_port import Place
from tidegate.connectors.kafka.record_batches import Producer

ASK_AGAIN_S = 0.005
"""The pause before asking again, in seconds; a commit's end takes some milliseconds in the broker, and Java's client asks every 20 ms."""
CONNECT_AGAIN_S = 0.1
"""The pause before connecting again, in seconds: Kafka's default of ``retry.backoff.ms``."""


class PartitionRefused(Exception):
    """A partition cannot be part of the transaction; ``error`` is a ``KafkaException``."""

    def __init__(self, topic: str, error: Exception) -> None:
        super().__init__(topic)
        self.topic = topic
        self.error = error


class Coordinator:
    """Sends the requests of one transactional id to its coordinator."""

    def __init__(
        self,
        connections: Connections,
        transactional_id: str,
        timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates the client. ``timeout_ms``: after which the broker aborts a transaction by itself."""
        self._connections = connections
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._node: Any = None

    def init(self, limit_s: float) -> Producer:
        """Takes the transactional id: its epoch is raised, which fences its former producer and aborts that one's transaction. Raises ``KafkaException``."""

        def request() -> Any:
            return InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )

        answer = self._answer(request, _plain_code, limit_s, repeats_lost=True)
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, places: Iterable[Place], limit_s: float, *, repeats_lost: bool = False) -> None:
        """Adds partitions to the transaction; adding one again does nothing. Raises ``PartitionRefused``, ``KafkaException``. ``repeats_lost``: the
        request is repeated when its answer is lost."""
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def request() -> Any:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[kind(name=topic, partitions=found) for topic, found in topics.items()],
                max_version=3,
            )

        self._answer(request, _partitions_code, limit_s, repeats_lost=repeats_lost)

    def end(self, producer: Producer, limit_s: float, *, commits: bool, repeats_lost: bool = False) -> None:
        """Ends the transaction. Raises ``KafkaException``; after a lost answer its outcome is unknown. ``repeats_lost``: the request is repeated then,
        which is right only where no other transaction has the same epoch."""

        def request() -> Any:
            return EndTxnRequest(
                transactional_id=self._id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                committed=commits,
                max_version=4,
            )

        self._answer(request, _plain_code, limit_s, repeats_lost=repeats_lost)

    def _answer(
        self,
        request: Callable[[], Any],
        code_of: Callable[[Any], int],
        limit_s: float,
        *,
        repeats_lost: bool = False,
    ) -> Any:
        kafka = library()
        gives_up_at = self._clock() + limit_s
        while True:
            left_s = max(gives_up_at - self._clock(), 0.0)
            is_sent = False
            try:
                if self._node is None:
                    self._node = self._connections.coordinator(self._id, left_s)
                is_sent = True
                answer = self._connections.ask(self._node, request(), left_s)
                code = code_of(answer)
                if not code:
                    return answer
                is_sent = False  # and refused: it did nothing
                raise refusal(code)
            except kafka.KafkaException as error:
                kafka_error = error.args[0]
                if (is_sent and not repeats_lost) or not _may_change(kafka_error) or self._clock() >= gives_up_at:
                    raise
                if kafka_error.code() != kafka.KafkaError.CONCURRENT_TRANSACTIONS:
                    self._node = None
                is_local = kafka_error.code() < 0
            self._connections.wait(_never, CONNECT_AGAIN_S if is_local else ASK_AGAIN_S)


def _may_change(error: Any) -> bool:
    codes = library().KafkaError
    return error.code() in (
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.CONCURRENT_TRANSACTIONS,
        codes._TRANSPORT,
        codes._TIMED_OUT,
    )


def _plain_code(answer: Any) -> int:
    return int(answer.error_code)


def _partitions_code(answer: Any) -> int:
    """Returns the coordinator's error code for all partitions; raises ``PartitionRefused`` for a code of one partition."""
    codes = library().KafkaError
    for topic in answer.results_by_topic_v3_and_below:
        for one in topic.results_by_partition:
            code = int(one.partition_error_code)
            if code in (0, codes.OPERATION_NOT_ATTEMPTED):
                continue
            error = refusal(code, abort=True)
            if _may_change(error.args[0]):
                return code
            raise PartitionRefused(topic.name, error)
    return 0


def _never() -> bool:
    return False
