"""The reader of a Spark stream against a driver in this process, whose workers send rows of lists."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from tests.e2e.waiting import wait_until
from tidegate.connectors.base import Polled, ReaderContext, SplitState
from tidegate.connectors.spark.stream_link import (
    BatchPlanned,
    ForgetBefore,
    Message,
    OpenOperator,
    PartitionEnded,
    PlanBatch,
    RequestDone,
    RequestFailed,
    RowBlock,
    RunBatch,
    SparkLink,
    WorkerHello,
)
from tidegate.connectors.spark.stream_source import SPLIT, SparkStreamSource
from tidegate.model.errors import CorruptData, ExternalError, Unreachable

SCHEMA = pa.schema([("id", pa.int64())])
LIMIT_S = 30


class Driver:
    """``batches``: partitions of blocks of rows. Offsets are the numbers of batches that were read."""

    def __init__(self, batches: list[list[list[list[int]]]]) -> None:
        self.batches = batches
        self.requests: list[Message] = []
        self.failing = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}/token"
        self._threads = [threading.Thread(target=self._accept)]
        self._links: list[SparkLink] = []
        self._threads[0].start()

    def close(self) -> None:
        SparkLink(self._listener).close()
        accepting, *_ = self._threads
        accepting.join(LIMIT_S)  # it may have a connection in hand
        for link in self._links:
            link.close()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._links.append(SparkLink(connection))
            self._threads.append(threading.Thread(target=self._serve, args=(self._links[-1],)))
            self._threads[-1].start()

    def _serve(self, link: SparkLink) -> None:
        planned = 0
        try:
            while True:
                message, _ = link.receive()
                self.requests.append(message)
                match message:
                    case OpenOperator() | ForgetBefore():
                        link.send(RequestDone())
                    case PlanBatch():
                        start = 0 if message.starts is None else int(message.starts[0] or 0)
                        end = min(start + 1, len(self.batches))
                        planned = start
                        count = len(self.batches[start]) if end > start else 0
                        link.send(BatchPlanned((str(start),), (str(end),), {}, count, {"filesOutstanding": 3.0}))
                    case RunBatch():
                        link.send(self._run(message, self.batches[planned]))
        except (OSError, EOFError):
            return

    def _run(self, run: RunBatch, partitions: list[list[list[int]]]) -> Message:
        workers = [
            threading.Thread(target=push, args=(run, partition, blocks)) for partition, blocks in enumerate(partitions)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(LIMIT_S)
        return RequestFailed(self.failing, "trace") if self.failing else RequestDone()


def push(run: RunBatch, partition: int, blocks: list[list[int]]) -> None:
    """What one of Spark's workers does."""
    running = xxhash.xxh3_64()
    try:
        link = SparkLink.to(run.address)
    except Unreachable:  # the reader was closed meanwhile
        return
    try:
        link.send(WorkerHello(run.secret, run.batch, partition))
        for number, rows in enumerate(blocks):
            content = pa.record_batch([pa.array(rows, pa.int64())], schema=SCHEMA).serialize()
            running.update(content)
            link.send(RowBlock(partition, number, running.hexdigest()), memoryview(content))
        link.send(PartitionEnded(partition, len(blocks)))
        link.receive()
    except (OSError, EOFError):
        return
    finally:
        link.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver([[[[1, 2], [3]], [[4]]], [[[5, 6]]]])
    yield made
    made.close()


class Reading:
    def __init__(self, driver: Driver, state: list[SplitState] | None = None, **about: Any) -> None:
        source = SparkStreamSource(lambda spark: spark.table("t"), SCHEMA, 2, 0.01)
        context = ReaderContext(0, 1, 128, "j", "a", "o", spark_service=driver.address, **about)
        self.reader = source.make_reader(context)
        self.reader.open(state or [SplitState(split) for split in source.list_splits(1)])

    def poll(self) -> Polled:
        found = wait_until(self.reader.poll, LIMIT_S, "the reader has rows")
        assert found is not None
        return found

    def rows(self, count: int) -> list[int]:
        """So many, one after the other, as they were emitted."""
        found: list[int] = []
        while len(found) < count:
            batch = self.poll().batch
            for value in batch.data.column(0).to_pylist():  # type: ignore[union-attr]
                if len(found) < count:
                    self.reader.advance(1)
                    found.append(value)
        return found


