"""Two or more endpoints over real sockets: order, bounds, isolation, and every way that a peer can go wrong."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.taskmanager.exchange.harness import (
    EDGE,
    Net,
    output_of,
    producer_id,
    rows,
    spec_of,
)
from tests.unit.taskmanager.exchange.raw_peers import fake_producer
from tidegate.model.channel_events import Barrier, EndOfData, EndOfPartition, UserEvent, WatermarkEvent
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.deployment import OutputDeployment, ProducerAddress
from tidegate.model.errors import SubtaskLost, UnknownAttempt, Unreachable, UserError
from tidegate.model.graph import Partitioner
from tidegate.model.program import KeySpec, OutputSpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.exchange_settings import Elapsed, ExchangeSettings, WorkMeter
from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.wire.channel_messages import encode_event

BARRIER = Barrier(1, 2, CheckpointOptions("file:///c"))
SMALL = WindowBounds(1000, 50_000, 25.0)
TIGHT = ExchangeSettings(window=SMALL, queue=SMALL, frame_bytes=4_000, cut_bytes=8_000)


@pytest.mark.parametrize("listen", ["unix", "127.0.0.1"])
def test_batches_and_events_keep_their_order_to_the_end(directory: Path, listen: str) -> None:
    net = Net(directory, listen=None if listen == "unix" else listen)
    partition, gate = net.pair()
    partition.emit(rows(1, 2))
    partition.emit(rows(3))
    partition.broadcast(WatermarkEvent(7))
    partition.emit(rows())
    partition.emit(ArrowBatch(pa.record_batch({"a": [4]}), pa.array([99])))
    partition.broadcast(BARRIER)
    partition.broadcast(EndOfData())
    partition.broadcast(EndOfPartition())
    assert net.next_values(gate) == [1, 2, 3]
    assert net.next_event(gate) == WatermarkEvent(7)
    item = net.next(gate)[1]
    assert isinstance(item, ArrowBatch)
    assert item.timestamps is not None
    assert (item.data.to_pydict(), item.timestamps.to_pylist()) == ({"a": [4]}, [99])
    assert [net.next_event(gate) for _ in range(3)] == [BARRIER, EndOfData(), EndOfPartition()]
    net.wait_for(partition.is_drained, "the end to be received")
    assert gate.poll() is None
    net.close()


def test_a_consumer_sends_events_against_the_stream_to_the_producers_of_an_input(net: Net) -> None:
    came: list[tuple[int, bytes]] = []
    endpoint = net.endpoint(producer_id(0), on_task_event=lambda edge_id, payload: came.append((edge_id, payload)))
    partition = endpoint.add_output(output_of(Partitioner.REBALANCE, 1), spec_of(Partitioner.REBALANCE))
    gate = net.consumer(0, [ProducerAddress(producer_id(0), endpoint.start())])
    consumer = net.endpoints[-1]
    net.wait_for(consumer.all_connected, "the connection")
    for input_index in (0, 1, None):
        consumer.send_task_event(UserEvent(bytes([input_index or 7])), input_index)
    partition.emit(rows(1))
    partition.flush()
    assert net.next_values(gate) == [1], "and the stream goes on"
    net.wait_for(lambda: len(came) == 2, "two events: there is no input 1")
    assert came == [(EDGE, encode_event(UserEvent(b"\x07")))] * 2
    partition.broadcast(EndOfPartition())
    assert net.next_event(gate) == EndOfPartition()
    net.wait_for(partition.is_drained, "the end to be received")
    consumer.send_task_event(UserEvent(b"late"), 0)
    consumer.check()


def test_flush_sends_what_was_gathered(net: Net) -> None:
    partition, gate = net.pair()
    partition.emit(rows(1))
    assert partition.queued_bytes() > 0
    partition.flush()
    assert net.next_values(gate) == [1]
    assert partition.queued_bytes() == gate.queued_bytes() == 0
    assert not partition.is_drained()


def test_batches_that_wait_come_as_one_up_to_a_size_and_never_across_an_event(net: Net) -> None:
    partition, gate = net.pair()
    for value in range(4):
        partition.emit(rows(value))
        partition.flush()
    partition.broadcast(WatermarkEvent(7))
    partition.emit(rows(4))
    partition.emit(ArrowBatch(pa.record_batch({"a": [5]}), pa.array([99])))  # other columns on the wire
    partition.broadcast(EndOfPartition())
    net.wait_for(partition.is_drained, "everything to be received")
    one = gate.queued_bytes() // 7
    taken = [gate.poll(gather_bytes) for gather_bytes in (2 * one + one // 2, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 0)]
    items = [found[1] for found in taken if found is not None]
    values = [item.data.column("a").to_pylist() if isinstance(item, ArrowBatch) else item for item in items]
    assert values == [[0, 1], [2, 3], WatermarkEvent(7), [4], [5], EndOfPartition()]
    assert gate.queued_bytes() == 0


def test_large_values_and_larger_than_any_window(directory: Path) -> None:
    net = Net(directory, TIGHT)
    partition, gate = net.pair()
    texts = [chr(97 + at) * 1_000_000 for at in range(5)]
    partition.emit(ArrowBatch(pa.record_batch({"a": texts})))
    partition.broadcast(EndOfPartition())
    assert [net.next_values(gate) for _ in texts] == [[text] for text in texts]
    assert net.next_event(gate) == EndOfPartition()
    net.close()


def test_a_record_larger_than_a_frame_is_the_users_error(directory: Path) -> None:
    net = Net(directory, ExchangeSettings(max_payload_bytes=10_000))
    partition, _ = net.pair()
    with pytest.raises(UserError, match="may take 10000 bytes"):
        partition.emit(ArrowBatch(pa.record_batch({"a": ["x" * 300_000]})))
    net.close()


def test_what_is_in_flight_is_bounded_and_everything_arrives(directory: Path) -> None:
    net = Net(directory, TIGHT)
    partition, gate = net.pair()
    received: list[int] = []
    most, pauses = 0, 0
    for start in range(0, 200_000, 500):
        while not partition.is_available():
            pauses += 1
            received += net.next_values(gate)
        partition.emit(rows(*range(start, start + 500)))
        most = max(most, partition.queued_bytes() + gate.queued_bytes())
    partition.broadcast(EndOfPartition())
    while len(received) < 200_000:
        received += net.next_values(gate)
    assert received == list(range(200_000))
    assert net.next_event(gate) == EndOfPartition()
    assert pauses > 0, "backpressure never came"
    assert most <= 2 * SMALL.max_bytes + 3 * 4_500, "more was kept than the bounds and one batch on each side"
    assert partition.is_available()
    net.close()


def test_a_blocked_channel_does_not_stop_others(directory: Path) -> None:
    net = Net(directory, TIGHT)
    producers = [net.producer(index, 1) for index in range(2)]
    gate = net.consumer(0, [address for _, address in producers])
    gate.block(0)
    (blocked, _), (flowing, _) = producers
    for at in range(200):
        if blocked.is_available():
            blocked.emit(rows(*range(500)))
        net.wait_for(flowing.is_available, "the channel that is not blocked")
        flowing.emit(rows(*([at] * 500)))
        flowing.flush()
        channel, item = net.next(gate)
        assert channel == 1
        assert isinstance(item, ArrowBatch)
    assert not blocked.is_available()
    assert blocked.queued_bytes() + gate.queued_bytes() <= 2 * SMALL.max_bytes + 3 * 4_500
    gate.unblock(0)
    assert net.wait_for(lambda: [c for c in [gate.poll()] if c and c[0] == 0], "the blocked channel's data")
    net.wait_for(lambda: [gate.poll()] and blocked.is_available(), "room again")
    net.close()


def test_priority_events_overtake(net: Net) -> None:
    partition, gate = net.pair()
    gate.block(0)
    partition.emit(rows(1))
    partition.flush()
    net.wait_for(gate.queued_bytes, "the batch")
    assert partition.overtake(BARRIER) == [(0, [])]
    assert net.wait_for(gate.poll_priority, "the barrier, though the channel is blocked") == (0, BARRIER)
    assert gate.poll_priority() is None
    gate.unblock(0)
    assert net.next_values(gate) == [1]


@pytest.mark.parametrize(
    ("partitioner", "key"),
    [
        (Partitioner.REBALANCE, None),
        (Partitioner.BROADCAST, None),
        (Partitioner.HASH, KeySpec(("a",))),
        (Partitioner.GLOBAL, None),
    ],
)
def test_sixteen_by_sixteen(net: Net, partitioner: Partitioner, key: KeySpec | None) -> None:
    size, rounds = 16, 5
    producers = [net.producer(index, size, partitioner, key) for index in range(size)]
    addresses = [address for _, address in producers]
    gates = [net.consumer(index, addresses) for index in range(size)]
    for number, (partition, _) in enumerate(producers):
        for turn in range(rounds):
            partition.emit(rows(*[number * 10_000 + turn * 100 + at for at in range(100)]))
        partition.broadcast(EndOfPartition())
    seen: dict[int, list[int]] = defaultdict(list)
    for index, gate in enumerate(gates):
        per_channel: dict[int, list[int]] = defaultdict(list)
        ends = 0
        while ends < size:
            channel, item = net.next(gate)
            if isinstance(item, ArrowBatch):
                per_channel[channel] += item.data.column(0).to_pylist()
            else:
                ends += 1
        for channel, values in per_channel.items():
            assert values == sorted(values), "order within (producer, consumer)"
            assert {value // 10_000 for value in values} == {channel}
        seen[index] = sorted(chain.from_iterable(per_channel.values()))
    everything = sorted(n * 10_000 + t * 100 + at for n in range(size) for t in range(rounds) for at in range(100))
    if partitioner is Partitioner.BROADCAST:
        assert all(values == everything for values in seen.values())
    else:
        assert sorted(chain.from_iterable(seen.values())) == everything
    for partition, _ in producers:
        net.wait_for(partition.is_drained, "all to be received")


def test_a_producer_that_dies_is_named(net: Net) -> None:
    partition, gate = net.pair()
    partition.emit(rows(1))
    partition.broadcast(EndOfData())
    net.wait_for(gate.queued_bytes, "data")
    net.endpoints[0].close()
    with pytest.raises(SubtaskLost, match=str(producer_id(0))):
        net.wait_for(lambda: gate.poll() and False, "the loss")


def test_a_consumer_that_dies_leaves_the_producer_waiting(net: Net) -> None:
    partition, _ = net.pair()
    net.endpoints[1].close()
    net.wait_for(lambda: not partition.is_available(), "the loss")
    partition.emit(rows(1))
    partition.flush()
    assert partition.queued_bytes() == 0
    assert not partition.is_drained()
    net.endpoints[0].check()


def test_a_producer_that_is_not_up_yet_is_tried_again(net: Net) -> None:
    late = net.endpoint(producer_id(0))
    partition = late.add_output(*_rebalance())
    address = late.start()
    late.close()
    gate = net.consumer(0, [ProducerAddress(producer_id(0), address)])
    partition, again = net.producer(0, 1)
    assert again.address == address
    partition.broadcast(EndOfPartition())
    assert net.next_event(gate) == EndOfPartition()


@pytest.mark.parametrize("address", ["unix:/nowhere/x.sock", "127.0.0.1:1"])
def test_a_producer_that_never_comes_up_is_unreachable(directory: Path, address: str) -> None:
    net = Net(directory, ExchangeSettings(connect_timeout_ms=60))
    gate = net.consumer(0, [ProducerAddress(producer_id(0), address)])
    with pytest.raises(Unreachable, match=f"{producer_id(0)} at {address} cannot be reached for 60 ms"):
        net.wait_for(gate.poll, "the failure")
    with pytest.raises(Unreachable):  # whoever waits for the connection learns of it too
        net.endpoints[-1].all_connected()
    net.close()


def test_a_producer_that_does_not_answer_is_unreachable(directory: Path) -> None:
    net = Net(directory, ExchangeSettings(connect_timeout_ms=60))
    with fake_producer(lambda _: None) as address:
        gate = net.consumer(0, [address])
        with pytest.raises(Unreachable, match="does not answer"):
            net.wait_for(gate.poll, "the failure")
    net.close()


def test_wrong_token_is_refused_and_counted_and_disturbs_nobody(net: Net) -> None:
    partition, address = net.producer(0, 1)
    stranger = net.consumer(0, [address], token="guess")
    with pytest.raises(Unreachable, match="bad-token"):
        net.wait_for(stranger.poll, "the refusal")
    net.wait_for(lambda: net.endpoints[0].counts.refused == 1, "the count")
    gate = net.consumer(0, [address])
    partition.broadcast(EndOfPartition())
    assert net.next_event(gate) == EndOfPartition()


def test_a_subpartition_is_read_once(net: Net) -> None:
    partition, address = net.producer(0, 1)
    first = net.consumer(0, [address])
    net.wait_for(net.endpoints[-1].all_connected, "the first")
    second = net.consumer(0, [address])
    with pytest.raises(SubtaskLost, match="already-taken"):
        net.wait_for(second.poll, "the refusal")
    partition.broadcast(EndOfPartition())
    assert net.next_event(first) == EndOfPartition()


def test_an_unknown_producer_is_told_at_once(net: Net) -> None:
    net.consumer(0, [])
    with pytest.raises(UnknownAttempt, match="which reads nothing from it"):
        net.endpoints[0].connect(ProducerAddress(producer_id(5), "127.0.0.1:1"))


def _rebalance() -> tuple[OutputDeployment, OutputSpec]:
    return output_of(Partitioner.REBALANCE, 1), spec_of(Partitioner.REBALANCE)


def test_a_producer_that_fails_tells_its_consumer_why_nothing_more_will_come(net: Net) -> None:
    partition, gate = net.pair()
    partition.emit(rows(1))
    partition.flush()
    assert net.next_values(gate) == [1]
    producer = net.endpoints[0]
    producer.lose("the disk of its rows is full")
    producer.close()
    with pytest.raises(
        SubtaskLost, match=f"{producer_id(0)}.*: the producer lost its data: the disk of its rows is full"
    ):
        net.next(gate)


def test_a_consumer_that_has_the_end_of_the_partition_hears_of_no_loss(net: Net) -> None:
    partition, gate = net.pair()
    partition.broadcast(EndOfData())
    partition.broadcast(EndOfPartition())
    net.wait_for(partition.is_drained, "the end to be received")
    net.endpoints[0].lose("its last files could not be closed")
    net.endpoints[0].close()
    assert [net.next_event(gate) for _ in range(2)] == [EndOfData(), EndOfPartition()]
    gate.check()


class Unhindered:
    """All time belonged to others."""

    def start(self) -> None: ...

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        return elapsed_ms / 1e6


@pytest.mark.parametrize(("meter", "window"), [(Elapsed, 256), (Unhindered, WindowBounds().min_bytes)])
def test_time_that_others_had_the_processor_makes_no_window_small(
    directory: Path, meter: type[WorkMeter], window: int
) -> None:
    now = [0.0]
    net = Net(directory, ExchangeSettings(clock=lambda: now[0], open_meter=meter, frame_rows=1))
    partition, gate = net.pair()
    for number in range(4):
        partition.emit(rows(number))
        net.next(gate)
        now[0] += 60_000
    assert gate._window() == window
    net.close()
