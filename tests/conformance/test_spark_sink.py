"""``to_spark`` conforms: a function that notes application id and epoch with its rows, in SQLite. The driver's half runs in this process, with
Arrow tables for DataFrames."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.sink_suite import RETRIES, SinkConformance, Subject
from tests.conformance.snapshots import share
from tests.unit.taskmanager.operators.harness import Pool, Running, spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Sink, SinkContext
from tidegate.connectors.spark import sink as spark_sink
from tidegate.connectors.spark.sink import MAX_WAITING_EPOCHS, SparkEpoch, SparkSink
from tidegate.connectors.spark.stream_link import RequestFailed, SparkLink
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.model.errors import TidegateError
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.operator import Ending
from tidegate.taskmanager.spark.streams.writing import WriteRequests

LIMIT_S = 30
STATUS = {"written": TransactionStatus.COMMITTED, "given up": TransactionStatus.ABORTED}


class Driver:
    """Answers writes, one connection after the other or several at once."""

    def __init__(self) -> None:
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def connect(self, sink: SparkSink) -> SparkLink:
        ours, theirs = socket.socketpair()
        self._ends += [ours, theirs]
        thread = threading.Thread(target=self._serve, args=(SparkLink(theirs), sink))
        self._threads.append(thread)
        thread.start()
        return SparkLink(ours)

    def close(self) -> None:
        for end in self._ends:
            SparkLink(end).close()
        for thread in self._threads:
            thread.join(10)

    def _serve(self, link: SparkLink, sink: SparkSink) -> None:
        requests = WriteRequests(sink, lambda table: table)
        with suppress(OSError, EOFError):
            while True:
                message, rest = link.receive()
                try:
                    link.send(requests.answer(message, rest))
                except sqlite3.Error as error:
                    link.send(RequestFailed(str(error)))


class NearSink(SparkSink):
    def __init__(self, write: Callable[[Any, SparkEpoch], None], driver: Driver) -> None:
        super().__init__(write)
        self._driver = driver

    def connect(self, context: SinkContext) -> SparkLink:
        return self._driver.connect(self)


def connected(database: str) -> sqlite3.Connection:
    made = sqlite3.connect(database, timeout=30)
    made.execute("CREATE TABLE IF NOT EXISTS rows (value TEXT)")
    made.execute("CREATE TABLE IF NOT EXISTS epochs (app TEXT, epoch INTEGER, status TEXT, PRIMARY KEY (app, epoch))")
    return made


class Noted:
    """The user's function."""

    def __init__(self, database: str) -> None:
        self._database = database

    def __call__(self, rows: pa.Table, epoch: SparkEpoch) -> None:
        with closing(connected(self._database)) as connection, connection:
            known = connection.execute(
                "SELECT 1 FROM epochs WHERE app = ? AND epoch = ?", (epoch.application_id, int(epoch))
            ).fetchall()
            if not known:
                connection.execute("INSERT INTO epochs VALUES (?, ?, 'written')", (epoch.application_id, int(epoch)))
                values = [(value,) for value in rows.column(0).to_pylist()]
                connection.executemany("INSERT INTO rows VALUES (?)", values)


class Epochs(Subject):
    def __init__(self, database: str, driver: Driver) -> None:
        self._database = database
        self._driver = driver

    def sink(self) -> Sink:
        return NearSink(Noted(self._database), self._driver)

    def visible(self) -> list[str]:
        with closing(connected(self._database)) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM rows")]

    def log(self) -> TransactionLog:
        return SqliteEpochs(self._database)


class SqliteEpochs(TransactionLog):
    """Resolves epochs by hand, by what the function notes."""

    system = "sqlite"

    def __init__(self, database: str) -> None:
        self._database = database

    def takes(self, committable: object) -> bool:
        return True

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        return [self._described(one) for one in listed]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        return []  # what no checkpoint holds is nowhere

    def commit(self, transaction: Transaction) -> None:
        _, application_id, epoch, _, content = transaction.committable
        with pa.ipc.open_stream(content) as stream:
            Noted(self._database)(stream.read_all(), SparkEpoch(application_id, epoch))

    def abort(self, transaction: Transaction) -> None:
        with closing(connected(self._database)) as connection, connection:
            key = transaction.committable[1:3]
            connection.execute("INSERT OR IGNORE INTO epochs VALUES (?, ?, 'given up')", key)

    def _described(self, one: Listed) -> Transaction:
        _, application_id, epoch, rows, _ = one.committable
        with closing(connected(self._database)) as connection:
            query = "SELECT status FROM epochs WHERE app = ? AND epoch = ?"
            found = connection.execute(query, (application_id, epoch)).fetchone()
        return Transaction(
            system=self.system,
            name=f"{application_id}/{epoch}",
            place=f"{rows} rows",
            operator=one.operator,
            subtask=0,
            checkpoint_id=one.checkpoint_id,
            status=STATUS[found[0]] if found else TransactionStatus.PENDING,
            listed=True,
            committable=one.committable,
        )


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


