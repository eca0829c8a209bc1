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
    """The transaction is over: committed, aborted, timed out, or its id has been taken since."""


class TransactionProducer(ABC):
    """Writes transactions, one after the other."""

    @abstractmethod
    def begin(self, transactional_id: str) -> ProducerIdentity:
        """Takes the id: its former producer is fenced, and that one's transaction aborted."""

    @abstractmethod
    def send(self, records: pa.RecordBatch) -> None:
        """With the columns of ``records.SCHEMA``. They are on their way when it returns. Raises ``NotOpen``."""

    @abstractmethod
    def prepare(self) -> None:
        """Returns when the broker has acknowledged everything, and said that the transaction is open. Raises ``NotOpen``."""

    @abstractmethod
    def commit(self) -> None:
        """May be repeated. Raises ``NotOpen``."""

    @abstractmethod
    def abort(self) -> None:
        """As far as it can be done: what stays open is listed by the next attempt, or times out."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections; a transaction that is open stays open."""


class TransactionBroker(ABC):
    """A Kafka cluster."""

    @abstractmethod
    def producer(self) -> TransactionProducer:
        """Returns a new one."""

    @abstractmethod
    def commit(self, transactional_id: str, identity: ProducerIdentity) -> None:
        """Commits a prepared transaction, whichever process wrote it. May be repeated. Raises ``NotOpen``."""

    @abstractmethod
    def open_ids(self, prefix: str) -> list[str]:
        """Returns the transactional ids that begin so and have an open transaction."""

    @abstractmethod
    def abort(self, transactional_id: str) -> None:
        """Takes the id and leaves it, which aborts its transaction and fences its producer."""

    @abstractmethod
    def note(self, topic: str, key: str, says: str) -> None:
        """Writes a note, in no transaction; it is durable when this returns."""

    @abstractmethod
    def notes(self, topic: str, keys: Collection[str], since_ms: int) -> dict[str, str]:
        """Returns those of these notes that are there, and what they say."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections."""
