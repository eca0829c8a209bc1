"""The second phase of the commit: commits prepared transactions by id and epoch, in this process or in another.

A sink may have been of the other mode when its checkpoint was taken, so both kinds of committables are known to both: each is
committed by the committer of its kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tidegate.connectors.base import Committer
from tidegate.connectors.kafka.open_transactions.prepared import Prepared
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions
from tidegate.model.values import Committable


class TransactionCommitter(Committer):
    """Commits prepared transactions."""

    def __init__(self, transactions: SubtaskTransactions) -> None:
        self._transactions = transactions

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            self._transactions.commit(Prepared.of(committable))

    def name_of(self, committable: Committable) -> str:
        return f"transaction {Prepared.of(committable).name}"

    def close(self) -> None:
        self._transactions.close()


class KafkaCommitter(Committer):
    """Commits both kinds of committables. ``transactions``, ``epochs``: make the committer of a kind when it is first needed."""

    def __init__(self, transactions: Callable[[], Committer], epochs: Callable[[], Committer]) -> None:
        self._make = {True: transactions, False: epochs}
        self._made: dict[bool, Committer] = {}

    def prepare(self, *, is_transaction: bool) -> None:
        """Makes the committer of the sink's own kind in advance, since the broker takes a moment for it."""
        self._of(is_transaction)

    def commit(self, committables: Sequence[Committable]) -> None:
        for kind, found in itertools.groupby(committables, Prepared.fits):
            self._of(kind).commit(list(found))

    def name_of(self, committable: Committable) -> str:
        return self._of(Prepared.fits(committable)).name_of(committable)

    def close(self) -> None:
        for made in self._made.values():
            made.close()
        self._made.clear()

    def _of(self, is_transaction: bool) -> Committer:
        if is_transaction not in self._made:
            self._made[is_transaction] = self._make[is_transaction]()
        return self._made[is_transaction]
