"""Exactly-once rows in PostgreSQL.

    PostgresSink("host=db dbname=shop", "totals")                       new rows, by COPY
    PostgresSink("host=db dbname=shop", "totals", upsert_keys=["day"])  the last row of each key

The server needs ``max_prepared_transactions`` of at least the subtasks of the sink times the checkpoints that may be under
way (two are usual), and the user the right to make the table ``tidegate_commits`` once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.common.records.batch import ArrowBatch, Batch
from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.postgres.rows import check_types, copy, quoted
from tidegate.connectors.postgres.session import connect, library, place_of, postgres_errors
from tidegate.connectors.postgres.transactions import (
    COMMITS,
    Gid,
    PostgresCommitter,
    Upserts,
    ensure_commits_table,
    mark_of,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Committable, StateValue

LOCK_TIMEOUT_S = 30
"""Chosen, not measured: a lock that is held longer fails the attempt with an error that says so."""


GATHERED_ROWS = 10_000
"""A ``COPY`` costs 0.2 ms beside its rows, and behind functions of one record a batch is a row or a few. With so many in one, what it costs is
a hundredth of what the rows cost (``benchmarks/postgres.py``)."""
GATHERED_BYTES = 1 << 20
"""Wide rows are sent before they take much memory. Chosen, not measured."""


class PostgresSink(Sink):
    """``conninfo``: a connection string or URI of libpq. ``columns``: names for the columns of a stream that has none."""

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
        """Raises ``InvalidJob`` when there is no such table, or the server prepares no transactions."""
        connection = connect(self._conninfo, "tidegate check")
        try:
            with postgres_errors("look at the table", self._conninfo):
                (limit,) = connection.execute("SELECT current_setting('max_prepared_transactions')::int").fetchone()
                (found,) = connection.execute("SELECT to_regclass(%s)", [quoted(self._table)]).fetchone()
        finally:
            connection.close()
        if not limit:
            raise InvalidJob(
                f"{place_of(self._conninfo)} prepares no transactions: set max_prepared_transactions in its configuration"
            )
        if found is None:
            raise InvalidJob(f"{place_of(self._conninfo)} has no table {self._table!r}: create it")

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        schema: pa.Schema = input_type.arrow_schema()
        names = self._columns or tuple(schema.names)
        if len(names) != len(schema.names):
            raise InvalidJob(f"the stream has {len(schema.names)} columns, the sink names {len(names)}: {names}")
        missing = [key for key in self._keys if key not in names]
        if missing:
            raise InvalidJob(f"the upsert keys {missing} are not among the columns {list(names)}")
        check_types(schema)
        if self._keys:
            return UpsertWriter(self._table, self._keys, names, context)
        return CopyWriter(self._conninfo, self._table, names, context)

    def make_committer(self, context: SinkContext) -> Committer:
        application = f"tidegate commit {mark_of(context)} {context.subtask_index}"
        connection = connect(self._conninfo, application)
        try:
            ensure_commits_table(connection, self._conninfo)
        finally:
            connection.close()
        return PostgresCommitter(self._conninfo, application)


class CopyWriter(SinkWriter):
    """New rows, in one open transaction at most. Small batches are gathered: rows are visible after the commit only, so none comes later by it."""

    works_on = "arrow"

    def __init__(self, conninfo: str, table: str, names: Sequence[str], context: SinkContext) -> None:
        self._conninfo = conninfo
        self._table = table
        self._names = list(names)
        self._context = context
        application = f"tidegate write {mark_of(context)} {context.subtask_index}"
        self._connection = connect(conninfo, application)
        self._end_zombies(application)
        self._is_open = False
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0

    def write(self, batch: Batch) -> None:
        """Copies rows into the open transaction, once there are enough of them, and begins one if there is none."""
        assert isinstance(batch, ArrowBatch)
        self._gathered.append(batch.data)
        self._gathered_rows += batch.data.num_rows
        self._gathered_bytes += batch.data.get_total_buffer_size()  # a slice keeps the whole of what it was cut from
        if self._gathered_rows >= GATHERED_ROWS or self._gathered_bytes >= GATHERED_BYTES:
            self._copy()

    def _copy(self) -> None:
        if not self._gathered_rows:
            return
        rows = pa.concat_batches(self._gathered).rename_columns(self._names)
        self._gathered, self._gathered_rows, self._gathered_bytes = [], 0, 0
        with postgres_errors(f"write to table {self._table!r}", self._conninfo):
            if not self._is_open:
                self._connection.execute("BEGIN")
                self._is_open = True
            copy(self._connection, self._table, rows)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self._copy()
        if not self._is_open:
            return []
        gid = str(Gid.of(self._context, checkpoint_id))
        with postgres_errors(f"prepare the transaction {gid}", self._conninfo):
            self._connection.execute(f"INSERT INTO {COMMITS} (gid) VALUES (%s)", [gid])
            self._connection.execute(f"PREPARE TRANSACTION '{gid}'")
        self._is_open = False
        return [gid]

    def close(self) -> None:
        self._connection.close()

    def _end_zombies(self, application: str) -> None:
        """Writers of earlier attempts of this subtask: one that comes to life again must not prepare anything more. And a
        row that an unconfirmed transaction holds (the same unique key) is an error after a while, not a wait for ever."""
        with postgres_errors("end the sessions of earlier attempts", self._conninfo):
            self._connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
            self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND pid <> pg_backend_pid() AND usename = current_user",
                [application[:63]],
            )


class UpsertWriter(SinkWriter):
    """Gathers an epoch; its rows travel in the checkpoint and are applied on confirm."""

    works_on = "arrow"

    def __init__(self, table: str, keys: Sequence[str], names: Sequence[str], context: SinkContext) -> None:
        self._table = table
        self._keys = tuple(keys)
        self._names = list(names)
        self._context = context
        self._epoch: list[pa.RecordBatch] = []

    def write(self, batch: Batch) -> None:
        """Adds a batch to the epoch."""
        assert isinstance(batch, ArrowBatch)
        self._epoch.append(batch.data.rename_columns(self._names))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        sealed = self.seal(checkpoint_id)
        return sealed() if callable(sealed) else sealed

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        if not self._epoch:
            return []
        epoch, self._epoch = self._epoch, []
        gid = str(Gid.of(self._context, checkpoint_id))
        return lambda: [Upserts(gid, _as_stream(epoch), self._table, self._keys).as_list()]


def _as_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches(batches).combine_chunks()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
