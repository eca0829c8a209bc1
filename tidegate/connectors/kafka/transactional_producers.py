"""Creation of transactional producers: by column where the properties allow it, else librdkafka's."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.client import library
from tidegate.connectors.kafka.columnar.client_properties import goes_by_column
from tidegate.connectors.kafka.producer_port import ABORT_TIMEOUT_S, BatchLimit, Refusal, TransactionalProducer
from tidegate.connectors.kafka.sending import make_producer, send


def make_transactional_producer(
    servers: str, properties: Mapping[str, str], transactional_id: str, limit: BatchLimit, *, is_whole: bool = False
) -> TransactionalProducer:
    """Creates a transactional producer, by column where the properties allow it. ``is_whole``: for records with the columns of ``WHOLE_SCHEMA``."""
    if not is_whole and goes_by_column(properties):
        from tidegate.connectors.kafka.columnar.transaction import ColumnarProducer  # needs kafka-python

        return ColumnarProducer(servers, properties, transactional_id, limit)
    return MessageProducer(servers, properties, transactional_id)


class MessageProducer(TransactionalProducer):
    """librdkafka's producer, which sends message by message."""

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
        """Does nothing: librdkafka's client closes with its last reference."""


def _is_cause(refused: Refusal) -> bool:
    """Returns whether a refused record is the cause of a failure, not one that was discarded after it."""
    codes = library().KafkaError
    return refused[0].code() not in (codes._PURGE_QUEUE, codes._PURGE_INFLIGHT)