class TestSparkSink(SinkConformance):
    @pytest.fixture
    def subject(self, tmp_path: Path, driver: Driver) -> Subject:
        return Epochs(str(tmp_path / "rows.db"), driver)


def test_epochs_come_in_order_under_the_ids_of_the_job_that_voted(driver: Driver) -> None:
    seen: list[tuple[SparkEpoch, list[str]]] = []

    def write(rows: Any, epoch: SparkEpoch) -> None:
        seen.append((epoch, rows.column(0).to_pylist()))

    def begin(**about: Any) -> Any:
        sink = NearSink(write, driver)
        return start(
            spec("sink", input_types=(Types.STRING(),), options={"sink": sink}), configuration=RETRIES, **about
        )

    first = begin()
    for epoch in (1, 2, 12):
        first.feed([f"row of {epoch}"])
        first.snapshot(epoch)
    first.operator.notify_checkpoint_complete(12)
    first.operator.close()
    assert [(int(epoch), rows) for epoch, rows in seen] == [(n, [f"row of {n}"]) for n in (1, 2, 12)]
    assert len({epoch.application_id for epoch, _ in seen}) == 1


def test_epochs_that_are_not_written_stop_the_input_until_they_are(driver: Driver) -> None:
    running = start(
        spec("sink", input_types=(Types.STRING(),), options={"sink": NearSink(lambda rows, epoch: None, driver)}),
        configuration={**RETRIES, "execution.checkpointing.interval": "1 s"},
    )
    for epoch in range(1, MAX_WAITING_EPOCHS + 1):
        assert running.operator.has_room()
        running.feed(["row"])
        running.snapshot(epoch)
    assert not running.operator.has_room()
    running.operator.notify_checkpoint_complete(1)
    assert running.operator.has_room()
    running.operator.close()


