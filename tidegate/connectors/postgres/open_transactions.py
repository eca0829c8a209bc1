"""Prepared transactions and staged upserts of the PostgreSQL sink, and which of them were committed (table ``tidegate_commits``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.connectors.postgres.connections import connect, place_of, postgres_errors
from tidegate.connectors.postgres.transactions import (
    COMMITS,
    Gid,
    PostgresCommitter,
    Upserts,
    ensure_commits_table,
    mark_of_operator,
    parsed,
    waiting,
)
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.model.errors import CorruptData, Misuse
from tidegate.model.values import Committable

_APPLICATION = "tidegate txn"
_ABORTED = ":aborted"
"""The suffix of an aborted transaction's gid in the table of commits: it counts as done, without its rows."""


class PostgresTransactions(TransactionLog):
    """Inspects and resolves transactions. ``conninfo`` empty: only what checkpoints list is shown, the server is not asked."""

    system = "postgres"

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo

    def takes(self, committable: Committable) -> bool:
        try:
            parsed(committable)
        except CorruptData:
            return False
        return True

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        open_ones, noted = self._listed() if self._conninfo else (set(), set())
        return [self._transaction(one, open_ones, noted) for one in listed]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        if not self._conninfo:
            return []
        marks = {mark_of_operator(job_id, operator_id): title for (job_id, operator_id), title in operators.items()}
        connection = connect(self._conninfo, _APPLICATION)
        try:
            gids = waiting(connection, self._conninfo)
        finally:
            connection.close()
        return [
            Transaction(
                system=self.system,
                name=str(gid),
                place=place_of(self._conninfo),
                operator=marks.get(gid.mark, ""),
                subtask=gid.subtask,
                checkpoint_id=gid.checkpoint_id,
                status=TransactionStatus.PENDING,
                listed=False,
                committable=str(gid),
            )
            for gid in sorted(gids, key=lambda gid: (gid.mark, gid.checkpoint_id, gid.subtask))
            if str(gid) not in known
        ]

    def commit(self, transaction: Transaction) -> None:
        committer = self._committer()
        try:
            committer.commit([transaction.committable])
        finally:
            committer.close()

    def abort(self, transaction: Transaction) -> None:
        """Aborts a transaction and notes that; rolls it back first, since a prepared transaction locks its own row in the table of commits."""
        committer = self._committer()
        try:
            connection = connect(self._conninfo, _APPLICATION)
            with postgres_errors(f"abort {transaction.name}", self._conninfo), connection:
                if transaction.name in {str(gid) for gid in waiting(connection, self._conninfo)}:
                    committer.roll_back(transaction.name)
                for line in (transaction.name, transaction.name + _ABORTED):
                    connection.execute(f"INSERT INTO {COMMITS} (gid) VALUES (%s) ON CONFLICT DO NOTHING", [line])
        finally:
            committer.close()

    def _transaction(self, one: Listed, open_ones: set[str], noted: set[str]) -> Transaction:
        found = parsed(one.committable)
        name = found.gid if isinstance(found, Upserts) else found
        gid = Gid.parse(name)
        assert gid is not None
        if not self._conninfo:
            status = TransactionStatus.UNKNOWN
        elif name in noted:
            status = TransactionStatus.ABORTED if name + _ABORTED in noted else TransactionStatus.COMMITTED
        elif isinstance(found, Upserts) or name in open_ones:
            status = TransactionStatus.PENDING
        else:
            status = TransactionStatus.LOST
        return Transaction(
            system=self.system,
            name=name,
            place=place_of(self._conninfo) if self._conninfo else "",
            operator=one.operator,
            subtask=gid.subtask,
            checkpoint_id=gid.checkpoint_id,
            status=status,
            listed=True,
            size_bytes=len(found.rows) if isinstance(found, Upserts) else None,
            committable=one.committable,
        )

    def _listed(self) -> tuple[set[str], set[str]]:
        """Returns the prepared or staged transactions, and those in the table of commits."""
        connection = connect(self._conninfo, _APPLICATION)
        try:
            ensure_commits_table(connection, self._conninfo)
            with postgres_errors("read the committed transactions", self._conninfo):
                noted = connection.execute(f"SELECT gid FROM {COMMITS}").fetchall()
            return {str(gid) for gid in waiting(connection, self._conninfo)}, {gid for (gid,) in noted}
        finally:
            connection.close()

    def _committer(self) -> PostgresCommitter:
        if not self._conninfo:
            raise Misuse("transactions of a PostgreSQL sink need --postgres CONNINFO")
        return PostgresCommitter(self._conninfo, _APPLICATION)
