"""The second phase of the commit, and what is left over.

    gid  tidegate_<mark of job and operator>_<subtask>_<checkpoint id>_<attempt's hash>

    new rows   committable = gid                        they lie in a prepared transaction: COMMIT PREPARED
    upserts    committable = [gid, rows, table, keys]   they travel in the checkpoint: one transaction applies them

Each transaction inserts its gid into the table ``tidegate_commits``. So a gid that is not prepared was committed
exactly if it stands there; otherwise it was rolled back by hand, and an error names it. And rows whose gid stands
there were applied. Upserts are not prepared: rows locked by an unconfirmed epoch would hold up the next one (ADR 0051).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.connectors.base import Committer, SinkContext
from tidegate.connectors.postgres.rows import upsert
from tidegate.connectors.postgres.session import connect, library, postgres_errors
from tidegate.model.errors import CorruptData, ExternalError, UserError
from tidegate.model.values import Committable

COMMITS = "tidegate_commits"
PREFIX = "tidegate_"
KEPT_DAYS = 30
"""How long it is remembered that a transaction was committed."""


def mark_of(context: SinkContext) -> str:
    """Returns the mark of an operator's transactions."""
    return mark_of_operator(context.job_id, context.operator_id)


def mark_of_operator(job_id: str, operator_id: str) -> str:
    """Returns the mark of an operator's transactions: a digest of job and operator."""
    return hashlib.sha256(f"{job_id}/{operator_id}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Gid:
    """The id of a prepared transaction: operator, subtask, checkpoint and attempt."""

    mark: str
    subtask: int
    checkpoint_id: int
    attempt: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.mark}_{self.subtask}_{self.checkpoint_id}_{self.attempt}"

    @staticmethod
    def of(context: SinkContext, checkpoint_id: int) -> Gid:
        """Returns the id of this subtask's transaction for a checkpoint."""
        attempt = hashlib.sha256(context.attempt.encode()).hexdigest()[:8]
        return Gid(mark_of(context), context.subtask_index, checkpoint_id, attempt)

    @staticmethod
    def parse(text: str) -> Gid | None:
        """``None``: it is not one of ours."""
        parts = text.removeprefix(PREFIX).split("_")
        if not text.startswith(PREFIX) or len(parts) != 4 or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        return Gid(parts[0], int(parts[1]), int(parts[2]), parts[3])


@dataclass(frozen=True, slots=True)
class Upserts:
    """An epoch of upserts. Travels as a list."""

    gid: str
    rows: bytes
    table: str
    keys: tuple[str, ...]

    def as_list(self) -> list[Committable]:
        """Returns the epoch in the form in which checkpoints hold it."""
        return [self.gid, self.rows, self.table, list(self.keys)]

    def apply(self, connection: Any) -> None:
        """In the transaction that is open."""
        for data in pa.ipc.open_stream(self.rows):
            upsert(connection, self.table, data, self.keys)


def parsed(committable: Committable) -> str | Upserts:
    """Returns the gid of a prepared transaction, or upserts. Raises ``CorruptData``."""
    if isinstance(committable, str) and Gid.parse(committable) is not None:
        return committable
    try:
        gid, rows, table, keys = committable
        if Gid.parse(gid) is not None:
            return Upserts(gid, bytes(rows), str(table), tuple(map(str, keys)))
    except (TypeError, ValueError, AttributeError):
        pass
    raise CorruptData(f"not a committable of the PostgreSQL sink: {str(committable)[:100]}")


class PostgresCommitter(Committer):
    """Connects when there is something to do, and again after a failure."""

    def __init__(self, conninfo: str, application: str) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connection: Any = None

    def commit(self, committables: Sequence[Committable]) -> None:
        for found in [parsed(committable) for committable in committables]:
            try:
                if isinstance(found, Upserts):
                    self._commit_rows(found)
                else:
                    self._commit(found)
            except ExternalError:
                self.close()
                raise
            except UserError as error:
                self.close()
                raise ExternalError(error.message) from error

    def abort_unknown(self, restored: Sequence[Committable], context: SinkContext) -> None:
        """Rolls back what earlier attempts of this job prepared for a checkpoint behind the restored one: it will never
        be confirmed."""
        since = context.restored_checkpoint_id or 0
        for gid in prepared(self._open(), self._conninfo):
            if (
                gid.mark == mark_of(context)
                and gid.subtask % context.parallelism == context.subtask_index
                and gid.checkpoint_id > since
            ):
                self.roll_back(str(gid))

    def name_of(self, committable: Committable) -> str:
        found = parsed(committable)
        return found.gid if isinstance(found, Upserts) else found

    def roll_back(self, gid: str) -> None:
        """Rolls a prepared transaction back."""
        with postgres_errors(f"roll back the prepared transaction {gid}", self._conninfo):
            self._open().execute(f"ROLLBACK PREPARED '{gid}'")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _commit(self, gid: str) -> None:
        psycopg = library()
        with postgres_errors(f"commit the prepared transaction {gid}", self._conninfo):
            connection = self._open()
            try:
                connection.execute(f"COMMIT PREPARED '{gid}'")
            except psycopg.errors.UndefinedObject:
                found = connection.execute(f"SELECT 1 FROM {COMMITS} WHERE gid = %s", [gid]).fetchone()
                if found is None:
                    raise CorruptData(
                        f"the prepared transaction {gid} is gone, and was not committed: it was rolled back by hand; its rows "
                        "are lost, restore an older checkpoint"
                    ) from None

    def _commit_rows(self, upserts: Upserts) -> None:
        psycopg = library()
        with postgres_errors(f"apply the rows of {upserts.gid}", self._conninfo):
            connection = self._open()
            try:
                with connection.transaction():
                    connection.execute(f"INSERT INTO {COMMITS} (gid) VALUES (%s)", [upserts.gid])
                    upserts.apply(connection)
            except psycopg.errors.UniqueViolation as error:
                if error.diag.table_name != COMMITS:
                    raise  # the rows break a constraint of the table

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._conninfo, self._application)
        return self._connection


def prepared(connection: Any, conninfo: str) -> list[Gid]:
    """Returns all prepared transactions of ours in the connection's database."""
    with postgres_errors("list the prepared transactions", conninfo):
        rows = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'tidegate\\_%'"
        ).fetchall()
    return [gid for (text,) in rows if (gid := Gid.parse(text)) is not None]


def ensure_commits_table(connection: Any, conninfo: str) -> None:
    """Make the table when it is missing, and forget what is old."""
    psycopg = library()
    with postgres_errors(f"make the table {COMMITS}, in which committed transactions are noted", conninfo):
        with contextlib.suppress(psycopg.errors.UniqueViolation):  # made by another subtask at this moment
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {COMMITS} (gid text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
            )
        connection.execute(f"DELETE FROM {COMMITS} WHERE at < now() - interval '{KEPT_DAYS} days'")
