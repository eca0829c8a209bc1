"""What an epoch of upserts is refused for, and when: at the vote or before, or for good with the command that gets past it; against a real server."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.conformance.snapshots import as_checkpoint, share
from tests.conformance.test_postgres_values import context, write
from tests.servers.postgres_server import PostgresServer
from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.connectors.postgres import connections
from tidegate.connectors.postgres.open_transactions import PostgresTransactions
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.connectors.postgres.table import quoted_table
from tidegate.connectors.postgres.transactions import Gid, PostgresCommitter
from tidegate.connectors.transactions import Listed, TransactionStatus, listed_in
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CorruptData, ExternalError, InvalidJob, UserError
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _clean(server: PostgresServer) -> Iterator[None]:
    yield
    for (name,) in server.query(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^tidegate_[0-9a-f]{16}'"
    ):
        server.query(f'DROP TABLE "{name}"')


def made(server: PostgresServer, columns: str) -> None:
    server.query("DROP TABLE IF EXISTS t CASCADE")
    server.query(f"CREATE TABLE t ({columns})")


def staged_tables(server: PostgresServer) -> list[Any]:
    return server.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^tidegate_[0-9a-f]{16}'")


def rows_of(server: PostgresServer) -> list[tuple[Any, ...]]:
    return server.query("SELECT * FROM t ORDER BY 1")


# --- the vote ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "data", "said"),
    [
        (
            "id int PRIMARY KEY, v text",
            {"id": [1, 2], "v": ["x", "a\0b"]},
            "row 2 since the last checkpoint: .*column 'v' has the character NUL",
        ),
        ("id bigint PRIMARY KEY", {"id": pa.array([2**63], pa.uint64())}, "row 1 .*9223372036854775808"),
        ("id uuid PRIMARY KEY", {"id": ["no"]}, "uuid"),
        ("id int PRIMARY KEY, v jsonb", {"id": [1], "v": ['{"a": "\\u0000"}']}, "rows 1 to 1 .*column v"),
        ("id int PRIMARY KEY, v int CHECK (v > 0)", {"id": [1], "v": [0]}, "t_v_check"),
        ("id int PRIMARY KEY, v int NOT NULL", {"id": [1], "v": pa.array([None], pa.int32())}, "not-null"),
        (
            "id int UNIQUE, v int",
            {"id": pa.array([1, None], pa.int32()), "v": [1, 2]},
            "row 2 .*null in the upsert key",
        ),
    ],
)
def test_what_the_table_refuses_is_refused_before_the_vote_and_leaves_nothing(
    server: PostgresServer, columns: str, data: dict[str, Any], said: str
) -> None:
    made(server, columns)
    with pytest.raises(UserError, match=said) as raised:
        write(server.conninfo, "t", pa.table(data), ["id"])
    assert not raised.value.retriable
    assert rows_of(server) == staged_tables(server) == []


def test_texts_become_what_the_columns_are(server: PostgresServer) -> None:
    server.query("DROP TYPE IF EXISTS feeling CASCADE")
    server.query("CREATE TYPE feeling AS ENUM ('sad', 'glad')")
    made(server, "id uuid PRIMARY KEY, j jsonb, m feeling, b bytea")
    one = "00000000-0000-0000-0000-000000000007"
    fixed = pa.array([b"ab"], pa.binary(2))
    write(server.conninfo, "t", pa.table({"id": [one], "j": ['{"a":1}'], "m": ["glad"], "b": fixed}), ["id"])
    assert server.query("SELECT id::text, j::text, m::text, b FROM t") == [(one, '{"a": 1}', "glad", b"ab")]


@pytest.mark.parametrize(
    ("kind", "keys", "kept"),
    [
        ("double precision", pa.array([0.0, -0.0, float("nan"), float("nan"), 1.0]), [("0", 1), ("1", 4), ("NaN", 3)]),
        ("numeric", pa.array(["1.0", "1.00", "1"]), [("1", 2)]),
        ("char(3)", pa.array(["a", "a ", "b"]), [("a", 1), ("b", 2)]),
    ],
)
def test_keys_are_equal_as_the_server_says_and_the_last_row_wins(
    server: PostgresServer, kind: str, keys: pa.Array, kept: list[Any]
) -> None:
    made(server, f"id {kind} PRIMARY KEY, v int")
    write(server.conninfo, "t", pa.table({"id": keys, "v": pa.array(range(len(keys)), pa.int32())}), ["id"])
    found = server.query("SELECT id::text, v FROM t ORDER BY id")
    assert [(key.replace("-0", "0"), value) for key, value in found] == kept or kind == "numeric"
    assert [value for _, value in found] == [value for _, value in kept]


def test_nulls_are_one_key_where_the_index_says_so(server: PostgresServer) -> None:
    made(server, "id int, v int, UNIQUE NULLS NOT DISTINCT (id)")
    for value in (1, 2):
        write(server.conninfo, "t", pa.table({"id": pa.array([None], pa.int32()), "v": [value]}), ["id"])
    assert rows_of(server) == [(None, 2)]


def test_a_name_with_a_dot_or_a_quote_is_one_name(server: PostgresServer) -> None:
    server.query('DROP TABLE IF EXISTS "a.b"')
    server.query('CREATE TABLE "a.b" ("k.1" int PRIMARY KEY, "v ""q""" text, "row" int)')
    for keys in ((), ["k.1"]):
        data = pa.table({"k.1": [len(keys)], 'v "q"': ["x"], "row": [5]})
        write(server.conninfo, 'public."a.b"', data, keys)
    assert server.query('SELECT * FROM "a.b" ORDER BY 1') == [(0, "x", 5), (1, "x", 5)]


