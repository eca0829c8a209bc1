"""Every pair of a type of a stream and a type of a column, by both ways of the PostgreSQL sink, against a real server: the value comes back as it was, or
it is refused and nothing is written; and both ways write the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from tests.conformance.postgres_types import COLUMNS, LITERALS, MADE, WRITTEN, Written
from tests.servers.postgres_server import PostgresServer
from tidegate.connectors.postgres.connections import connect
from tidegate.connectors.postgres.rows import RowFormat
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.connectors.postgres.table import PostgresTable
from tidegate.connectors.postgres.values import TAKEN, family_of
from tidegate.model.errors import InvalidJob, UserError
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
_JOBS = itertools.count()
_TEXTS = ("text", "varchar(5)", "char(5)", "citext", "label")


def context(attempt: str = "a") -> Any:
    return SimpleNamespace(
        job_id=f"values{next(_JOBS)}", operator_id="sink", subtask_index=0, parallelism=1, attempt=attempt
    )


def write(conninfo: str, table: str, data: pa.Table, keys: Sequence[str] = ()) -> None:
    """An epoch, committed. Raises what the sink raises, at any of its steps."""
    sink, about, kind = PostgresSink(conninfo, table, upsert_keys=keys), context(), ArrowTypeInfo(data.schema)
    committer = sink.make_committer(about)
    writer = sink.make_writer(about, [], kind)
    try:
        for batch in data.to_batches():
            writer.write(ArrowBatch(batch, None))
        committer.commit(writer.prepare_commit(1))
    finally:
        writer.close()
        committer.close()


def column_of(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


@pytest.fixture(scope="module")
def connection(server: PostgresServer) -> Iterator[Any]:
    with connect(server.conninfo, "test") as made:
        for statement in MADE:
            made.execute(statement)
        yield made


class Pair:
    """A type of a stream, written to the column ``name`` of this type. ``values``: those that the converter and the server take, each with its literal;
    ``refused``: the others."""

    def __init__(self, connection: Any, rows: RowFormat, column: str, written: Written) -> None:
        self._connection, self._column, self.written = connection, column, written
        self.name = rows.columns[1].name
        self.values: list[tuple[Any, str]] = []
        self.refused: list[tuple[Any, str]] = []
        more = LITERALS.get(column, ()) if written.kind == pa.string() else ()
        for value, literal in (*written.values, *((text, text) for text in more)):
            (self.values if self._is_taken(rows, value) else self.refused).append((value, literal))

    def _is_taken(self, rows: RowFormat, value: Any) -> bool:
        data = pa.record_batch({"i": pa.array([1], pa.int32()), self.name: column_of(self.written.kind, [value])})
        try:
            texts = rows.texts(data, 1)
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(f"INSERT INTO pairs (i, {self.name}) VALUES (1, %s)", [texts[1][0].as_py()])
        except (UserError, psycopg.Error):
            return False
        return True

    def comes_back(self, stored: str, literal: str) -> bool:
        """By the server's own reading of both."""
        same, column = self.written.same, self._column
        if column == "char(5)" and same == "text":
            return stored.rstrip() == literal.rstrip()
        if column == "real" and pa.types.is_floating(self.written.kind):
            return (
                bool(np.array_equal(np.float64(np.float32(stored)), np.float64(literal), equal_nan=True))
                or same == "real"
            )
        if column in ("real", "double precision") and pa.types.is_integer(self.written.kind):
            return int(np.float32(stored) if column == "real" else float(stored)) == int(literal)
        if same == "text" and column not in _TEXTS:
            query, values = f"SELECT (%s::{column})::text = %s", (literal, stored)
        elif column == "uuid" and same == "bytea":
            query, values = "SELECT decode(replace(%s, '-', ''), 'hex') = %s::bytea", (stored, literal)
        elif same in ("smallint", "integer", "bigint"):
            query, values = "SELECT %s::numeric = %s::numeric", (stored, literal)
        elif same in ("real", "double precision", "numeric", "interval"):
            query, values = f"SELECT %s::{same} = %s::{same}", (stored, literal)
        else:
            query, values = f"SELECT (%s::{same})::text = (%s::{same})::text", (stored, literal)
        return bool(self._connection.execute(query, values).fetchone()[0])

    def server_keeps(self, literal: str) -> bool:
        """Whether a cast there and back gives the value."""
        same, column = self.written.same, self._column
        if column in ("varchar(5)", "char(5)"):
            return False  # an explicit cast cuts a text off
        query = f"SELECT (%s::{same}::{column})::{same} = %s::{same}"
        try:
            return bool(self._connection.execute(query, (literal, literal)).fetchone()[0])
        except psycopg.Error:
            return False