def test_all_partitions_of_all_batches_are_read(driver: Driver) -> None:
    reading = Reading(driver)
    assert sorted(reading.rows(4)) == [1, 2, 3, 4]
    assert reading.rows(2) == [5, 6]
    assert not reading.reader.is_finished()
    reading.reader.close()


@pytest.mark.parametrize("emitted", range(7))
def test_a_restored_reader_gives_the_rows_that_were_not_emitted(driver: Driver, emitted: int) -> None:
    first = Reading(driver)
    before = first.rows(emitted)
    state = first.reader.snapshot_state()
    first.reader.close()
    second = Reading(driver, state)
    assert sorted(before + second.rows(6 - emitted)) == [1, 2, 3, 4, 5, 6]
    second.reader.close()


def test_a_source_that_gives_other_rows_is_refused(driver: Driver) -> None:
    first = Reading(driver)
    first.rows(3)
    state = first.reader.snapshot_state()
    first.reader.close()
    driver.batches[0] = [[[7, 7], [7]], [[7]]]
    second = Reading(driver, state)
    with pytest.raises(CorruptData, match="gave other rows than before"):
        second.rows(6)
    second.reader.close()


def test_the_sources_hear_of_a_completed_checkpoint_what_they_may_forget(driver: Driver) -> None:
    reading = Reading(driver)
    reading.rows(6)
    reading.reader.note_snapshot(1, reading.reader.snapshot_state())
    wait_until(lambda: reading.reader.poll() or len(driver.requests) > 8, LIMIT_S, "the batch is over")
    reading.reader.note_snapshot(2, reading.reader.snapshot_state())
    assert not [message for message in driver.requests if isinstance(message, ForgetBefore)]
    reading.reader.notify_checkpoint_complete(2)
    wait_until(lambda: ForgetBefore(("2",)) in driver.requests, LIMIT_S, "the driver heard of it")
    reading.reader.note_snapshot(3, reading.reader.snapshot_state())
    reading.reader.notify_checkpoint_complete(3)
    heard = len(driver.requests)
    wait_until(lambda: len(driver.requests) > heard + 2, LIMIT_S, "the reader went on asking")
    assert driver.requests.count(ForgetBefore(("2",))) == 1, "nothing is new for them"
    reading.reader.close()


def test_a_batch_that_fails_is_the_error_of_the_source(driver: Driver) -> None:
    driver.failing = "executor lost"
    reading = Reading(driver, operator_name="rows")
    with pytest.raises(ExternalError, match="operator 'rows': batch 0 of the Spark stream, from 0 to 1: executor lost"):
        reading.rows(6)
    reading.reader.close()


def test_a_driver_that_is_gone_is_an_error_of_the_source(driver: Driver) -> None:
    reading = Reading(driver)
    reading.rows(1)
    driver.close()
    with pytest.raises(Unreachable):
        reading.rows(6)
    reading.reader.close()


def test_what_the_sources_tell_of_their_lag_is_shown(driver: Driver) -> None:
    shown: dict[str, Any] = {}
    reading = Reading(driver, watch=shown.__setitem__)
    reading.rows(1)
    assert shown["filesOutstanding"]() == 3.0
    reading.reader.close()


def test_the_partitions_of_a_batch_hold_event_time_back(driver: Driver) -> None:
    expected: list[str] = []

    class Times:
        def assigned(self, split_id: str) -> None:
            raise AssertionError

        def expected(self, split_id: str, first: Any = None) -> None:
            expected.append(split_id)

    reading = Reading(driver, times=Times())
    split = reading.poll().split_id
    assert expected == ["0/0", "0/1"]
    assert split in expected
    assert reading.reader.finished_splits() == {SPLIT}
    reading.reader.close()
