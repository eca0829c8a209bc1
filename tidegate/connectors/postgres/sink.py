"""The exactly-once sink of PostgreSQL.

    PostgresSink("host=db dbname=shop", "totals")                       new rows, by COPY
    PostgresSink("host=db dbname=shop", "totals", upsert_keys=["day"])  the last row of each key

For new rows the server needs ``max_prepared_transactions`` of at least the subtasks of the sink times the checkpoints that may be under
way (two are usual). The user needs the right to make the table ``tidegate_commits`` once, and for upserts a table for each epoch, in which its rows
wait between the vote and the commit. What goes into which column as which value: ``values``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.postgres.connections import connect, library, place_of, postgres_errors
from tidegate.connectors.postgres.rows import RowFormat, Staging, copy
from tidegate.connectors.postgres.table import PostgresTable, quoted_table
from tidegate.connectors.postgres.transactions import (
    COMMITS,
    PREFIX,
    Gid,
    PostgresCommitter,
    ensure_commits_table,
    keep_staged,
    mark_of,
)
from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob, UserError
from tidegate.model.values import Committable, StateValue
from tidegate.records.batch import ArrowBatch, Batch

GATHERED_ROWS = 10_000
"""How many rows are gathered for a ``COPY``, whose own cost of 0.2 ms is then a hundredth of what the rows cost (``benchmarks/postgres.py``)."""
GATHERED_BYTES = 1 << 20
"""Rows are sent once they take so many bytes. Chosen, not measured."""


class PostgresSink(Sink):
    """Writes rows to a PostgreSQL table, exactly once. ``conninfo``: a connection string or URI of libpq. ``columns``: column names for a stream that
    has none."""

    def __init__(
        self,
        conninfo: str,
        table: str,
        *,
        upsert_keys: Sequence[str] = (),
        columns: Sequence[str] | None = None,
    ) -> None:
        library()
        place_of(conninfo)
        self._conninfo = conninfo
        self._table = table
        self._keys = tuple(upsert_keys)
        self._columns = None if columns is None else tuple(columns)

    def validate(self) -> None:
        """Raises ``InvalidJob`` when the table does not exist, or the server allows no prepared transactions for new rows."""
        connection = connect(self._conninfo, "tidegate check")
        try:
            with postgres_errors("look at the table", self._conninfo):
                (limit,) = connection.execute("SELECT current_setting('max_prepared_transactions')::int").fetchone()
                self._table_of(connection)
        finally:
            connection.close()
        if not limit and not self._keys:
            raise InvalidJob(
                f"{place_of(self._conninfo)} does not allow prepared transactions: set max_prepared_transactions in its configuration"
            )

    def validate_input(self, input_type: TypeInformation, configuration: Configuration) -> None:
        """Checks columns and keys against the table, by writing no rows. Raises ``InvalidJob`` for those that it does not accept."""
        connection = connect(self._conninfo, "tidegate check")
        try:
            with postgres_errors("look at the table", self._conninfo):
                rows = self._rows(connection, input_type)
            with (
                postgres_errors(f"write to table {self._table!r}", self._conninfo),
                connection.transaction(force_rollback=True),
            ):
                if self._keys:
                    staging = Staging.of("tidegate_check", rows)
                    staging.create(connection, rows)
                    staging.upsert(connection)
                else:
                    copy(connection, quoted_table(self._table), [column.name for column in rows.columns], ())
        except InvalidJob:
            raise
        except UserError as error:
            rights = "; upserts are staged in tables that the role makes and drops" if self._keys else ""
            raise InvalidJob(f"{error.message}{rights}") from error
        finally:
            connection.close()

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        connection = connect(self._conninfo, "tidegate check")
        try:
            with postgres_errors("look at the table", self._conninfo):
                rows = self._rows(connection, input_type)
        finally:
            connection.close()
        return (UpsertWriter if self._keys else CopyWriter)(self._conninfo, rows, context)

    def _rows(self, connection: Any, input_type: TypeInformation) -> RowFormat:
        schema: pa.Schema = input_type.arrow_schema()
        names = self._columns or tuple(schema.names)
        if len(names) != len(schema.names):
            raise InvalidJob(
                f"the stream has {len(schema.names)} columns, {schema.names}, but the sink names {len(names)}: {names}; name a column of the table "
                "for each"
            )
        named = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
        return RowFormat.of(self._table_of(connection), named, self._keys)

    def _table_of(self, connection: Any) -> PostgresTable:
        try:
            return PostgresTable.read(connection, self._table)
        except InvalidJob as error:
            raise InvalidJob(f"{place_of(self._conninfo)}: {error.message}") from None

    def make_committer(self, context: SinkContext) -> Committer:
        application = f"tidegate commit {mark_of(context)} {context.subtask_index}"
        connection = connect(self._conninfo, application)
        try:
            ensure_commits_table(connection, self._conninfo)
        finally:
            connection.close()
        return PostgresCommitter(self._conninfo, application)


class _RowWriter(SinkWriter):
    """Writes the rows of an epoch in one open transaction. Small batches are gathered, since rows become visible only at the commit."""

    works_on = "arrow"

    def __init__(self, conninfo: str, rows: RowFormat, context: SinkContext) -> None:
        self._conninfo = conninfo
        self._rows = rows
        self._names = [column.name for column in rows.columns]
        self._context = context
        application = f"tidegate write {mark_of(context)} {context.subtask_index}"
        self._connection = connect(conninfo, application)
        self._end_zombies(application)
        self._sent_rows: int | None = None
        """In the open transaction; ``None`` when none is open."""
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0

    def write(self, batch: Batch) -> None:
        """Sends rows in the open transaction once there are enough of them; begins one if there is none."""
        assert isinstance(batch, ArrowBatch)
        self._gathered.append(batch.data)
        self._gathered_rows += batch.data.num_rows
        self._gathered_bytes += batch.data.get_total_buffer_size()  # a slice keeps the whole of what it was cut from
        if self._gathered_rows >= GATHERED_ROWS or self._gathered_bytes >= GATHERED_BYTES:
            self._send_gathered()

    def _send_gathered(self) -> None:
        if not self._gathered_rows:
            return
        data = pa.concat_batches(self._gathered).rename_columns(self._names)
        self._gathered, self._gathered_rows, self._gathered_bytes = [], 0, 0
        first = (self._sent_rows or 0) + 1
        rows = f"rows {first} to {first + data.num_rows - 1} since the last checkpoint"
        with postgres_errors(f"write {rows} to table {self._rows.table.name!r}", self._conninfo):
            if self._sent_rows is None:
                self._connection.execute("BEGIN")
                self._sent_rows = 0
                self._begin()
            self._send(self._rows.texts(data, first), first)
            self._sent_rows = first + data.num_rows - 1

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self._send_gathered()
        if self._sent_rows is None:
            return []
        gid = str(Gid.of(self._context, checkpoint_id))
        with postgres_errors(f"prepare the transaction {gid}", self._conninfo):
            self._vote(gid)
        self._sent_rows = None
        return [gid]

    def close(self) -> None:
        self._connection.close()

    @abstractmethod
    def _begin(self) -> None:
        """Reacts to the begin of a transaction; does nothing unless it is overridden."""

    @abstractmethod
    def _send(self, texts: Sequence[pa.Array], first: int) -> None:
        """Sends rows, the first of which has the number ``first`` in the transaction."""

    @abstractmethod
    def _vote(self, gid: str) -> None:
        """Ends the transaction so that its rows are durable but not yet visible."""

    def _end_zombies(self, application: str) -> None:
        """Terminates connections of earlier attempts of this subtask, which must not prepare anything more."""
        with postgres_errors("end the sessions of earlier attempts", self._conninfo):
            self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND pid <> pg_backend_pid() AND usename = current_user",
                [application[:63]],
            )


class CopyWriter(_RowWriter):
    """Copies new rows into the table in a transaction that is prepared. A row whose unique key an unconfirmed transaction holds is an error after
    ``LOCK_TIMEOUT_S``."""

    def _begin(self) -> None:
        pass

    def _send(self, texts: Sequence[pa.Array], first: int) -> None:
        copy(self._connection, quoted_table(self._rows.table.name), self._names, texts)

    def _vote(self, gid: str) -> None:
        self._connection.execute(f"INSERT INTO {COMMITS} (gid) VALUES (%s)", [gid])
        self._connection.execute(f"PREPARE TRANSACTION '{gid}'")


class UpsertWriter(_RowWriter):
    """Copies rows into a staging table with the types and constraints of the target, and upserts them on confirm."""

    def _begin(self) -> None:
        self._staging = Staging.of(f"{PREFIX}{mark_of(self._context)}_{self._context.subtask_index}_open", self._rows)
        self._staging.create(self._connection, self._rows)

    def _send(self, texts: Sequence[pa.Array], first: int) -> None:
        self._staging.copy(self._connection, texts, first)

    def _vote(self, gid: str) -> None:
        keep_staged(self._connection, self._staging, gid)
        self._connection.execute("COMMIT")
