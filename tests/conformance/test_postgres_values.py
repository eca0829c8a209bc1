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
from tidegate.connectors.postgres.session import connect
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.connectors.postgres.table import Table
from tidegate.connectors.postgres.values import TAKEN, conversion, family_of
from tidegate.model.errors import InvalidJob, UserError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
_JOBS = itertools.count()
_TEXTS = ("text", "varchar(5)", "char(5)", "citext", "label")


def context(attempt: str = "a") -> Any:
    return SimpleNamespace(job_id=f"values{next(_JOBS)}", operator_id="sink", subtask_index=0, parallelism=1, attempt=attempt)


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
def tables(server: PostgresServer) -> Iterator[dict[str, str]]:
    """A table for each type of a column."""
    made = {column: f"values_{number}" for number, column in enumerate(COLUMNS)}
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        for name in made.values():
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in MADE:
            connection.execute(statement)
        for column, name in made.items():
            connection.execute(f"CREATE TABLE {name} (i integer PRIMARY KEY, v {column})")
    yield made


class Pair:
    """A type of a stream and a type of a column."""

    def __init__(self, server: PostgresServer, table: str, column: str, written: Written) -> None:
        self._server, self._table, self._column, self._written = server, table, column, written
        connection = connect(server.conninfo, "test")
        self._described = Table.read(connection, table).written(["i", "v"])[1]
        connection.close()

    def is_taken(self) -> bool:
        try:
            conversion(self._written.kind, self._described)
        except InvalidJob:
            return False
        return True

    def stored(self, value: Any, keys: Sequence[str]) -> str | None:
        """What the table has then, as text; ``None`` when the value is refused."""
        self._server.query(f"TRUNCATE {self._table}")
        kinds = column_of(self._written.kind, [value])
        data = pa.table({"i": pa.array([1], pa.int32()), "v": kinds})
        try:
            write(self._server.conninfo, self._table, data, keys)
        except UserError:
            assert self._server.query(f"SELECT * FROM {self._table}") == []
            return None
        ((text,),) = self._server.query(f"SELECT v::text FROM {self._table}")
        return str(text)

    def comes_back(self, stored: str, literal: str) -> bool:
        """By the server's own reading of both."""
        same, column = self._written.same, self._column
        if same == "text" and column not in _TEXTS:
            query, values = f"SELECT (%s::{column})::text = %s", (literal, stored)
        else:
            query, values = f"SELECT (%s::{same})::text = (%s::{same})::text", (stored, literal)
            if same in ("real", "double precision", "numeric", "interval"):
                query = f"SELECT %s::{same} = %s::{same}"
        with connect(self._server.conninfo, "test") as connection:
            ((is_same,),) = connection.execute(query, values).fetchall()
        return bool(is_same) and not (column == "char(5)" and same == "text" and stored.rstrip() != literal.rstrip())

    def server_keeps(self, literal: str) -> bool:
        """Whether a cast there and back gives the value."""
        same, column = self._written.same, self._column
        with connect(self._server.conninfo, "test") as connection:
            try:
                ((kept,),) = connection.execute(
                    f"SELECT (%s::{same}::{column})::{same} = %s::{same}", (literal, literal)
                ).fetchall()
            except psycopg.Error:
                return False
        return bool(kept)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_comes_back_or_is_refused_and_both_ways_agree(
    column: str, server: PostgresServer, tables: dict[str, str]
) -> None:
    wrong = []
    for written in WRITTEN:
        pair = Pair(server, tables[column], column, written)
        if not pair.is_taken():
            assert written.same not in ("text", column)
            continue
        texts = tuple((text, text) for text in LITERALS.get(column, ())) if written.kind == pa.string() else ()
        for value, literal in (*written.values, *texts):
            new, upserted = pair.stored(value, ()), pair.stored(value, ("i",))
            if new != upserted:
                wrong.append(f"{written.kind} {literal!r}: {new!r} by COPY, {upserted!r} by an upsert")
            elif new is not None and not pair.comes_back(new, literal):
                wrong.append(f"{written.kind} {literal!r} is stored as {new!r}")
            elif new is None and written.same != "text" and pair.server_keeps(literal):
                wrong.append(f"{written.kind} {literal!r} is refused without need")
    assert wrong == []


def test_nulls_of_every_type_are_null(server: PostgresServer, tables: dict[str, str]) -> None:
    for written, column in itertools.product(WRITTEN, ("text", "integer", "timestamptz", "bytea")):
        pair = Pair(server, tables[column], column, written)
        if pair.is_taken():
            assert pair.stored(None, ()) == pair.stored(None, ("i",)) == "None", (written.kind, column)


def test_the_page_names_what_is_taken() -> None:
    assert {family_of(written.kind) for written in WRITTEN} == {*TAKEN, "text", "null"}