def pairs_with(connection: Any, column: str) -> list[Pair]:
    """Makes the table ``pairs``, which has a column of this type for every type of a stream that may be written to it."""
    connection.execute("DROP TABLE IF EXISTS pairs")
    names = [f"v{number}" for number in range(len(WRITTEN))]
    connection.execute(f"CREATE TABLE pairs (i integer PRIMARY KEY, {', '.join(f'{name} {column}' for name in names)})")
    table = PostgresTable.read(connection, "pairs")
    found = []
    for name, written in zip(names, WRITTEN, strict=True):
        schema = pa.schema([("i", pa.int32()), (name, written.kind)])
        try:
            found.append(Pair(connection, RowFormat.of(table, schema), column, written))
        except InvalidJob:
            assert written.same not in ("text", column)
    return found


@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_comes_back_or_is_refused_and_both_ways_agree(
    column: str, server: PostgresServer, connection: Any
) -> None:
    pairs = pairs_with(connection, column)
    height = 1 + max(len(pair.values) for pair in pairs)
    columns = {"i": pa.array(range(height), pa.int32())}
    for pair in pairs:
        given = [value for value, _ in pair.values]
        columns[pair.name] = column_of(pair.written.kind, given + [None] * (height - len(given)))
    names = ", ".join(f"{pair.name}::text" for pair in pairs)
    stored = []
    for keys in ((), ("i",)):
        connection.execute("DELETE FROM pairs")
        write(server.conninfo, "pairs", pa.table(columns), keys)
        stored.append(connection.execute(f"SELECT {names} FROM pairs ORDER BY i").fetchall())
    assert stored[0] == stored[1]
    assert stored[0][-1] == (None,) * len(pairs), "nulls are null"
    wrong = []
    for place, pair in enumerate(pairs):
        for row, (_, literal) in enumerate(pair.values):
            if not pair.comes_back(stored[0][row][place], literal):
                wrong.append(f"{pair.written.kind} {literal!r} is stored as {stored[0][row][place]!r}")
        for _, literal in pair.refused:
            if pair.written.same != "text" and pair.server_keeps(literal):
                wrong.append(f"{pair.written.kind} {literal!r} is refused without need")
    assert wrong == []
    target = PostgresTable.read(connection, "pairs").columns[1].type_name
    named = {*TAKEN, "text", "null"} - {family for family, columns in TAKEN.items() if target not in columns}
    if column == "uuid":
        named.add("bytes")
    if column == "interval day to hour":
        named.remove("duration")
    assert {family_of(pair.written.kind) for pair in pairs} == named, "as the page says"


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_refused_is_refused_by_both_ways(column: str, server: PostgresServer, connection: Any) -> None:
    refused = [(pair, value) for pair in pairs_with(connection, column) for value, _ in pair.refused]
    for pair, value in refused[:: max(1, len(refused) // 3)]:
        data = pa.table({"i": pa.array([1], pa.int32()), pair.name: column_of(pair.written.kind, [value])})
        for keys in ((), ("i",)):
            with pytest.raises(UserError, match=f"{pair.name}|COPY"):
                write(server.conninfo, "pairs", data, keys)
    assert connection.execute("SELECT * FROM pairs").fetchall() == []


def test_every_type_of_a_stream_is_written() -> None:
    assert {family_of(written.kind) for written in WRITTEN} == {*TAKEN, "text", "null"}
