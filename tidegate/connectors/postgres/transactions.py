"""The second phase of the commit in PostgreSQL, and removal of what earlier attempts left.

    gid  tidegate_<mark of job and operator>_<subtask>_<checkpoint id>_<attempt's hash>

    new rows   they lie in a prepared transaction of this name      COMMIT PREPARED
    upserts    they lie in a table of this name, which says in its  one transaction applies them, and drops the table
               comment what they are for (``Staging``)

A committable is the gid. Each transaction inserts it into the table ``tidegate_commits``: what is neither prepared nor staged was committed
exactly if it stands there; otherwise it was removed by hand, and an error names it. Upserts are not prepared: rows locked by an unconfirmed epoch
would hold up the next one (ADR 0051). Checkpoints of earlier versions carry the rows of upserts themselves, as ``[gid, rows, table, keys]``; they are
staged when they are committed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from tidegate.connectors.base import Committer, SinkContext
from tidegate.connectors.postgres.connections import (
    connect,
    is_of_data,
    library,
    place_of,
    postgres_errors,
    reason_of,
    without_secrets,
)
from tidegate.connectors.postgres.rows import RowFormat, Staging
from tidegate.connectors.postgres.table import PostgresTable, quoted
from tidegate.model.errors import ON_DAMAGE, CorruptData, TidegateError, UserError
from tidegate.model.values import Committable

COMMITS = "tidegate_commits"
PREFIX = "tidegate_"
KEPT_DAYS = 30
"""How many days committed transactions are remembered."""


def mark_of(context: SinkContext) -> str:
    """Returns the mark of the operator's transactions: a digest of job and operator."""
    return mark_of_operator(context.job_id, context.operator_id)


