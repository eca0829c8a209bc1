"""Rows of keys from a real PostgreSQL: each type as the server has it, keys as the server compares them, connections that are lost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest

from tests.servers.postgres_server import PostgresServer
from tidegate.functions.base import RuntimeContext
from tidegate.model.errors import InvalidJob, SchemaMismatch, UserError
from tidegate.plan.logical_types import parse_type
from tidegate.table._lookup import postgres
from tidegate.table._lookup.postgres import PostgresLookup, PostgresPlace, PostgresRows, check_type
from tidegate.table._lookup.whole_table import WholeTable

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
CONTEXT = cast("RuntimeContext", None)
"""No table here asks it for anything."""
_TYPES = (
    "ROW<id BIGINT, name STRING, price DECIMAL(10, 2), code CHAR(5), tag STRING, doc STRING, content BYTES, ok BOOLEAN, day DATE, at TIME, "
    "moment TIMESTAMP(6), wide DOUBLE, narrow FLOAT, few SMALLINT, tiny TINYINT, mood STRING>"
)
_ROW = (
    1, "ä\t\\", Decimal("1.13"), "ab   ", "6b0f5a34-5d2b-4f3a-9c7e-0123456789ab", '{"a": 1}', b"\x00\x01\xff", True, dt.date(2020, 1, 2),
    dt.time(10, 11, 12, 345000), dt.datetime(2020, 1, 2, 3, 4, 5, 123456), float("-inf"), 1.5, 3, -4, "glad",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running, psycopg.connect(running.conninfo, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        connection.execute(
            "CREATE TABLE things (id bigint PRIMARY KEY, name text, price numeric(12, 3), code char(5), tag uuid, doc jsonb, content bytea, "
            "ok boolean, day date, at time, moment timestamp, wide float8, narrow real, few smallint, tiny smallint, mood mood)"
        )
        values = [
            *_ROW[:2], Decimal("1.125"), "ab", *_ROW[4:],
        ]  # fmt: skip
        connection.execute(f"INSERT INTO things VALUES ({', '.join(['%s'] * len(values))})", values)
        connection.execute("INSERT INTO things (id, wide) VALUES (2, 'NaN')")
        connection.execute("CREATE TABLE several (k int, word varchar(10), n int)")
        connection.execute(
            "INSERT INTO several VALUES (1, 'a', 1), (1, 'b', 2), (1, 'a', 3), (2, 'a', 4), (NULL, 'a', 5)"
        )
        yield running


def lookup(server: PostgresServer, table: str, types: str, *keys: int, retries: int = 0) -> PostgresLookup:
    made = PostgresLookup(PostgresPlace(table, server.conninfo, table, retries), parse_type(types), keys)
    made.open(CONTEXT)
    return made


def key_batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_every_type_is_what_the_server_has(server: PostgresServer) -> None:
    table = lookup(server, "things", _TYPES, 0)
    found = table.look_up(key_batch(id=pa.array([7, 2, 1], pa.int64())))
    table.close()
    assert found.keys.tolist() == [1, 2]
    nothing, row = found.rows.to_pylist()
    assert tuple(row.values()) == _ROW
    assert {name: value for name, value in nothing.items() if name not in ("id", "wide")} == dict.fromkeys(
        [name for name in row if name not in ("id", "wide")]
    )
    assert nothing["wide"] != nothing["wide"]
    whole = PostgresRows(PostgresPlace("things", server.conninfo, "things", 0), parse_type(_TYPES)).read()
    assert tuple(whole.to_pylist()[0].values()) == _ROW


@pytest.mark.parametrize("at", range(16))
def test_every_type_can_be_a_key(server: PostgresServer, at: int) -> None:
    type = parse_type(_TYPES)
    table = lookup(server, "things", _TYPES, at)
    value = Decimal("1.125") if type.fields[at].name == "price" else _ROW[at]
    if type.fields[at].name == "price":
        key = pa.array([value], pa.decimal128(10, 3))
    else:
        key = pa.array([value], table.schema.field(at).type)
    found = table.look_up(pa.RecordBatch.from_arrays([key], names=[type.fields[at].name]))
    table.close()
    assert found.rows.column("id").to_pylist() == [1]


def test_several_keys_and_several_rows_of_a_key_are_in_the_order_of_the_keys(server: PostgresServer) -> None:
    table = lookup(server, "several", "ROW<n INT, word STRING, k INT>", 1, 2)
    asked = key_batch(word=["a", "b", "a", "x"], k=pa.array([2, 1, 1, 1], pa.int32()))
    found = table.look_up(asked)
    table.close()
    places = list(zip(found.keys.tolist(), found.rows.column("n").to_pylist(), strict=True))
    assert (places[:2], sorted(places[2:])) == ([(0, 4), (1, 2)], [(2, 1), (2, 3)])


def test_more_keys_than_a_statement_takes_are_several(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "MAX_KEYS", 2)
    table = lookup(server, "several", "ROW<k INT, n INT>", 0)
    found = table.look_up(key_batch(k=pa.array([5, 2, 6, 1, 7], pa.int32())))
    table.close()
    assert sorted(zip(found.keys.tolist(), found.rows.column("n").to_pylist(), strict=True)) == [
        (1, 4), (3, 1), (3, 2), (3, 3),
    ]  # fmt: skip


def test_a_connection_that_is_lost_is_made_again(server: PostgresServer) -> None:
    table = lookup(server, "several", "ROW<k INT, n INT>", 0, retries=1)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidegate lookup%'"
        )
    assert table.look_up(key_batch(k=pa.array([2], pa.int32()))).rows.column("n").to_pylist() == [4]
    table.close()


def test_a_table_is_read_whole_and_keys_are_compared_here(server: PostgresServer) -> None:
    rows = PostgresRows(PostgresPlace("t", server.conninfo, "several", 0), parse_type("ROW<k INT, n INT>"))
    table = WholeTable(rows, [0], None)
    table.open(CONTEXT)
    found = table.look_up(key_batch(k=pa.array([2, 3, 1], pa.int32())))
    assert list(zip(found.keys.tolist(), found.rows.column("n").to_pylist(), strict=True)) == [
        (0, 4),
        (2, 1),
        (2, 2),
        (2, 3),
    ]


def test_what_is_not_there_is_named(server: PostgresServer) -> None:
    with pytest.raises(InvalidJob, match="there is no table 'nowhere' in PostgreSQL"):
        lookup(server, "nowhere", "ROW<k INT>", 0)
    with pytest.raises(InvalidJob, match="has no column 'm': its columns are 'k', 'word', 'n'"):
        lookup(server, "several", "ROW<k INT, m INT>", 0)
    with pytest.raises(InvalidJob, match=r"doesn't support type: ARRAY<INT>, of the column 'a'"):
        check_type("t", "a", parse_type("ARRAY<INT>"))
    table = lookup(server, "several", "ROW<k INT, word INT>", 0)
    with pytest.raises(SchemaMismatch, match="the column 'word' of the table several is declared as int32"):
        table.look_up(key_batch(k=pa.array([1], pa.int32())))
    table.close()
    table = lookup(server, "things", "ROW<tag STRING>", 0)
    with pytest.raises(UserError, match="invalid input syntax for type uuid"):
        table.look_up(key_batch(tag=["no uuid"]))
    table.close()
