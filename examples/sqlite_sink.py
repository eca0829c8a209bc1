"""Exactly once into SQLite, by a sink function of your own: ``TwoPhaseCommitSinkFunction`` with a pool of transactional ids.

    tidegate run -p 2 examples/sqlite_sink.py --database /tmp/words.db README.md docs
    sqlite3 /tmp/words.db "SELECT value, count(*) FROM visible GROUP BY 1 ORDER BY 2 DESC LIMIT 5"

SQLite has no two-phase commit, so the tables make one. A row belongs to a transaction, a transaction has a status, and readers look at
the view ``visible``, which shows rows of committed transactions:

    begin ─▶ open ─▶ pre_commit: rows are written, durable ─▶ pre-committed ─▶ commit: one UPDATE ─▶ committed
                └──────────────── abort: rows are deleted ────────────┴─▶ aborted, or given up by hand

An id is used again and again; each use has a higher ``epoch``. So a process that was thought dead cannot write into what its successor
began under the same id, and a commit that is repeated, by whomever, changes nothing.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
from collections.abc import Collection, Iterator

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.files import FileSource
from tidegate.datastream import RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.transactional_ids import TransactionalIdsSinkFunction

TABLES = """
CREATE TABLE IF NOT EXISTS rows (id TEXT, epoch INTEGER, value TEXT);
CREATE INDEX IF NOT EXISTS rows_of ON rows (id, epoch);
CREATE TABLE IF NOT EXISTS transactions (id TEXT, epoch INTEGER, status TEXT, PRIMARY KEY (id, epoch));
CREATE VIEW IF NOT EXISTS visible AS SELECT value FROM rows JOIN transactions USING (id, epoch) WHERE status = 'committed';
"""

Transaction = list[str | int]
"""``[id, epoch]``."""


class SqliteSink(TransactionalIdsSinkFunction[str, Transaction]):
    """Strings into the table ``rows``."""

    def __init__(self, database: str, prefix: str = "sink") -> None:
        super().__init__(prefix)
        self.database = database

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self.connection = connect(self.database)
        self.written: list[str] = []

    def begin_transaction(self) -> Transaction:
        transactional_id = self.next_transactional_id()
        self.abort_transactional_ids([transactional_id])
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            ((epoch,),) = connection.execute(
                "SELECT coalesce(max(epoch), 0) + 1 FROM transactions WHERE id = ?", [transactional_id]
            )
            connection.execute("INSERT INTO transactions VALUES (?, ?, 'open')", [transactional_id, epoch])
        self.written = []
        return [transactional_id, epoch]

    def invoke(self, transaction: Transaction, value: str, context: TransactionalIdsSinkFunction.Context) -> None:
        self.written.append(value)

    def pre_commit(self, transaction: Transaction) -> None:
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO rows VALUES (?, ?, ?)", [(*transaction, value) for value in self.written]
            )
            moved = connection.execute(
                "UPDATE transactions SET status = 'pre-committed' WHERE id = ? AND epoch = ? AND status = 'open'",
                transaction,
            )
            if moved.rowcount != 1:
                raise RuntimeError(f"{transaction} was aborted by another process, which has this id now")

    def commit(self, transaction: Transaction) -> None:
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(
                "SELECT status FROM transactions WHERE id = ? AND epoch = ?", transaction
            ).fetchone()
            status = "unknown" if found is None else found[0]
            if status == "pre-committed":
                connection.execute(
                    "UPDATE transactions SET status = 'committed' WHERE id = ? AND epoch = ?", transaction
                )
            elif status not in ("committed", "given up"):
                raise RuntimeError(f"{transaction} is {status} in {self.database}: its rows are lost")

    def abort(self, transaction: Transaction) -> None:
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            moved = connection.execute(
                "UPDATE transactions SET status = 'aborted' WHERE id = ? AND epoch = ? AND status <> 'committed'",
                transaction,
            )
            if moved.rowcount:
                connection.execute("DELETE FROM rows WHERE id = ? AND epoch = ?", transaction)

    def transactional_id_of(self, transaction: Transaction) -> str:
        return str(transaction[0])

    def abort_transactional_ids(self, transactional_ids: Collection[str]) -> None:
        for transactional_id in transactional_ids:
            query = "SELECT id, epoch FROM transactions WHERE id = ? AND status IN ('open', 'pre-committed')"
            for transaction in self.connection.execute(query, [transactional_id]).fetchall():
                self.abort(list(transaction))

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


def connect(database: str) -> sqlite3.Connection:
    """The database, with its tables. Subtasks wait for each other, 60 s at most."""
    connection = sqlite3.connect(database, timeout=60, isolation_level=None)
    connection.executescript(TABLES)
    return connection


def words(line: str) -> Iterator[str]:
    yield from re.findall(r"[\w']+", line.lower())


def main() -> None:
    parser = argparse.ArgumentParser(description="write the words of text files into a SQLite database, exactly once")
    parser.add_argument("paths", nargs="+", help="text files, or directories of them")
    parser.add_argument("--database", required=True, help="file of the database; it is made when it is missing")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    lines = env.from_source(FileSource.for_text(*arguments.paths), WatermarkStrategy.no_watermarks(), "lines")
    lines.flat_map(words, Types.STRING()).name("words").add_sink(SqliteSink(arguments.database)).name("sqlite").uid(
        "sqlite"
    )
    env.execute("words into SQLite")


if __name__ == "__main__":
    main()
