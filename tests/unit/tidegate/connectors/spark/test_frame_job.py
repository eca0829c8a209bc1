"""The subtask's half of a job that Spark runs as one, with the driver's half over a real connection; the DataFrame is an Arrow table."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from tidegate.connectors.base import ReaderContext, SourceReader, SplitState
from tidegate.connectors.spark.frame_job import EPOCH, SparkFrameJob
from tidegate.connectors.spark.sink import SparkEpoch, SparkSink
from tidegate.connectors.spark.source import SparkSource
from tidegate.connectors.spark.stream_link import RequestFailed, SparkLink
from tidegate.model.errors import ExternalError, TidegateError, UserFunctionError
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.spark.streams.writing import FrameRequests

LIMIT_S = 30
ROWS = pa.table({"id": [1, 2]})


class Driver:
    """Serves one connection after the other, until it is closed."""

    def __init__(self, write: Callable[[Any, SparkEpoch], None]) -> None:
        self.job = SparkFrameJob(
            SparkSource(lambda spark: spark.range(2), ROWS.schema, False), [], SparkSink(write), ROWS.schema, 1
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}/token"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        SparkLink(self._listener).close()
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._answer(SparkLink(connection))

    def _answer(self, link: SparkLink) -> None:
        requests = FrameRequests(self.job.sink, lambda: ROWS)  # a table for a frame
        with suppress(OSError, EOFError):
            while True:
                message, rest = link.receive()
                try:
                    link.send(requests.answer(message, rest))
                except ValueError as error:
                    link.send(RequestFailed(f"ValueError: {error}"))
                except KeyError as error:
                    link.send(RequestFailed(f"KeyError: {error}", is_users=True))
        link.close()


@contextmanager
def reading(write: Callable[[Any, SparkEpoch], None], retries: int = 2) -> Iterator[SourceReader]:
    driver = Driver(write)
    settings = {"sink.committer.retries": str(retries)}
    about = ReaderContext(
        0, 1, 128, "job", "attempt", "op", settings, spark_service=driver.address, operator_name="Source: Spark"
    )
    reader = driver.job.make_reader(about)
    try:
        reader.open([SplitState(split) for split in driver.job.list_splits(1)])
        yield reader
    finally:
        reader.close()
        driver.close()


def finished(reader: SourceReader) -> None:
    """Polls until it is. Raises its error."""
    waiting = threading.Event()
    for _ in range(LIMIT_S * 100):
        assert reader.poll() is None, "no row comes to the subtask"
        if reader.is_finished():
            return
        waiting.wait(0.01)
    raise AssertionError(f"not finished after {LIMIT_S} s")


def test_the_write_gets_the_rows_under_the_ids_of_a_last_epoch() -> None:
    seen: list[tuple[int, SparkEpoch]] = []
    with reading(lambda rows, epoch: seen.append((rows.num_rows, epoch))) as reader:
        finished(reader)
        assert [state.split.split_id for state in reader.snapshot_state()] == ["job"]
    assert seen == [(2, SparkEpoch("tidegate-job-op", EOI_CHECKPOINT_ID))]
    assert EPOCH == EOI_CHECKPOINT_ID


def test_a_write_that_raises_is_tried_again_under_the_same_ids() -> None:
    seen: list[SparkEpoch] = []

    def write(rows: Any, epoch: SparkEpoch) -> None:
        seen.append(epoch)
        if len(seen) < 3:
            raise ValueError("the table is locked")

    with reading(write) as reader:
        finished(reader)
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("the table is locked"), ExternalError), (KeyError("cents"), UserFunctionError)]
)
def test_what_is_given_up_is_said_with_operator_and_epoch(error: Exception, kind: type[TidegateError]) -> None:
    def write(rows: Any, epoch: SparkEpoch) -> None:
        raise error

    message = rf"operator 'Source: Spark': the write of epoch {EPOCH} failed in 2 attempts: {type(error).__name__}"
    with reading(write, retries=1) as reader, pytest.raises(kind, match=message):
        finished(reader)


def test_a_driver_that_is_not_there_is_no_end() -> None:
    about = ReaderContext(
        0,
        1,
        128,
        "j",
        "a",
        "op",
        {"sink.committer.retries": "0"},
        spark_service="127.0.0.1:1/token",
        operator_name="op",
    )
    job = SparkFrameJob(
        SparkSource(lambda spark: spark.range(2), ROWS.schema, False), [], SparkSink(print), ROWS.schema, 1
    )
    reader = job.make_reader(about)
    reader.open([])
    with pytest.raises(ExternalError, match="operator 'op': the write of epoch .* failed in 1 attempts"):
        finished(reader)
    reader.close()
