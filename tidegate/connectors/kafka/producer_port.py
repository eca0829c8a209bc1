"""Who publishes under a transactional id: the port, and librdkafka's implementation. The other one is ``columnar.transaction``.

    init ─▶ begin ─▶ send · mark ─▶ commit      after any error: ``give_up``, and never again

Errors are ``KafkaException`` or already typed; ``refusal`` tells which record was behind them.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.columnar.settings import goes_by_column
from tidegate.connectors.kafka.sending import DEFAULT_BATCH_BYTES, make_producer, send

ABORT_TIMEOUT_S = 5.0

Refusal = tuple[Any, str]
"""The error of a message that the broker did not take, and its topic."""


@dataclass(slots=True)
class BatchLimit:
    """The largest batch of records in bytes. It outlives producers: one that is refused as too large is halved for the next."""

    size_bytes: int = DEFAULT_BATCH_BYTES

    def halve(self, refused_bytes: int) -> None:
        """Lowers the limit to half of a batch that was refused."""
        self.size_bytes = max(1, min(self.size_bytes, refused_bytes) // 2)


class TransactionalProducer(ABC):
    """Publishes records in transactions under one transactional id."""

    @abstractmethod
    def init(self, limit_s: float) -> None:
        """Takes the transactional id: its former producer is fenced, and that one's transaction aborted."""

    @abstractmethod
    def begin(self) -> None:
        """Begins a transaction."""

    @abstractmethod
    def send(self, records: pa.RecordBatch) -> None:
        """With the columns of ``records.SCHEMA``; in order by partition. May wait for those before them."""

    @abstractmethod
    def mark(self, topic: str, markers: Mapping[str, str]) -> None:
        """Keys and values of records like others, in the same transaction."""

    @abstractmethod
    def flush(self, limit_s: float) -> None:
        """Until the broker has everything that was sent; only ``commit`` needs it, and does it itself."""

    @abstractmethod
    def commit(self, limit_s: float) -> None:
        """Commits the transaction, within ``limit_s`` seconds."""

    @abstractmethod
    def give_up(self, error: Any) -> None:
        """Abort where ``error`` (a ``KafkaError``) asks for it, so that no reader waits for what is given up; where it cannot be
        done, the broker or the successor does it."""

    @abstractmethod
    def refusal(self) -> Refusal | None:
        """Why the transaction failed, where it was a record."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections. A transaction that is open is left to its timeout, or to the next producer of this
        id."""


def make_transactional_producer(
    servers: str, properties: Mapping[str, str], transactional_id: str, limit: BatchLimit
) -> TransactionalProducer:
    """By column where the properties allow it."""
    if goes_by_column(properties):
        from tidegate.connectors.kafka.columnar.transaction import ColumnarProducer

        return ColumnarProducer(servers, properties, transactional_id, limit)
    return MessageProducer(servers, properties, transactional_id)


class MessageProducer(TransactionalProducer):
    """librdkafka's, message by message."""

    def __init__(self, servers: str, properties: Mapping[str, str], transactional_id: str) -> None:
        self._servers = servers
        self._refused: list[Refusal] = []
        self._client = make_producer(
            servers,
            properties,
            transactional_id=transactional_id,
            on_delivery=lambda error, message: self._refused.append((error, message.topic())),
            delivery_report_only_error=True,
        )

    def init(self, limit_s: float) -> None:
        self._client.init_transactions(limit_s)

    def begin(self) -> None:
        self._client.begin_transaction()

    def send(self, records: pa.RecordBatch) -> None:
        send(self._client, records, self._servers)

    def mark(self, topic: str, markers: Mapping[str, str]) -> None:
        for key, said in markers.items():
            self._client.produce(topic, key=key, value=said)

    def flush(self, limit_s: float) -> None:
        self._client.flush(limit_s)

    def commit(self, limit_s: float) -> None:
        self._client.commit_transaction(limit_s)

    def give_up(self, error: Any) -> None:
        if error.txn_requires_abort():
            with contextlib.suppress(library().KafkaException):
                self._client.abort_transaction(ABORT_TIMEOUT_S)

    def refusal(self) -> Refusal | None:
        return next(filter(_is_cause, self._refused), None)

    def close(self) -> None:
        """Does nothing: librdkafka's client closes when its last reference goes."""


def _is_cause(refused: Refusal) -> bool:
    """Not what merely followed: the rest of a failed transaction is thrown away unsent."""
    codes = library().KafkaError
    return refused[0].code() not in (codes._PURGE_QUEUE, codes._PURGE_INFLIGHT)
