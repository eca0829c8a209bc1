"""A ``TwoPhaseCommitSinkFunction`` conforms: the example that writes into SQLite, under ids of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from examples.sqlite_sink import SqliteSink, connect
from tests.conformance.sink_suite import SinkConformance, Subject
from tidegate.connectors.base import Sink
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.connectors.two_phase_commit import TAG, TwoPhaseCommitSink

STATUS = {
    "pre-committed": TransactionStatus.PENDING,
    "committed": TransactionStatus.COMMITTED,
    "given up": TransactionStatus.ABORTED,
}


class Rows(Subject):
    def __init__(self, database: str) -> None:
        self._database = database

    def sink(self) -> Sink:
        return TwoPhaseCommitSink(SqliteSink(self._database))

    def visible(self) -> list[str]:
        with closing(connect(self._database)) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM visible")]

    def log(self) -> TransactionLog:
        return SqliteTransactions(self._database)


class SqliteTransactions(TransactionLog):
    """Resolves transactions of the example by hand."""

    system = "sqlite"

    def __init__(self, database: str) -> None:
        self._connection = connect(database)

    def takes(self, committable: object) -> bool:
        return isinstance(committable, list) and committable[0] == TAG

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        return [self._described(one.operator, one.checkpoint_id, one.committable[3], listed=True) for one in listed]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        query = "SELECT id, epoch FROM transactions WHERE status = 'pre-committed' ORDER BY 1, 2"
        found = [
            self._described("sink", 2, list(one), listed=False) for one in self._connection.execute(query).fetchall()
        ]
        return [one for one in found if one.name not in known]

    def commit(self, transaction: Transaction) -> None:
        self._move(transaction, "committed")

    def abort(self, transaction: Transaction) -> None:
        self._move(transaction, "given up")

    def _move(self, transaction: Transaction, status: str) -> None:
        query = "UPDATE transactions SET status = ? WHERE id = ? AND epoch = ? AND status = 'pre-committed'"
        self._connection.execute(query, (status, *transaction.committable))

    def _described(self, operator: str, checkpoint_id: int, handle: list[str | int], *, listed: bool) -> Transaction:
        query = "SELECT status FROM transactions WHERE id = ? AND epoch = ?"
        ((status,),) = self._connection.execute(query, handle)
        return Transaction(
            system=self.system,
            name="{}/{}".format(*handle),
            place="",
            operator=operator,
            subtask=0,
            checkpoint_id=checkpoint_id,
            status=STATUS[status],
            listed=listed,
            committable=handle,
        )


class TestSqliteSink(SinkConformance):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return Rows(str(tmp_path / "rows.db"))