def test_rows_of_no_epoch_wait_for_a_barrier_and_not_for_a_write(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their barrier comes behind other rows, so a subtask that did not read these would wait for ever."""
    monkeypatch.setattr(spark_sink, "MAX_WAITING_BYTES", 1000)
    monkeypatch.setattr(spark_sink, "MAX_BYTES_OF_EPOCH", 6000)
    writes, pool = SlowWrites(), Pool()
    running = writes.begin(driver, pool, configuration={**RETRIES, "execution.checkpointing.interval": "1 s"})
    running.feed(["a"])
    running.snapshot(1)
    running.operator.notify_checkpoint_complete(1)
    with writes.writing(pool):
        running.feed(["x" * 2000])
        assert not running.operator.has_room()
        assert not running.operator.waits_for_barrier(), "the write makes space"
    assert not running.operator.has_room()
    assert running.operator.waits_for_barrier(), "nothing is written that would make space"
    running.feed(["y" * 2000])
    running.snapshot(3)
    running.operator.notify_checkpoint_complete(3)
    pool.run_one()
    assert running.operator.has_room()
    with pytest.raises(
        TidegateError, match=r"(?s)before the next checkpoint are more than .*execution\.checkpointing\.interval"
    ):
        running.feed(["z" * 7000])
    running.operator.close()
    assert [(epoch, len(rows)) for epoch, rows in writes.seen] == [(1, 1), (3, 2)]


def test_without_checkpoints_rows_are_taken_to_the_end_as_far_as_they_can_be_written(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No epoch comes that would make room: to wait for it would be to wait for ever."""
    monkeypatch.setattr(spark_sink, "MAX_WAITING_BYTES", 1000)
    monkeypatch.setattr(spark_sink, "MAX_BYTES_OF_EPOCH", 3000)
    seen: list[int] = []

    def begin() -> Running:
        made = NearSink(lambda rows, epoch: seen.append(rows.num_rows), driver)
        return start(spec("sink", input_types=(Types.STRING(),), options={"sink": made}), configuration=RETRIES)

    running = begin()
    running.feed(["x" * 2000])
    assert running.operator.has_room()
    running.operator.finish()
    running.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert seen == [1]
    running.operator.close()

    too_many = begin()
    with pytest.raises(
        TidegateError, match=r"(?s)to_spark: .*all rows of the job are one epoch.*execution\.checkpointing\.interval"
    ):
        too_many.feed(["x" * 4000])
    too_many.operator.close()


def test_a_write_that_raises_names_its_epoch(driver: Driver) -> None:
    def write(rows: Any, epoch: SparkEpoch) -> None:
        raise sqlite3.OperationalError("database is locked")

    running = start(
        spec("sink", input_types=(Types.STRING(),), options={"sink": NearSink(write, driver)}), configuration=RETRIES
    )
    running.feed(["row"])
    running.snapshot(7)
    with pytest.raises(TidegateError, match="the write of epoch 7 failed: database is locked"):
        running.operator.notify_checkpoint_complete(7)
    running.operator.close()


class SlowWrites:
    """A function whose first write waits until it is let go. ``seen``: what was written."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[str]]] = []
        self._begun = threading.Event()
        self._free = threading.Event()

    def __call__(self, rows: Any, epoch: SparkEpoch) -> None:
        self._begun.set()
        assert self._free.wait(LIMIT_S)
        self.seen.append((int(epoch), rows.column(0).to_pylist()))

    def begin(self, driver: Driver, pool: Pool, **about: Any) -> Running:
        sink = NearSink(self, driver)
        running = start(
            spec("sink", input_types=(Types.STRING(),), options={"sink": sink}), **{"configuration": RETRIES, **about}
        )
        running.operator.context.background.run_async = pool.submit
        return running

    @contextmanager
    def writing(self, pool: Pool) -> Iterator[None]:
        """The first write is under way."""
        thread = threading.Thread(target=pool.run_one)
        thread.start()
        try:
            assert self._begun.wait(LIMIT_S)
            yield
        finally:
            self._free.set()
            thread.join(LIMIT_S)


def test_rows_that_come_during_a_write_are_one_epoch_which_a_restore_does_not_put_together_anew(driver: Driver) -> None:
    writes, pool = SlowWrites(), Pool()
    one = writes.begin(driver, pool)
    one.feed(["a"])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    with writes.writing(pool):
        for checkpoint_id, value in ((2, "b"), (3, "c")):
            one.feed([value])
            held = one.snapshot(checkpoint_id)
            one.operator.notify_checkpoint_complete(checkpoint_id)
    assert writes.seen == [(1, ["a"])]
    one.feed(["d"])
    voted = one.snapshot(4)
    one.operator.notify_checkpoint_complete(4)
    pool.run_one()
    assert writes.seen == [(1, ["a"]), (4, ["b", "c", "d"])]
    one.operator.close()

    writes.seen.clear()
    two = writes.begin(driver, pool, restored=share([voted], 0, 1), restored_id=4)
    assert writes.seen == [(4, ["b", "c", "d"])]
    two.operator.close()

    writes.seen.clear()
    three = writes.begin(driver, pool, restored=share([held], 0, 1), restored_id=3)
    three.snapshot(5)
    three.operator.notify_checkpoint_complete(5)
    pool.run_one()
    assert writes.seen == [(1, ["a"]), (5, ["b", "c"])], "epoch 4 was never confirmed, so it was never written"
    three.operator.close()


def test_the_end_of_the_stream_votes_for_all_rows_although_a_write_is_under_way(driver: Driver) -> None:
    writes, pool = SlowWrites(), Pool()
    one = writes.begin(driver, pool)
    one.feed(["a"])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    with writes.writing(pool):
        one.feed(["b"])
        one.snapshot(2)
        one.operator.finish()
        one.snapshot(3)
        one.operator.notify_checkpoint_complete(3)
    assert one.operator.ending() is Ending.COMMITTING
    pool.run_one()
    assert writes.seen == [(1, ["a"]), (3, ["b"])]
    assert one.operator.ending() is Ending.DONE
    one.operator.close()


def test_rows_that_belong_to_no_epoch_keep_a_subtask_from_ending(driver: Driver) -> None:
    writes, pool = SlowWrites(), Pool()
    one = writes.begin(driver, pool)
    one.feed(["a"])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    with writes.writing(pool):
        one.feed(["b"])
        one.snapshot(2)
    assert writes.seen == [(1, ["a"])]
    assert one.operator.ending() is Ending.UNCOMMITTED
    one.operator.close()
