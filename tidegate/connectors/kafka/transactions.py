"""Epochs of the Kafka sink as transactions: they are in the checkpoint, and markers tell which were published.

Nothing of an epoch is in the broker between the vote and the commit (docs/adr/0050). What a publisher that died in the middle
of its transaction left is ended by the broker after its timeout, and by the next producer of the transactional id, ``commit``
and ``abort`` here among them. Transactions of a sink that keeps them open are ``open_transactions.resolving``'s.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tidegate.connectors.kafka.markers import TOPIC, Markers, is_abort
from tidegate.connectors.kafka.open_transactions.prepared import Prepared
from tidegate.connectors.kafka.open_transactions.resolving import PreparedTransactions
from tidegate.connectors.kafka.publisher import Epoch, EpochPublisher, is_too_old
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.model.errors import CorruptData, Misuse
from tidegate.model.values import Committable


class KafkaTransactions(TransactionLog):
    """Inspects and resolves epochs. ``servers`` empty: only what checkpoints list is shown, the broker is not asked."""

    system = "kafka"

    def __init__(self, servers: str, properties: dict[str, str], prefix: str = "") -> None:
        """Creates the log. ``prefix``: of transactional ids whose open transactions are shown even if no checkpoint lists any."""
        self._servers = servers
        self._properties = properties
        self._open = PreparedTransactions(servers, properties, prefix)

    def takes(self, committable: Committable) -> bool:
        if Prepared.fits(committable):
            return True
        try:
            Epoch.of(committable)
        except CorruptData:
            return False
        return isinstance(committable[4], bytes)

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        prepared = [one for one in listed if Prepared.fits(one.committable)]
        others = [one for one in listed if not Prepared.fits(one.committable)]
        return [*(self._epochs(others) if others else ()), *(self._open.transactions(prepared) if prepared else ())]

    def _epochs(self, listed: Sequence[Listed]) -> list[Transaction]:
        epochs = [(one, Epoch.of(one.committable)) for one in listed]
        published = self._published([epoch for _, epoch in epochs])
        now_ms = int(time.time() * 1000)
        return [
            Transaction(
                system=self.system,
                name=epoch.key,
                place=self._servers,
                operator=one.operator,
                subtask=epoch.subtask,
                checkpoint_id=epoch.checkpoint_id,
                status=_status(epoch, published, now_ms) if self._servers else TransactionStatus.UNKNOWN,
                listed=True,
                size_bytes=len(epoch.records),
                committable=one.committable,
            )
            for one, epoch in epochs
        ]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        return self._open.unlisted(known, operators) if self._servers else []

    def commit(self, transaction: Transaction) -> None:
        if Prepared.fits(transaction.committable):
            self._check_servers()
            self._open.commit(transaction)
            return
        publisher = self._publisher()
        try:
            publisher.commit([transaction.committable])
        finally:
            publisher.close()

    def abort(self, transaction: Transaction) -> None:
        if Prepared.fits(transaction.committable):
            self._check_servers()
            self._open.abort(transaction)
            return
        publisher = self._publisher()
        try:
            publisher.abort(transaction.committable)
        finally:
            publisher.close()

    def _check_servers(self) -> None:
        if not self._servers:
            raise Misuse("transactions of a Kafka sink need --kafka HOST:PORT")

    def _publisher(self) -> EpochPublisher:
        self._check_servers()
        markers = Markers(self._servers, self._properties)
        markers.ensure_topic()
        return EpochPublisher(self._servers, self._properties, "tidegate", markers, own_branch="")

    def _published(self, epochs: Sequence[Epoch]) -> dict[str, str]:
        found: dict[str, str] = {}
        if not self._servers:
            return found
        for topic in {epoch.marker_topic or TOPIC for epoch in epochs}:
            since = min(epoch.closed_at_ms for epoch in epochs if (epoch.marker_topic or TOPIC) == topic)
            markers = Markers(self._servers, self._properties, topic)
            markers.ensure_topic()
            found.update(markers.read(since))
        return found


def _status(epoch: Epoch, published: Mapping[str, str], now_ms: int) -> TransactionStatus:
    marker = published.get(epoch.key)
    if marker is not None:
        return TransactionStatus.ABORTED if is_abort(marker) else TransactionStatus.COMMITTED
    return TransactionStatus.UNCERTAIN if is_too_old(epoch, now_ms) else TransactionStatus.PENDING
