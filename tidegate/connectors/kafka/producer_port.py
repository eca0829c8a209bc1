"""The interface of transactional producers. Its implementations are ``transactional_producers`` and ``columnar.transaction``.

    init ─▶ begin ─▶ send · mark ─▶ commit      after any error: ``give_up``, and never again

Errors are ``KafkaException`` or already typed; ``refusal`` tells which record caused them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.connectors.kafka.sending import DEFAULT_BATCH_BYTES

ABORT_TIMEOUT_S = 5.0
"""The limit for an abort, in seconds. Chosen, not measured: one that takes longer is left to the next producer of the id."""

Refusal = tuple[Any, str]
"""The error of a message that the broker refused, and its topic."""


@dataclass(slots=True)
class BatchLimit:
    """The largest batch of records in bytes, shared by successive producers: when one is refused as too large, the limit is halved."""

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
    """Writes records in transactions under one transactional id."""

    @abstractmethod
    def init(self, limit_s: float) -> None:
        """Takes the transactional id: its former producer is fenced, and that one's transaction aborted."""

    @abstractmethod
    def begin(self) -> None:
        """Begins a transaction."""

    @abstractmethod
    def send(self, records: pa.RecordBatch) -> None:
        """Sends records with the columns of ``records.SCHEMA``, in order within a partition. May wait for earlier ones."""

    @abstractmethod
    def mark(self, topic: str, markers: Mapping[str, str]) -> None:
        """Sends markers, given as keys and values of records, in the same transaction."""

    @abstractmethod
    def flush(self, limit_s: float) -> None:
        """Waits until the broker has everything that was sent. ``commit`` does so itself."""

    @abstractmethod
    def commit(self, limit_s: float) -> None:
        """Commits the transaction, within ``limit_s`` seconds."""

    @abstractmethod
    def give_up(self, error: Any) -> None:
        """Aborts the transaction where ``error`` (a ``KafkaError``) requires it, so that no reader waits; if that fails, the broker or the next
        producer does it."""

    @abstractmethod
    def refusal(self) -> Refusal | None:
        """Returns the error of a record, if one made the transaction fail."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections. An open transaction is left to its timeout, or to the next producer of this id."""
