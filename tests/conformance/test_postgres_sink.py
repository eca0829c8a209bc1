"""The PostgreSQL sink conforms, against a real server: new rows, and upserts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.sink_suite import SinkConformance, Subject
from tests.servers.postgres_server import PostgresServer
from tidegate.connectors.base import Sink
from tidegate.connectors.postgres.open_transactions import PostgresTransactions
from tidegate.connectors.postgres.rows import copy
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.connectors.transactions import TransactionLog

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]  # the first may have to fetch the server


class Rows(Subject):
    def __init__(self, server: PostgresServer, *, upserts: bool) -> None:
        self._server = server
        self._keys = ("value",) if upserts else ()
        for (gid,) in server.query("SELECT gid FROM pg_prepared_xacts"):
            server.query(f"ROLLBACK PREPARED '{gid}'")
        server.query("DROP TABLE IF EXISTS tidegate_commits")
        server.query("DROP TABLE IF EXISTS words")
        server.query("CREATE TABLE words (value text" + (" PRIMARY KEY)" if upserts else ")"))

    def sink(self) -> Sink:
        return PostgresSink(self._server.conninfo, "words", upsert_keys=self._keys)

    def visible(self) -> list[str]:
        return [value for (value,) in self._server.query("SELECT value FROM words")]

    def log(self) -> TransactionLog:
        return PostgresTransactions(self._server.conninfo)


class TestNewRows(SinkConformance):
    @pytest.fixture
    def subject(self, server: PostgresServer) -> Subject:
        return Rows(server, upserts=False)

    def test_a_transaction_that_somebody_rolled_back_is_an_error_by_name(
        self, subject: Subject, server: PostgresServer
    ) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        one.snapshot(1)
        ((gid,),) = server.query("SELECT gid FROM pg_prepared_xacts")
        server.query(f"ROLLBACK PREPARED '{gid}'")
        with pytest.raises(Exception, match=f"{gid} is gone"):
            one.operator.notify_checkpoint_complete(1)

    def test_small_batches_are_copied_together_and_a_vote_copies_the_rest(
        self, subject: Subject, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copied: list[int] = []

        def count(connection: Any, into: str, names: Sequence[str], texts: Sequence[pa.Array]) -> None:
            copied.append(len(texts[0]))
            copy(connection, into, names, texts)

        monkeypatch.setattr("tidegate.connectors.postgres.sink.copy", count)
        monkeypatch.setattr("tidegate.connectors.postgres.sink.GATHERED_ROWS", 3)
        one = self.begin(subject)
        for word in "abcde":
            one.feed([word])
        assert copied == [3]
        one.snapshot(1)
        assert copied == [3, 2]
        one.operator.notify_checkpoint_complete(1)
        assert sorted(subject.visible()) == list("abcde")

    def test_a_server_that_crashes_between_vote_and_commit_loses_nothing(
        self, subject: Subject, server: PostgresServer
    ) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        server.stop()
        server.start()
        self.begin(subject, [snapshot], 1).operator.close()
        assert subject.visible() == ["a"]
        assert server.query("SELECT gid FROM pg_prepared_xacts") == []


class TestUpserts(SinkConformance):
    @pytest.fixture
    def subject(self, server: PostgresServer) -> Subject:
        return Rows(server, upserts=True)
