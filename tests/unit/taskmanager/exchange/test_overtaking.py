"""Barriers that overtake: what the producer still had, and what the consumer had or was yet to get, is told exactly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.taskmanager.exchange.harness import Net, rows
from tidegate.model.channel_events import (
    Barrier,
    BarrierAnnouncement,
    CancelBarrier,
    EndOfData,
    EndOfPartition,
    WatermarkEvent,
)
from tidegate.model.checkpoint import Alignment, CheckpointOptions
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.ports import InFlightItem, Overtaken, RecordingEnded
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition
from tidegate.taskmanager.machines.credit import GrantCredit, WindowBounds
from tidegate.wire.channel_messages import decode_event
from tidegate.wire.frames import EncodedBatch, Frame, FrameType, OutgoingFrame, encoded_batch

UNALIGNED = Barrier(7, 1, CheckpointOptions("x", alignment=Alignment.UNALIGNED))
ALIGNED = Barrier(7, 1, CheckpointOptions("x", aligned_timeout_ms=50))
NEXT = Barrier(8, 1, CheckpointOptions("x", alignment=Alignment.UNALIGNED))
ONE_BATCH = WindowBounds(1, 1, 25.0)
"""One batch is on the way at a time."""


@pytest.fixture
def tight(directory: Path) -> Iterable[Net]:
    made = Net(directory, ExchangeSettings(window=ONE_BATCH, frame_rows=1))
    yield made
    made.close()


def values(items: Iterable[InFlightItem]) -> list[object]:
    def value(item: InFlightItem) -> object:
        if isinstance(item, EncodedBatch):
            return item.decode().column("a").to_pylist()
        return item.timestamp_ms if isinstance(item, WatermarkEvent) else item.content

    return [value(item) for item in items]


def sent_values(overtaken: Overtaken) -> list[object]:
    def value(frame: OutgoingFrame) -> object:
        if frame.type is FrameType.BATCH:
            return encoded_batch(frame).decode().column("a").to_pylist()
        return decode_event(frame.payload)

    return [value(frame) for _, frames in overtaken for frame in frames]


def fill(net: Net, partition: PipelinedResultPartition, gate: ChannelInputGate, *numbers: int) -> None:
    """The first reaches the gate, the others wait at the producer for want of credit."""
    for number in numbers:
        partition.emit(rows(number))
    net.wait_for(gate.queued_bytes, "the first batch")


def drain(net: Net, gate: ChannelInputGate, count: int) -> list[object]:
    found: list[object] = []
    while len(found) < count:
        item = net.next(gate)[1]
        found.append(item.data.column("a").to_pylist() if isinstance(item, ArrowBatch) else item)
    return found


def test_what_waits_for_credit_is_output_state_and_what_waits_in_the_gate_is_input_state(tight: Net) -> None:
    partition, gate = tight.pair()
    fill(tight, partition, gate, 1, 2, 3)
    partition.broadcast(WatermarkEvent(30))
    partition.emit(rows(4))
    overtaken = partition.overtake(UNALIGNED)
    assert sent_values(overtaken) == [[2], [3], WatermarkEvent(30), [4]]
    assert tight.wait_for(gate.poll_priority, "the barrier") == (0, UNALIGNED)
    gate.persist(0, 7)
    assert [(c, values(items)) for c, items in gate.take_persisted(7)] == [(0, [[1]])]
    assert drain(tight, gate, 5) == [[1], [2], [3], WatermarkEvent(30), [4]], "and all of it goes on as if nothing was"


def test_what_comes_behind_the_barrier_is_not_recorded_though_the_barrier_was_not_looked_at_yet(tight: Net) -> None:
    partition, address = tight.producer(0, 1)
    gate = tight.consumer(0, [address])
    tight.wait_for(tight.endpoints[-1].all_connected, "the connection")
    partition.emit(rows(1))
    tight.wait_for(gate.queued_bytes, "the batch")
    partition.overtake(UNALIGNED)
    before = gate.queued_bytes()
    partition.broadcast(WatermarkEvent(9))
    tight.wait_for(lambda: gate.queued_bytes() > before, "the watermark behind the barrier")
    gate.persist(0, 7)
    assert [values(items) for _, items in gate.take_persisted(7)] == [[[1]]]


def test_what_comes_before_the_barrier_of_another_channel_is_recorded_until_it_comes(tight: Net) -> None:
    first, first_address = tight.producer(0, 1)
    second, second_address = tight.producer(1, 1)
    gate = tight.consumer(0, [first_address, second_address])
    tight.wait_for(tight.endpoints[-1].all_connected, "the connections")
    second.emit(rows(1))
    tight.wait_for(gate.queued_bytes, "the first batch")
    first.overtake(UNALIGNED)
    assert tight.wait_for(gate.poll_priority, "the barrier") == (0, UNALIGNED)
    gate.persist(0, 7)
    gate.persist(1, 7)
    before = gate.queued_bytes()
    second.broadcast(WatermarkEvent(5))
    tight.wait_for(lambda: gate.queued_bytes() > before, "the watermark")
    assert drain(tight, gate, 2) == [[1], WatermarkEvent(5)], "it is processed meanwhile"
    second.emit(rows(2))
    tight.wait_for(gate.queued_bytes, "the second batch")
    second.overtake(UNALIGNED)
    second.emit(rows(3))
    assert tight.wait_for(gate.poll_priority, "the second barrier") == (1, UNALIGNED)
    assert drain(tight, gate, 2) == [[2], [3]]
    assert [(c, values(items)) for c, items in gate.take_persisted(7)] == [(0, []), (1, [[1], 5, [2]])]


def test_an_aligned_barrier_in_the_gate_overtakes_when_its_channel_is_persisted(tight: Net) -> None:
    partition, gate = tight.pair()
    gate.block(0)
    fill(tight, partition, gate, 1)
    partition.announce(ALIGNED)
    partition.broadcast(WatermarkEvent(3))
    _, announcement = tight.wait_for(gate.poll_priority, "the announcement")
    assert isinstance(announcement, BarrierAnnouncement)
    assert announcement.barrier == ALIGNED
    tight.wait_for(lambda: not partition.holds(7), "the barrier has left")
    assert partition.prioritise(UNALIGNED) == [(0, [])], "too late at the producer"
    gate.persist(0, 7)
    assert tight.wait_for(gate.poll_priority, "the barrier") == (0, ALIGNED)
    assert [values(items) for _, items in gate.take_persisted(7)] == [[[1]]]
    gate.unblock(0)
    assert drain(tight, gate, 2) == [[1], WatermarkEvent(3)]


def test_an_announced_barrier_overtakes_at_the_producer_when_its_time_is_over(tight: Net) -> None:
    partition, gate = tight.pair()
    fill(tight, partition, gate, 1, 2, 3)
    partition.announce(ALIGNED)
    partition.emit(rows(4))
    assert partition.holds(7)
    assert not partition.holds(6)
    assert sent_values(partition.prioritise(UNALIGNED)) == [[2], [3]]
    assert not partition.holds(7)
    assert partition.prioritise(UNALIGNED) == [(0, [])]
    assert isinstance(tight.wait_for(gate.poll_priority, "the announcement")[1], BarrierAnnouncement)
    assert tight.wait_for(gate.poll_priority, "the barrier") == (0, UNALIGNED)
    assert drain(tight, gate, 4) == [[1], [2], [3], [4]], "and no barrier a second time"


def test_a_barrier_that_a_newer_one_overtook_does_not_stand_for_it(tight: Net) -> None:
    """The older checkpoint was aborted: its barrier still comes, behind what the newer one has overtaken, and is awaited no longer."""
    partition, gate = tight.pair()
    fill(tight, partition, gate, 1, 2)
    partition.announce(ALIGNED)
    assert isinstance(tight.wait_for(gate.poll_priority, "the announcement")[1], BarrierAnnouncement)
    gate.persist(0, 7)
    assert sent_values(partition.overtake(NEXT)) == [[2], ALIGNED]
    assert tight.wait_for(gate.poll_priority, "the newer barrier") == (0, NEXT)
    assert drain(tight, gate, 1) == [[1]]
    assert tight.wait_for(gate.poll_priority, "the older barrier") == (0, ALIGNED)
    gate.persist(0, 8)
    assert [values(items) for _, items in gate.take_persisted(8)] == [[]], "it is in flight at the producer"
    assert drain(tight, gate, 1) == [[2]]


@pytest.mark.parametrize("last", [CancelBarrier(7), EndOfPartition(), NEXT], ids=lambda event: type(event).__name__)
def test_a_recording_ends_with_what_stands_for_the_barrier(tight: Net, last: object) -> None:
    partition, gate = tight.pair()
    gate.persist(0, 7)
    fill(tight, partition, gate, 1)
    if last is NEXT:
        partition.overtake(NEXT)
    else:
        partition.broadcast(EndOfData() if isinstance(last, EndOfPartition) else last)  # type: ignore[arg-type]
    if isinstance(last, EndOfPartition):
        partition.broadcast(last)
        assert tight.wait_for(gate.poll_priority, "that nothing more will come") == (0, RecordingEnded(7))
    else:
        assert tight.wait_for(gate.poll_priority, "what ends it, at once") == (0, last)
        partition.emit(rows(2))
    assert drain(tight, gate, 1) == [[1]]
    tight.wait_for(gate.queued_bytes, "what is behind it")
    assert [values(items) for _, items in gate.take_persisted(7)] == [[[1]]]


def test_a_recording_that_was_taken_ends(tight: Net) -> None:
    partition, gate = tight.pair()
    gate.persist(0, 7)
    assert gate.take_persisted(6) == []
    assert gate.take_persisted(7) == [(0, [])]
    fill(tight, partition, gate, 1)
    assert gate.take_persisted(7) == []


def test_a_channel_that_ended_before_it_was_recorded_says_so(tight: Net) -> None:
    partition, gate = tight.pair()
    fill(tight, partition, gate, 1)
    partition.broadcast(EndOfData())
    partition.broadcast(EndOfPartition())
    tight.wait_for(partition.is_drained, "the end")
    gate.persist(0, 7)
    assert gate.poll_priority() == (0, RecordingEnded(7))
    assert [values(items) for _, items in gate.take_persisted(7)] == [[[1]]]
    assert drain(tight, gate, 3) == [[1], EndOfData(), EndOfPartition()]


def test_grants_leave_in_their_order_whichever_thread_decides_them(tight: Net) -> None:
    """Under the lock: a grant of the subtask's thread that left after a later one of the I/O thread would take credit back."""
    partition, gate = tight.pair()
    send, granted, was_locked = gate._send, [], []

    def watched(channel: int, grant: GrantCredit) -> None:
        was_locked.append(gate._lock.locked())
        granted.append(grant.granted_bytes)
        send(channel, grant)

    gate._send = watched
    fill(tight, partition, gate, *range(20))
    assert drain(tight, gate, 20) == [[number] for number in range(20)]
    before = len(granted)
    gate.on_frames(0, [Frame(FrameType.BACKLOG, 0, pa.py_buffer(b""))])
    assert 0 < before < len(granted), "in poll, and for a producer that asks"
    assert all(was_locked)
    assert granted == sorted(granted)
