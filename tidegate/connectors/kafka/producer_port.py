"""Who publishes under a transactional id: the port. Its implementations are ``transactional_producers`` and ``columnar.transaction``.

    init ─▶ begin ─▶ send · mark ─▶ commit      after any error: ``give_up``, and never again

Errors are ``KafkaException`` or already typed; ``refusal`` tells which record was behind them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.sending import DEFAULT_BATCH_BYTES

ABORT_TIMEOUT_S = 5.0
"""Chosen, not measured: an abort that takes longer is left to the next producer of the id."""

Refusal = tuple[Any, str]
"""The error of a message that the broker did not take, and its topic."""


@dataclass(slots=True)
class BatchLimit:
    """The largest batch of records in bytes. It outlives producers: one that is refused as too large is halved for the next."""

    size_bytes: int = DEFAULT_BATCH_BYTES

    @staticmethod
    def of(properties: Mapping[str, str]) -> BatchLimit:
        """Returns what a sink's properties say, or the default."""
        size = properties.get("batch.size", "")  # what is no number is librdkafka's to refuse
        return BatchLimit(int(size) if size.isdecimal() else DEFAULT_BATCH_BYTES)

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
