"""Inspection and manual resolution of open transactions of Kafka sinks, whether a checkpoint contains them or not.

What is open is shown only of the operators of the checkpoints given, under prefixes that these name, or under the prefix that was given:
a cluster may be full of the transactions of running jobs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.connectors.kafka.client import TRANSACTION_TIMEOUT_KEY
from tidegate.connectors.kafka.columnar.transaction_list import COMMITTED as COMMITTED_STATES
from tidegate.connectors.kafka.columnar.transaction_list import ONGOING
from tidegate.connectors.kafka.markers import ABORTED, RETENTION_MS, is_abort
from tidegate.connectors.kafka.open_transactions.broker import NotOpen
from tidegate.connectors.kafka.open_transactions.deadlines import OPEN_TIMEOUT_MS
from tidegate.connectors.kafka.open_transactions.naming import TransactionName, mark_of
from tidegate.connectors.kafka.open_transactions.prepared import Prepared, ProducerIdentity
from tidegate.connectors.kafka.open_transactions.subtask_transactions import COMMITTED
from tidegate.connectors.transactions import Listed, Transaction, TransactionStatus
from tidegate.model.errors import CorruptData

if TYPE_CHECKING:
    from tidegate.connectors.kafka.open_transactions.columnar_broker import ColumnarTransactionBroker

_UNLISTED_CHECKPOINT = 0
"""The checkpoint id shown for a transaction that no checkpoint lists, since its id does not say which one it was for."""


class PreparedTransactions:
    """Inspects and resolves open transactions. ``servers`` empty: only what checkpoints list is shown, the broker is not asked."""

    def __init__(self, servers: str, properties: dict[str, str], prefix: str) -> None:
        self._servers = servers
        self._properties = properties
        self._prefix = prefix
        self._prefixes = {prefix} if prefix else set()

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        """Returns the transactions that checkpoints list, with their status."""
        found = [(one, Prepared.of(one.committable)) for one in listed]
        names = [TransactionName.parse(prepared.transactional_id) for _, prepared in found]
        self._prefixes.update(name.prefix for name in names if name is not None)
        statuses = self._statuses([prepared for _, prepared in found]) if self._servers else {}
        return [
            self._transaction(prepared, one, statuses.get(prepared.name, TransactionStatus.UNKNOWN))
            for one, prepared in found
        ]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        """Returns open transactions that are not among the ``known`` names."""
        marks = {mark_of(operator_id): title for (_, operator_id), title in operators.items()}
        names: dict[str, TransactionName] = {}
        with self._broker() as broker:
            for prefix in sorted(self._prefixes):
                for text in broker.open_ids(f"{prefix}-"):
                    name = TransactionName.parse(text)
                    if name is not None and name.prefix == prefix and (name.mark in marks or prefix == self._prefix):
                        names[text] = name
            statuses = broker.described(names)
        found = [
            _without_checkpoint(names[one], identity) for one, (identity, state) in statuses.items() if state == ONGOING
        ]
        return [
            Transaction(
                system="kafka",
                name=one.name,
                place=self._servers,
                operator=marks.get(names[one.transactional_id].mark, ""),
                subtask=one.subtask,
                checkpoint_id=one.checkpoint_id,
                status=TransactionStatus.PENDING,
                listed=False,
                committable=one.as_list(),
            )
            for one in found
            if one.name not in known
        ]

    def commit(self, transaction: Transaction) -> None:
        """Commits a transaction. Raises ``CorruptData`` when it has ended otherwise."""
        prepared = Prepared.of(transaction.committable)
        with self._broker() as broker:
            try:
                broker.commit(prepared.transactional_id, prepared.identity)
            except NotOpen:
                if _said(broker, prepared) != COMMITTED:
                    raise CorruptData(
                        f"the Kafka transaction {prepared.name} has ended without being committed, so its records are not published; restore an "
                        "older checkpoint"
                    ) from None

    def abort(self, transaction: Transaction) -> None:
        """Aborts by taking the id, and notes the abort for a job that is restored later."""
        prepared = Prepared.of(transaction.committable)
        with self._broker() as broker:
            if _status(broker, prepared) in (TransactionStatus.COMMITTED, TransactionStatus.ABORTED):
                return
            broker.abort(prepared.transactional_id)
            if transaction.listed:
                broker.note(prepared.notes_topic, prepared.name, ABORTED)

    def _statuses(self, prepared: Sequence[Prepared]) -> dict[str, TransactionStatus]:
        with self._broker() as broker:
            return {one.name: _status(broker, one) for one in prepared}

    def _transaction(self, prepared: Prepared, one: Listed, status: TransactionStatus) -> Transaction:
        return Transaction(
            system="kafka",
            name=prepared.name,
            place=self._servers,
            operator=one.operator,
            subtask=prepared.subtask,
            checkpoint_id=prepared.checkpoint_id,
            status=status,
            listed=True,
            committable=one.committable,
        )

    @contextlib.contextmanager
    def _broker(self) -> Iterator[ColumnarTransactionBroker]:
        from tidegate.connectors.kafka.open_transactions.columnar_broker import (  # needs kafka-python
            ColumnarTransactionBroker,
        )

        timeout_ms = int(self._properties.get(TRANSACTION_TIMEOUT_KEY, OPEN_TIMEOUT_MS))
        broker = ColumnarTransactionBroker(self._servers, self._properties, timeout_ms)
        try:
            yield broker
        finally:
            broker.close()


def _status(broker: ColumnarTransactionBroker, prepared: Prepared) -> TransactionStatus:
    """Returns the status of a transaction, from the coordinator for the last one of the id and from notes for earlier ones."""
    identity, state = broker.described([prepared.transactional_id]).get(prepared.transactional_id, (None, ""))
    if identity == prepared.identity and state == ONGOING:
        return TransactionStatus.PENDING
    if identity == prepared.identity and state in COMMITTED_STATES:
        return TransactionStatus.COMMITTED
    said = _said(broker, prepared)
    if said is not None:
        return TransactionStatus.ABORTED if is_abort(said) else TransactionStatus.COMMITTED
    is_old = time.time() * 1000 - prepared.prepared_at_ms > RETENTION_MS // 2
    return TransactionStatus.UNCERTAIN if is_old else TransactionStatus.LOST


def _said(broker: ColumnarTransactionBroker, prepared: Prepared) -> str | None:
    """Returns the note of a transaction; ``None``: there is none."""
    if not prepared.notes_topic:
        return None
    return broker.notes(prepared.notes_topic, [prepared.name], prepared.prepared_at_ms).get(prepared.name)


def _without_checkpoint(name: TransactionName, identity: ProducerIdentity) -> Prepared:
    """Makes a transaction that is only known by its id."""
    return Prepared(str(name), identity, name.branch, name.subtask, _UNLISTED_CHECKPOINT, 0, "")
