"""Every pair of a type of a stream and a type of a column, by both ways of the PostgreSQL sink, against a real server: the value comes back as it was, or
it is refused and nothing is written; and both ways write the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.conformance.postgres_types import COLUMNS, LITERALS, MADE, WRITTEN, Written
from tests.servers.postgres_server import PostgresServer
from tidegate.common.records.arrow_type import ArrowTypeInfo
from tidegate.common.records.batch import ArrowBatch
from tidegate.connectors.postgres.rows import RowFormat
from tidegate.connectors.postgres.session import connect
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.connectors.postgres.table import Table
from tidegate.connectors.postgres.values import TAKEN, conversion, family_of
from tidegate.model.errors import InvalidJob, UserError

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
def tables(server: PostgresServer) -> dict[str, str]:
    """A table for each type of a column."""
    made = {column: f"values_{number}" for number, column in enumerate(COLUMNS)}
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        for name in made.values():
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in MADE:
            connection.execute(statement)
        for column, name in made.items():
            connection.execute(f"CREATE TABLE {name} (i integer PRIMARY KEY, v {column})")
    return made


class Pair:
    """A type of a stream and a type of a column. ``connection``: for what the test asks the server itself."""

    def __init__(self, server: PostgresServer, connection: Any, table: str, column: str, written: Written) -> None:
        self._server, self._connection = server, connection
        self._table, self._column, self._written = table, column, written
        self._described = Table.read(connection, table)

    def is_taken(self) -> bool:
        try:
            conversion(self._written.kind, self._described.columns[1])
        except InvalidJob:
            return False
        return True

    def stored(self, values: Sequence[Any], keys: Sequence[str]) -> list[str | None]:
        """What the table has then of each value, as text; ``None`` for one that is refused. All are written at once, and one by one where the server
        refuses one of them."""
        kept = [value for value in values if self._is_converted(value)]
        try:
            found = iter(self._written_as(kept, keys))
            return [next(found) if value in kept else None for value in values]
        except UserError:
            return [self._stored_alone(value, keys) for value in values]

    def _is_converted(self, value: Any) -> bool:
        data = self._data([value])
        try:
            RowFormat.of(self._described, data.schema).texts(data.to_batches()[0], 1)
        except UserError:
            return False
        return True

    def _stored_alone(self, value: Any, keys: Sequence[str]) -> str | None:
        try:
            return self._written_as([value], keys)[0]
        except UserError:
            assert self._connection.execute(f"SELECT * FROM {self._table}").fetchall() == []
            return None

    def _written_as(self, values: Sequence[Any], keys: Sequence[str]) -> list[str]:
        self._connection.execute(f"DELETE FROM {self._table}")
        if values:
            write(self._server.conninfo, self._table, self._data(values), keys)
        return [
            text for (text,) in self._connection.execute(f"SELECT v::text FROM {self._table} ORDER BY i").fetchall()
        ]

    def _data(self, values: Sequence[Any]) -> pa.Table:
        return pa.table({"i": pa.array(range(len(values)), pa.int32()), "v": column_of(self._written.kind, values)})

    def comes_back(self, stored: str, literal: str) -> bool:
        """By the server's own reading of both."""
        same, column = self._written.same, self._column
        if same == "text" and column not in _TEXTS:
            query, values = f"SELECT (%s::{column})::text = %s", (literal, stored)
        elif same in ("smallint", "integer", "bigint"):
            query, values = "SELECT %s::numeric = %s::numeric", (stored, literal)
        elif same in ("real", "double precision", "numeric", "interval"):
            query, values = f"SELECT %s::{same} = %s::{same}", (stored, literal)
        else:
            query, values = f"SELECT (%s::{same})::text = (%s::{same})::text", (stored, literal)
        if column == "char(5)" and same == "text":
            return stored.rstrip() == literal.rstrip()
        return bool(self._connection.execute(query, values).fetchone()[0])

    def server_keeps(self, literal: str) -> bool:
        """Whether a cast there and back gives the value."""
        same, column = self._written.same, self._column
        query = f"SELECT (%s::{same}::{column})::{same} = %s::{same}"
        try:
            return bool(self._connection.execute(query, (literal, literal)).fetchone()[0])
        except psycopg.Error:
            return False


@pytest.fixture(scope="module")
def connection(server: PostgresServer) -> Iterator[Any]:
    with connect(server.conninfo, "test") as made:
        yield made


@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_comes_back_or_is_refused_and_both_ways_agree(
    column: str, server: PostgresServer, connection: Any, tables: dict[str, str]
) -> None:
    wrong = []
    for written in WRITTEN:
        pair = Pair(server, connection, tables[column], column, written)
        if not pair.is_taken():
            assert written.same not in ("text", column)
            continue
        texts = tuple((text, text) for text in LITERALS.get(column, ())) if written.kind == pa.string() else ()
        values, literals = [[one[part] for one in (*written.values, *texts)] for part in (0, 1)]
        both = zip(literals, pair.stored(values, ()), pair.stored(values, ("i",)), strict=True)
        for literal, new, upserted in both:
            if new != upserted:
                wrong.append(f"{written.kind} {literal!r}: {new!r} by COPY, {upserted!r} by an upsert")
            elif new is not None and not pair.comes_back(new, literal):
                wrong.append(f"{written.kind} {literal!r} is stored as {new!r}")
            elif new is None and written.same != "text" and pair.server_keeps(literal):
                wrong.append(f"{written.kind} {literal!r} is refused without need")
    assert wrong == []


def test_nulls_of_every_type_are_null(server: PostgresServer, connection: Any, tables: dict[str, str]) -> None:
    for written, column in itertools.product(WRITTEN, ("text", "bigint")):
        pair = Pair(server, connection, tables[column], column, written)
        if pair.is_taken():
            assert pair.stored([None], ()) == pair.stored([None], ("i",)) == [None], (written.kind, column)


def test_the_page_names_what_is_taken() -> None:
    assert {family_of(written.kind) for written in WRITTEN} == {*TAKEN, "text", "null"}
