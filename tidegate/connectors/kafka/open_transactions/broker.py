"""The port to Kafka of a sink that keeps transactions open.

    producer: begin(id) ─▶ send ··· prepare ─▶ commit │ abort        one transaction at a time, in one thread at a time
    broker:   commit(id, identity) of another process's transaction;  open_ids(prefix), abort(id);  notes

Errors are typed (``ExternalError``: to be tried again). ``NotOpen`` says that the broker does not know the transaction as open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

import pyarrow as pa

from tidegate.connectors.kafka.open_transactions.prepared import ProducerIdentity


class NotOpen(Exception):
    """The transaction is not open: it was committed, aborted or timed out, or its id was taken by another producer."""


class TransactionProducer(ABC):
    """Writes transactions, one after the other."""

    @abstractmethod
    def begin(self, transactional_id: str) -> ProducerIdentity:
        """Begins a transaction under the id; its former producer is fenced, and that one's transaction aborted."""

    @abstractmethod
    def send(self, records: pa.RecordBatch) -> None:
        """Sends records with the columns of ``records.SCHEMA``; they are in transit when it returns. Raises ``NotOpen``."""

    @abstractmethod
    def prepare(self) -> None:
        """Waits until the broker has acknowledged everything and confirmed that the transaction is open. Raises ``NotOpen``."""

    @abstractmethod
    def commit(self) -> None:
        """Commits the transaction. May be repeated. Raises ``NotOpen``."""

    @abstractmethod
    def abort(self) -> None:
        """Aborts the transaction if possible: one that stays open is listed by the next attempt, or times out."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections; a transaction that is open stays open."""


class TransactionBroker(ABC):
    """The transactions of a Kafka cluster."""

    @abstractmethod
    def producer(self) -> TransactionProducer:
        """Returns a new producer."""

    @abstractmethod
    def commit(self, transactional_id: str, identity: ProducerIdentity) -> None:
        """Commits a prepared transaction, whichever process wrote it. May be repeated. Raises ``NotOpen``."""

    @abstractmethod
    def open_ids(self, prefix: str) -> list[str]:
        """Returns the transactional ids with this prefix that have an open transaction."""

    @abstractmethod
    def abort(self, transactional_id: str) -> None:
        """Takes the id, which aborts its transaction and fences its producer."""

    @abstractmethod
    def note(self, topic: str, key: str, says: str) -> None:
        """Writes a note outside of transactions; it is durable when this returns."""

    @abstractmethod
    def notes(self, topic: str, keys: Collection[str], since_ms: int) -> dict[str, str]:
        """Returns the notes with these keys that exist, with their values."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections."""