def mark_of_operator(job_id: str, operator_id: str) -> str:
    """Returns the mark of an operator's transactions: a digest of job and operator."""
    return hashlib.sha256(f"{job_id}/{operator_id}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Gid:
    """The global id of a prepared transaction: operator, subtask, checkpoint and attempt."""

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
        """Parses a gid; ``None`` for a gid of another program."""
        parts = text.removeprefix(PREFIX).split("_")
        if not text.startswith(PREFIX) or len(parts) != 4 or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        return Gid(parts[0], int(parts[1]), int(parts[2]), parts[3])


@dataclass(frozen=True, slots=True)
class Upserts:
    """An epoch of upserts that a checkpoint of an earlier version contains: an Arrow stream of its rows."""

    gid: str
    rows: bytes
    table: str
    keys: tuple[str, ...]

    def stage(self, connection: Any) -> Staging:
        """Creates a temporary table of the rows, in the open transaction. Raises ``UserError``."""
        with pa.ipc.open_stream(self.rows) as stream:
            data = stream.read_all().combine_chunks()
        rows = RowFormat.of(PostgresTable.read(connection, self.table), data.schema, self.keys)
        staging = Staging.of(self.gid, rows)
        staging.create(connection, rows, temporary=True)
        first = 1
        for batch in data.to_batches():
            staging.copy(connection, rows.texts(batch, first), first)
            first += batch.num_rows
        return staging


def parsed(committable: Committable) -> str | Upserts:
    """Parses a committable: the gid of a prepared transaction, or upserts. Raises ``CorruptData``."""
    if isinstance(committable, str) and Gid.parse(committable) is not None:
        return committable
    try:
        gid, rows, table, keys = committable
        if Gid.parse(gid) is not None:
            return Upserts(gid, bytes(rows), str(table), tuple(map(str, keys)))
    except (TypeError, ValueError, AttributeError):
        pass
    raise CorruptData(
        f"the checkpoint holds what is not a transaction of a PostgreSQL sink: {str(committable)[:100]}; {ON_DAMAGE}, or give the sink another uid "
        "where another kind of sink had its uid"
    )


class PostgresCommitter(Committer):
    """Commits transactions; connects at the first one, and again after a failure."""

    def __init__(self, conninfo: str, application: str) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connection: Any = None

    def commit(self, committables: Sequence[Committable]) -> None:
        """Commits transactions. Raises ``UserError`` for rows that the table refuses and would refuse again."""
        for found in [parsed(committable) for committable in committables]:
            try:
                if isinstance(found, Upserts):
                    self._apply(found.gid, found.stage, held_by_checkpoint=True)
                else:
                    self._commit(found)
            except TidegateError:
                self.close()
                raise

    def abort_unknown(self, restored: Sequence[Committable], context: SinkContext) -> None:
        """Rolls back what earlier attempts of this job prepared for checkpoints after the restored one, which will never be confirmed."""
        since = context.restored_checkpoint_id or 0
        for gid in waiting(self._open(), self._conninfo):
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
        """Rolls a prepared transaction back, or drops the staging table."""
        with postgres_errors(f"roll back {gid}", self._conninfo):
            connection = self._open()
            if staged(connection, gid) is None:
                connection.execute(f"ROLLBACK PREPARED '{gid}'")
            else:
                connection.execute(f"DROP TABLE IF EXISTS {quoted(gid)}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _commit(self, gid: str) -> None:
        psycopg = library()
        with postgres_errors(f"commit the transaction {gid}", self._conninfo):
            connection = self._open()
            staging = staged(connection, gid)
            if staging is not None:
                self._apply(gid, lambda _: staging, held_by_checkpoint=False)
                return
            try:
                connection.execute(f"COMMIT PREPARED '{gid}'")
            except psycopg.errors.UndefinedObject:
                found = connection.execute(f"SELECT 1 FROM {COMMITS} WHERE gid = %s", [gid]).fetchone()
                if found is None:
                    raise CorruptData(
                        f"the prepared transaction {gid} is gone, and was not committed: it was rolled back by hand; its rows "
                        "are lost, restore an older checkpoint"
                    ) from None

    def _apply(self, gid: str, stage: Callable[[Any], Staging], *, held_by_checkpoint: bool) -> None:
        psycopg = library()
        command = self._abort_command(gid, held_by_checkpoint)
        with postgres_errors(f"apply the rows of {gid}", self._conninfo):
            connection = self._open()
            try:
                with connection.transaction():
                    connection.execute(f"INSERT INTO {COMMITS} (gid) VALUES (%s)", [gid])
                    staging = stage(connection)
                    staging.upsert(connection)
                    connection.execute(f"DROP TABLE {quoted(gid)}")
            except psycopg.errors.UndefinedTable as error:
                if held_by_checkpoint or staged(connection, gid) is not None:
                    raise self._refused(gid, stage, reason_of(error), command) from error
                self._commit(gid)  # another one has applied it, or dropped it
            except psycopg.errors.UniqueViolation as error:
                if error.diag.table_name != COMMITS:
                    raise self._refused(gid, stage, reason_of(error), command) from error
            except psycopg.Error as error:
                if is_of_data(error):
                    raise self._refused(gid, stage, reason_of(error), command) from error
                raise
            except UserError as error:
                raise UserError(f"the rows of {gid} cannot be written: {error.message}. {command}") from error

    def _refused(self, gid: str, stage: Callable[[Any], Staging], reason: str, command: str) -> UserError:
        """Builds the error for refused rows, with the row if it can be found."""
        row = ""
        with contextlib.suppress(library().Error):
            connection = self._open()
            with connection.transaction(force_rollback=True):
                row = stage(connection).refused_row(connection, is_of_data)
        which = f"refuses {row} of" if row else "refuses rows of"
        return UserError(f"PostgreSQL ({place_of(self._conninfo)}) {which} the epoch {gid}: {reason}. {command}")

    def _abort_command(self, gid: str, held_by_checkpoint: bool) -> str:
        path = " CHECKPOINT" if held_by_checkpoint else ""
        where = without_secrets(self._conninfo).replace("'", "'\\''")
        return (
            "Change the table so that it takes them and restart the job from its last checkpoint; or give all rows of this epoch up by "
            f"`tidegate txn abort{path} --postgres '{where}' --only {gid}`, and restart the job from it then"
        )

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._conninfo, self._application)
        return self._connection


def staged(connection: Any, gid: str) -> Staging | None:
    """Reads the description of an epoch's staging table from its comment; ``None`` when there is none."""
    query = "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c WHERE c.oid = to_regclass(%s)"
    found = connection.execute(query, [quoted(gid)]).fetchone()
    if found is None or not found[0]:
        return None
    description = json.loads(found[0])
    return Staging(
        gid, description["table"], tuple(description["columns"]), tuple(description["keys"]), description["number"]
    )


def keep_staged(connection: Any, staging: Staging, gid: str) -> None:
    """Renames an epoch's staging table to its gid and stores its description in a comment, in the open transaction."""
    description = {name: value for name, value in asdict(staging).items() if name != "name"}
    comment = library().sql.Literal(json.dumps(description)).as_string(connection)
    connection.execute(f"ALTER TABLE {quoted(staging.name)} RENAME TO {quoted(gid)}")
    connection.execute(f"COMMENT ON TABLE {quoted(gid)} IS {comment}")


def waiting(connection: Any, conninfo: str) -> list[Gid]:
    """Returns all our prepared transactions and staged epochs in the connection's database."""
    with postgres_errors("list the prepared transactions", conninfo):
        rows = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'tidegate\\_%' UNION ALL "
            "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'tidegate\\_%' AND relpersistence <> 't' "
            "AND pg_table_is_visible(oid)"
        ).fetchall()
    return [gid for (text,) in rows if (gid := Gid.parse(text)) is not None]


def ensure_commits_table(connection: Any, conninfo: str) -> None:
    """Creates the table of commits when it is missing, and deletes old entries."""
    psycopg = library()
    with postgres_errors(f"make the table {COMMITS}, in which committed transactions are noted", conninfo):
        with contextlib.suppress(psycopg.errors.UniqueViolation):  # made by another subtask at this moment
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {COMMITS} (gid text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
            )
        connection.execute(f"DELETE FROM {COMMITS} WHERE at < now() - interval '{KEPT_DAYS} days'")
