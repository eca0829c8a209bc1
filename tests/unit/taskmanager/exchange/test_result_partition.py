"""Gathering, cutting and framing, without sockets; and the subpartition between the two threads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.taskmanager.exchange.harness import Net, output_of, producer_id, rows, spec_of
from tidegate.model.channel_events import EndOfPartition, WatermarkEvent
from tidegate.model.graph import Partitioner
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.endpoint import DataEndpoint
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.ports import InputGate, ResultPartition
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.wire.frames import FrameType

BOUNDS = WindowBounds(1_000, 20_000, 25.0)
PLENTY = 10**9


class Bench:
    """A partition whose subpartitions are taken by hand."""

    def __init__(
        self, kind: Partitioner = Partitioner.GLOBAL, consumers: int = 1, settings: ExchangeSettings | None = None
    ) -> None:
        self.wakeups = 0
        self.now_ms = 0.0
        self.subpartitions = [Subpartition(BOUNDS, lambda: self.now_ms, self._wakeup) for _ in range(consumers)]
        self.partition: ResultPartition = PipelinedResultPartition(
            output_of(kind, consumers), spec_of(kind), 0, self.subpartitions, settings or ExchangeSettings()
        )

    def _wakeup(self) -> None:
        self.wakeups += 1

    def open(self, credit: int = PLENTY) -> None:
        for subpartition in self.subpartitions:
            subpartition.attach("consumer", lambda: None)
            subpartition.credit.on_credit(credit, 0)

    def taken(self, index: int = 0) -> list[tuple[str, int]]:
        return [(frame.type.name, backlog) for frame, backlog in self.subpartitions[index].take(PLENTY)]


def test_pieces_are_gathered_until_rows_or_bytes_or_an_event() -> None:
    bench = Bench(settings=ExchangeSettings(frame_rows=10, frame_bytes=1000))
    bench.open()
    bench.partition.emit(rows(*range(9)))
    assert bench.taken() == []
    bench.partition.emit(rows(9))
    assert [name for name, _ in bench.taken()] == ["SCHEMA", "BATCH"]
    bench.partition.emit(ArrowBatch(pa.record_batch({"a": pa.array(["x" * 1000])})))
    assert [name for name, _ in bench.taken()] == ["SCHEMA", "BATCH"]
    bench.partition.emit(rows(1))
    bench.partition.broadcast(WatermarkEvent(1))
    assert [name for name, _ in bench.taken()] == ["SCHEMA", "BATCH", "EVENT"]
    bench.partition.flush()
    assert bench.taken() == []


def test_batches_of_another_schema_are_not_gathered_together() -> None:
    bench = Bench()
    bench.open()
    bench.partition.emit(rows(1))
    bench.partition.emit(ArrowBatch(rows(2).data, pa.array([7])))
    bench.partition.flush()
    assert [name for name, _ in bench.taken()] == ["SCHEMA", "BATCH"] * 2


def test_large_batches_are_cut() -> None:
    bench = Bench(settings=ExchangeSettings(cut_bytes=8_000))
    bench.open()
    bench.partition.emit(rows(*range(4_500)))
    bench.partition.flush()
    assert [name for name, _ in bench.taken()] == ["SCHEMA", *["BATCH"] * 5]


def test_frames_for_a_slow_consumer_are_smaller_and_so_are_slices() -> None:
    """It says by its credit how much it takes."""
    bench = Bench(settings=ExchangeSettings(frame_bytes=100_000))
    first, credit = WindowBounds().first_bytes, bench.subpartitions[0].credit
    bench.subpartitions[0].attach("consumer", lambda: None)
    assert bench.partition.slice_bytes() == first, "it has granted nothing yet"

    credit.on_credit(500, 0)
    assert bench.partition.slice_bytes() == 500
    bench.partition.emit(rows(*range(30)))
    assert bench.taken() == []
    assert bench.partition.is_available()
    bench.partition.emit(rows(*range(270)))  # more than is gathered
    assert not bench.partition.is_available()
    assert [name for name, _ in bench.taken()] == ["SCHEMA", "BATCH"], "the second of five waits for credit"
    credit.on_credit(PLENTY, 500)
    assert bench.partition.slice_bytes() is None
    bench.partition.emit(rows(*range(400)))
    assert [name for name, _ in bench.taken()] == ["BATCH"] * 4
    bench.partition.flush()
    assert [name for name, _ in bench.taken()] == ["BATCH"], "one frame for a fast one"


def test_a_producer_that_was_refused_is_woken_when_a_credit_raises_its_limit() -> None:
    bench = Bench()
    credit = bench.subpartitions[0].credit
    bench.subpartitions[0].attach("consumer", lambda: None)
    credit.on_credit(500, 0)
    bench.partition.emit(rows(*range(50)))
    bench.partition.flush()
    bench.taken()
    bench.partition.emit(rows(*range(100)))
    bench.partition.flush()
    assert not bench.partition.is_available()
    assert bench.wakeups == 0
    credit.on_credit(PLENTY, 1)
    bench.taken()
    assert bench.wakeups == 1
    assert bench.partition.is_available()


def test_a_broadcast_is_framed_once_for_all() -> None:
    bench = Bench(Partitioner.BROADCAST, consumers=3)
    bench.open()
    bench.partition.emit(rows(1, 2))
    bench.partition.flush()
    frames = [[frame for frame, _ in s.take(PLENTY)] for s in bench.subpartitions]
    assert [len(found) for found in frames] == [2, 2, 2]
    assert frames[0][1] is frames[1][1] is frames[2][1]


def test_without_credit_batches_wait_and_say_so_once() -> None:
    bench = Bench()
    bench.partition.emit(rows(1))
    bench.partition.broadcast(WatermarkEvent(1))
    assert [name for name, _ in bench.taken()] == ["SCHEMA"]
    bench.open(credit=1)
    subpartition = bench.subpartitions[0]
    assert [name for name, _ in bench.taken()][-2:] == ["BATCH", "EVENT"]
    bench.partition.emit(rows(2))
    bench.partition.flush()
    assert bench.taken() == []
    assert subpartition.waits_for_credit() == bench.partition.queued_bytes() > 0
    assert subpartition.waits_for_credit() == 0
    subpartition.credit.on_credit(1, subpartition.credit.sent)
    assert [name for name, _ in bench.taken()] == ["BATCH"]


def test_full_and_available_again_wakes_the_runtime() -> None:
    bench = Bench(settings=ExchangeSettings(frame_bytes=1))
    bench.open()
    while bench.partition.is_available():
        bench.partition.emit(rows(*range(100)))
    assert bench.partition.queued_bytes() < BOUNDS.max_bytes
    assert bench.wakeups == 0
    bench.taken()
    assert (bench.wakeups, bench.partition.is_available()) == (1, True)


def test_the_bound_follows_how_fast_the_consumer_is() -> None:
    bench = Bench(settings=ExchangeSettings(frame_bytes=1))
    bench.open()
    for _ in range(300):
        bench.partition.emit(rows(*range(10)))
        bench.now_ms += 10.0
        bench.taken()
        bench.subpartitions[0].credit.on_credit(PLENTY, 1)
    slow = 0
    while bench.partition.is_available():
        bench.partition.emit(rows(*range(10)))
        slow = bench.partition.queued_bytes()
    assert slow <= BOUNDS.min_bytes + 500


def test_drained_when_the_consumer_received_the_end_or_is_gone() -> None:
    for received in (True, False):
        bench = Bench()
        bench.open()
        bench.partition.broadcast(EndOfPartition())
        assert not bench.partition.is_drained()
        bench.taken()
        assert not bench.partition.is_drained()
        bench.subpartitions[0].detach(end_was_sent=received)
        assert bench.partition.is_drained()


def test_drained_also_when_the_consumer_was_gone_before_the_end() -> None:
    bench = Bench()
    bench.open()
    bench.subpartitions[0].detach(end_was_sent=False)
    assert not bench.partition.is_drained()
    bench.partition.broadcast(EndOfPartition())
    assert bench.partition.is_drained()


def test_nothing_comes_after_the_end() -> None:
    bench = Bench()
    bench.partition.broadcast(EndOfPartition())
    with pytest.raises(AssertionError, match="after the end of edge 3"):
        bench.partition.emit(rows(1))
    with pytest.raises(AssertionError, match="after the end of edge 3"):
        bench.partition.broadcast(WatermarkEvent(1))


def test_a_push_asks_for_the_io_thread_only_when_that_rests() -> None:
    bench = Bench(settings=ExchangeSettings(frame_bytes=1))
    calls: list[int] = []
    subpartition = bench.subpartitions[0]
    subpartition.attach("consumer", lambda: calls.append(1))
    subpartition.credit.on_credit(PLENTY, 0)
    assert subpartition.take(PLENTY) == []
    bench.partition.emit(rows(1))
    bench.partition.emit(rows(2))
    assert len(calls) == 1
    assert len(subpartition.take(PLENTY)) == 3
    bench.partition.emit(rows(3))
    assert len(calls) == 1, "it has not seen the empty queue yet"
    assert [frame.type for frame, _ in subpartition.take(PLENTY)] == [FrameType.BATCH]
    assert subpartition.take(PLENTY) == []
    bench.partition.emit(rows(4))
    assert len(calls) == 2


def test_both_ends_keep_the_contract(net: Net) -> None:
    endpoint: DataEndpoint = net.endpoint(producer_id(0))
    partition: ResultPartition = endpoint.add_output(output_of(Partitioner.GLOBAL, 1), spec_of(Partitioner.GLOBAL))
    gate: InputGate = endpoint.add_inputs(())
    assert gate.channels == 0
    assert endpoint.all_connected()
    partition.close()
    gate.close()