@pytest.mark.parametrize("name", ["", ".t", "a..b", "a.", '"open'])
def test_what_is_no_name_of_a_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match="is not the name of a table"):
        quoted_table(name)


def test_a_database_in_another_encoding_has_the_same_characters(server: PostgresServer) -> None:
    server.query("DROP DATABASE IF EXISTS latin")
    server.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    conninfo = server.conninfo.replace("dbname=postgres", "dbname=latin")
    with psycopg.connect(conninfo, autocommit=True, client_encoding="UTF8") as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        for keys in ((), ["id"]):
            write(conninfo, "t", pa.table({"id": [len(keys)], "v": ["é ü"]}), keys)
            with pytest.raises(UserError, match="has no equivalent in encoding"):
                write(conninfo, "t", pa.table({"id": [7], "v": ["€"]}), keys)
        assert connection.execute("SELECT v, length(v) FROM t").fetchall() == [("é ü", 3), ("é ü", 3)]


def test_zone_and_formats_are_not_those_of_the_role(server: PostgresServer) -> None:
    made(server, "id int PRIMARY KEY, at timestamp, day date")
    server.query("ALTER ROLE tidegate SET timezone = 'America/New_York'")
    server.query("ALTER ROLE tidegate SET datestyle = 'SQL, DMY'")
    try:
        for keys in ((), ["id"]):
            at = pa.array([1_711_846_800_000_000], pa.timestamp("us", "UTC"))
            write(server.conninfo, "t", pa.table({"id": [len(keys)], "at": at, "day": ["02/03/2024"]}), keys)
    finally:
        server.query("ALTER ROLE tidegate RESET ALL")
    assert server.query("SELECT DISTINCT at::text, to_char(day, 'YYYY-MM-DD') FROM t") == [
        ("2024-03-31 01:00:00", "2024-02-03")
    ]


# --- the start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "keys", "said"),
    [
        ("id int, v int", ["id"], "no unique index on exactly the upsert keys"),
        ("id int, v int, UNIQUE (id, v)", ["id"], "no unique index on exactly"),
        ("id int UNIQUE DEFERRABLE, v int", ["id"], "no unique index on exactly"),
        ("id int, v int, EXCLUDE (id WITH =)", ["id"], "no unique index on exactly"),
        ("id citext PRIMARY KEY, v int", ["id"], "the order of their rows would be lost"),
        ("id text COLLATE nocase PRIMARY KEY, v int", ["id"], "the order of their rows would be lost"),
        ("id int PRIMARY KEY, v int GENERATED ALWAYS AS (1) STORED", ["id"], "'v' of table 't' is generated"),
        ("id int PRIMARY KEY, v int GENERATED ALWAYS AS (1) STORED", [], "'v' of table 't' is generated"),
        ("id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int", ["id"], "GENERATED ALWAYS AS IDENTITY"),
        ("id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int", [], "GENERATED ALWAYS AS IDENTITY"),
        ("id int PRIMARY KEY, v int, w int NOT NULL", ["id"], "'w' of table 't' is NOT NULL without a default"),
        ("id int PRIMARY KEY", ["id"], "no column 'v'"),
        ("id int PRIMARY KEY, v boolean", [], "'v' is int64 in the stream and boolean in the table"),
        ("id int PRIMARY KEY, v uuid", ["id"], "'v' is int64 in the stream and uuid in the table"),
    ],
)
def test_what_the_table_tells_is_refused_at_submission(
    server: PostgresServer, columns: str, keys: list[str], said: str
) -> None:
    server.query("CREATE EXTENSION IF NOT EXISTS citext")
    server.query(
        "CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    made(server, columns)
    key = pa.string() if "id citext" in columns or "id text" in columns else pa.int64()
    kind = ArrowTypeInfo(pa.schema({"id": key, "v": pa.int64()}))
    sink = PostgresSink(server.conninfo, "t", upsert_keys=keys)
    with pytest.raises(InvalidJob, match=said):
        sink.validate_input(kind, Configuration.from_strings({}))
    with pytest.raises(InvalidJob, match=said):
        sink.make_writer(context(), [], kind)


def test_what_the_server_alone_knows_is_asked_of_it_at_submission(server: PostgresServer) -> None:
    made(server, "id int PRIMARY KEY, v bigint")
    server.query("DROP ROLE IF EXISTS reader")
    server.query("CREATE ROLE reader LOGIN")
    server.query("GRANT SELECT ON t TO reader")
    conninfo = server.conninfo.replace("user=tidegate", "user=reader")
    kind = ArrowTypeInfo(pa.schema({"id": pa.int32(), "v": pa.int64()}))
    with pytest.raises(InvalidJob, match="permission denied for table t"):
        PostgresSink(conninfo, "t").validate_input(kind, Configuration.from_strings({}))
    with pytest.raises(InvalidJob, match=r"permission denied for schema public; upserts are staged in tables"):
        PostgresSink(conninfo, "t", upsert_keys=["id"]).validate_input(kind, Configuration.from_strings({}))
    server.query("DROP OWNED BY reader")
    for keys in ((), ["id"]):
        PostgresSink(server.conninfo, "t", upsert_keys=keys).validate_input(kind, Configuration.from_strings({}))
    assert staged_tables(server) == rows_of(server) == []


# --- the commit ----------------------------------------------------------------------------------------


_ATTEMPTS = itertools.count(1)


def begun(server: PostgresServer, restored: OperatorSnapshot | None = None) -> Running:
    """An attempt of its own, of the job that left ``restored`` as checkpoint 1."""
    kind = ArrowTypeInfo(pa.schema({"id": pa.int64(), "v": pa.string()}))
    sink = PostgresSink(server.conninfo, "t", upsert_keys=["id"])
    return start(
        spec("sink", input_types=(kind,), options={"sink": sink}),
        attempt=next(_ATTEMPTS),
        restored=None if restored is None else share([restored], 0, 1),
        restored_id=None if restored is None else 1,
        configuration={"sink.committer.retries": "1"},
    )


def fed(running: Running, rows: dict[int, str]) -> None:
    data = pa.record_batch({"id": pa.array(list(rows), pa.int64()), "v": list(rows.values())})
    running.operator.process(ArrowBatch(data, None), 0)


def test_a_commit_that_the_table_refuses_fails_for_good_with_the_row_and_the_command(
    server: PostgresServer, tmp_path: Path
) -> None:
    made(server, "id bigint PRIMARY KEY, v text UNIQUE")
    server.query("INSERT INTO t VALUES (100, 'taken')")
    one = begun(server)
    fed(one, {1: "a", 2: "b", 3: "taken", 4: "d"})
    snapshot = one.snapshot(1)
    with pytest.raises(UserError) as raised:
        one.operator.notify_checkpoint_complete(1)
    one.operator.close()
    message = raised.value.message
    ((name,),) = staged_tables(server)
    assert not raised.value.retriable
    assert "operator 'op': what checkpoint 1 holds is refused" in message
    assert "row 3 of 4 (id = 3)" in message
    assert "t_v_key" in message
    assert f"--only {name}`" in message
    assert f"tidegate txn abort --postgres '{connections.without_secrets(server.conninfo)}'" in message
    with pytest.raises(UserError, match="row 3 of 4"):
        begun(server, snapshot)
    log = PostgresTransactions(server.conninfo)
    (pending,) = log.unlisted(frozenset(), {})
    assert (pending.name, pending.status) == (name, TransactionStatus.PENDING)
    log.abort(pending)
    two = begun(server, snapshot)
    fed(two, {5: "e"})
    two.snapshot(2)
    two.operator.notify_checkpoint_complete(2)
    two.operator.close()
    assert rows_of(server) == [(5, "e"), (100, "taken")]
    assert [t.status for t in log.transactions(listed_in(as_checkpoint(snapshot, tmp_path)))] == [
        TransactionStatus.ABORTED
    ]


def test_an_epoch_is_committed_by_its_name_alone(server: PostgresServer) -> None:
    made(server, "id bigint PRIMARY KEY, v text")
    one = begun(server)
    fed(one, {1: "a"})
    one.snapshot(1)
    one.operator.close()
    log = PostgresTransactions(server.conninfo)
    (pending,) = log.unlisted(frozenset(), {})
    log.commit(pending)
    assert rows_of(server) == [(1, "a")]
    assert staged_tables(server) == []


def test_a_table_that_is_dropped_by_hand_is_an_error_by_name(server: PostgresServer) -> None:
    made(server, "id bigint PRIMARY KEY, v text")
    one = begun(server)
    fed(one, {1: "a"})
    one.snapshot(1)
    ((name,),) = staged_tables(server)
    server.query(f'DROP TABLE "{name}"')
    with pytest.raises(CorruptData, match=f"{name} is gone"):
        one.operator.notify_checkpoint_complete(1)
    one.operator.close()


def test_a_trigger_that_refuses_a_row_is_not_asked_for_ever(server: PostgresServer) -> None:
    made(server, "id bigint PRIMARY KEY, v text")
    server.query(
        "CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.v = 'no' THEN RAISE 'not this one'; END IF; RETURN NEW; END$$"
    )
    server.query("CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()")
    with pytest.raises(UserError, match=r"refuses row 2 of 2 \(id = 8\) of the epoch .*not this one"):
        write(server.conninfo, "t", pa.table({"id": [7, 8], "v": ["yes", "no"]}), ["id"])


def old_epoch(data: pa.Table, keys: list[str], checkpoint_id: int = 1) -> list[Any]:
    """As versions before staging put it into checkpoints."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return [str(Gid.of(context("old"), checkpoint_id)), sink.getvalue().to_pybytes(), "t", keys]


def test_an_epoch_of_an_earlier_version_is_committed_once_or_refused_with_its_row(server: PostgresServer) -> None:
    made(server, "id uuid PRIMARY KEY, v text")
    uuids = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(3)]
    committer = PostgresCommitter(server.conninfo, "test")
    epoch = old_epoch(pa.table({"id": uuids, "v": ["a", "b", "c"]}), ["id"])
    for _ in range(2):
        committer.commit([epoch])
        assert [value for _, value in rows_of(server)] == ["a", "b", "c"]
    refused = old_epoch(pa.table({"id": uuids, "v": ["d", "e\0", "f"]}), ["id"])
    with pytest.raises(UserError, match=f"NUL.*tidegate txn abort CHECKPOINT --postgres .* --only {refused[0]}"):
        committer.commit([refused])
    log = PostgresTransactions(server.conninfo)
    (pending,) = log.transactions([Listed("job", "sink", "sink", 1, refused)])
    log.abort(pending)
    committer.commit([refused])
    committer.close()
    assert [value for _, value in rows_of(server)] == ["a", "b", "c"]


# --- locks ---------------------------------------------------------------------------------------------


def test_a_locked_table_is_an_error_after_a_while_and_the_epoch_is_committed_later(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SETTINGS, "lock_timeout", "200ms")
    made(server, "id bigint PRIMARY KEY, v text")
    one = begun(server)
    fed(one, {1: "a"})
    snapshot = one.snapshot(1)
    with psycopg.connect(server.conninfo) as other:
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ExternalError, match="another session has held the lock") as raised:
            one.operator.notify_checkpoint_complete(1)
    assert raised.value.retriable
    one.operator.close()
    begun(server, snapshot).operator.close()
    assert rows_of(server) == [(1, "a")]


def test_epochs_of_the_same_keys_in_another_order_do_not_lock_each_other_out(server: PostgresServer) -> None:
    made(server, "id int PRIMARY KEY, v int")
    server.query("INSERT INTO t SELECT g, 0 FROM generate_series(1, 5000) g")
    errors: list[BaseException] = []
    begin = threading.Barrier(2, timeout=60)

    def commit(rows: list[int], value: int) -> None:
        try:
            for _ in range(3):
                begin.wait()
                data = {"id": pa.array(rows, pa.int32()), "v": pa.array([value] * len(rows), pa.int32())}
                write(server.conninfo, "t", pa.table(data), ["id"])
        except Exception as error:  # noqa: BLE001  shown below
            errors.append(error)

    numbers = list(range(1, 5001))
    threads = [
        threading.Thread(target=commit, args=(numbers, 1)),
        threading.Thread(target=commit, args=(numbers[::-1], 2)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    assert server.query("SELECT count(DISTINCT v) FROM t") == [(1,)]
