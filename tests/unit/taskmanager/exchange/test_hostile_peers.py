"""Peers that lie, stay silent, send nonsense or too much: each harms only itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.taskmanager.exchange.harness import (
    EDGE,
    JOB,
    TOKEN,
    Net,
    consumer_id,
    output_of,
    producer_id,
    rows,
    spec_of,
)
from tests.unit.taskmanager.exchange.raw_peers import fake_producer, raw_connection, read_all, send
from tidegate.model.channel_events import Barrier, ChannelEvent, EndOfData, EndOfPartition, WatermarkEvent
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.deployment import OutputDeployment
from tidegate.model.errors import (
    ConfigurationError,
    CorruptFrame,
    InternalError,
    SubtaskLost,
    TidegateError,
    VersionMismatch,
)
from tidegate.model.graph import Partitioner
from tidegate.model.program import OutputSpec
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.input_gate import PRIORITY_BYTES
from tidegate.taskmanager.machines.credit import WindowBounds
from tidegate.wire.channel_messages import Credit, Hello, encode_message
from tidegate.wire.frames import FrameType, event_frame, make_frame, make_header

BARRIER = Barrier(1, 2, CheckpointOptions("file:///c"))
SMALL = WindowBounds(1000, 50_000, 25.0)
TIGHT = ExchangeSettings(window=SMALL, queue=SMALL, frame_bytes=4_000, cut_bytes=8_000)


HELLO = Hello(TOKEN, JOB, str(producer_id(0)), str(consumer_id(0)), EDGE, 0)


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        (replace(HELLO, token="x"), "bad-token"),
        (replace(HELLO, token=""), "bad-token"),
        (replace(HELLO, protocol_version=9), "version"),
        (replace(HELLO, producer=str(producer_id(1))), "unknown-attempt"),
        (replace(HELLO, job_id="f" * 32), "unknown-attempt"),
        (replace(HELLO, edge_id=99), "unknown-edge"),
        (replace(HELLO, consumer_index=1), "unknown-edge"),
        (replace(HELLO, consumer=str(consumer_id(1))), "unknown-edge"),
        (replace(HELLO, consumer="me"), "unknown-edge"),
    ],
)
def test_handshakes_that_are_refused(net: Net, hello: Hello, code: str) -> None:
    _, address = net.producer(0, 1)
    with raw_connection(address) as sock:
        send(sock, [make_frame(FrameType.HELLO, encode_message(hello))])
        answer = read_all(sock)
    assert code.encode() in answer
    net.wait_for(lambda: net.endpoints[0].counts.refused == 1, "the count")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" + bytes(60),
        bytes(100),
        make_header(make_frame(FrameType.HELLO, bytes(5000)), 0),
        make_header(make_frame(FrameType.CREDIT), 0),
        make_header(make_frame(FrameType.HELLO, b"\xc1" * 20), 0) + b"\xc1" * 20,
    ],
)
def test_nonsense_instead_of_a_handshake_closes_that_connection_only(net: Net, data: bytes) -> None:
    partition, address = net.producer(0, 1)
    with raw_connection(address) as sock:
        sock.sendall(data)
        assert read_all(sock) == b""
    gate = net.consumer(0, [address])
    partition.broadcast(EndOfPartition())
    assert net.next_event(gate) == EndOfPartition()


def test_a_silent_client_is_closed_in_time(directory: Path) -> None:
    net = Net(directory, ExchangeSettings(handshake_timeout_ms=50))
    _, address = net.producer(0, 1)
    with raw_connection(address) as sock:
        sock.sendall(make_header(make_frame(FrameType.HELLO, b"12"), 0)[:20])
        assert read_all(sock) == b""
    net.close()


def test_too_many_handshakes_are_turned_away(directory: Path) -> None:
    net = Net(directory, ExchangeSettings(max_handshakes=1))
    _, address = net.producer(0, 1)
    with raw_connection(address), raw_connection(address) as second:
        assert read_all(second) == b""
    net.close()


@pytest.mark.parametrize("credit", [Credit(-5, 0), Credit(100, 10_000)])
def test_impossible_credit_ends_the_connection(net: Net, credit: Credit) -> None:
    partition, address = net.producer(0, 1)
    with raw_connection(address) as sock:
        frames = [
            make_frame(FrameType.HELLO, encode_message(HELLO)),
            make_frame(FrameType.CREDIT, encode_message(credit)),
        ]
        send(sock, frames)
        read_all(sock)
    net.wait_for(lambda: not partition.is_available(), "the consumer to count as gone")


def test_a_client_that_grants_nothing_stops_only_its_own_subpartition(net: Net) -> None:
    partition, address = net.producer(0, 2)
    gate = net.consumer(1, [address])
    with raw_connection(address) as sock:
        send(sock, [make_frame(FrameType.HELLO, encode_message(HELLO))])
        for turn in range(50):
            partition.emit(rows(*([turn] * 10_000)))
            partition.flush()
            found: list[int] = []
            while len(found) < 5_000:
                found += net.next_values(gate)
            assert found == [turn] * 5_000


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


EVENT = event_frame(EndOfData())
GOOD = make_header(EVENT, 1) + bytes(EVENT.payload)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (flipped(GOOD, -1 % len(GOOD)), CorruptFrame, "does not match its checksum"),
        (flipped(GOOD, 9), CorruptFrame, "header of a frame does not match its checksum"),
        (make_header(EVENT, 4), CorruptFrame, "frame 4 came where frame 1"),
        (make_header(make_frame(FrameType.BATCH), 1), CorruptFrame, "before its schema"),
        (
            make_header(make_frame(FrameType.HELLO), 1),
            CorruptFrame,
            "sent a HELLO frame, which has no place among the data",
        ),
        (GOOD[:-1], SubtaskLost, "was lost before the end"),
        (b"", SubtaskLost, "was lost before the end"),
    ],
)
def test_a_producer_that_sends_corrupt_bytes(net: Net, data: bytes, error: type[TidegateError], words: str) -> None:
    accepted = make_header(make_frame(FrameType.ACCEPTED), 0)
    with fake_producer(lambda sock: sock.sendall(accepted + data), stay=error is not SubtaskLost) as address:
        gate = net.consumer(0, [address])
        with pytest.raises(error, match=words) as raised:
            net.wait_for(gate.poll, "the failure")
        assert str(producer_id(0)) in str(raised.value)


def test_a_producer_of_another_version(net: Net) -> None:
    refused = make_frame(FrameType.REFUSED, b"\x82\xa4code\xa7version\xa7message\xa3old")
    with fake_producer(lambda sock: sock.sendall(make_header(refused, 0) + bytes(refused.payload))) as address:
        gate = net.consumer(0, [address])
        with pytest.raises(VersionMismatch, match="old"):
            net.wait_for(gate.poll, "the failure")


def test_data_beyond_the_credit_is_corrupt(directory: Path) -> None:
    net = Net(directory, TIGHT)
    batches = [make_frame(FrameType.BATCH, bytes(100_000)) for _ in range(3)]
    data = make_header(make_frame(FrameType.ACCEPTED), 0)
    data += b"".join(make_header(frame, 1 + at) + bytes(frame.payload) for at, frame in enumerate(batches))
    with fake_producer(lambda sock: sock.sendall(data)) as address:
        gate = net.consumer(0, [address])
        gate.block(0)
        with pytest.raises(CorruptFrame, match="were granted"):
            net.wait_for(gate.poll, "the failure")
    net.close()


def sends(count: int, event: ChannelEvent) -> bytes:
    """The answer to the handshake, and ``count`` times the event, with priority."""
    frame, data = event_frame(event, priority=True), make_header(make_frame(FrameType.ACCEPTED), 0)
    return data + b"".join(make_header(frame, 1 + at) + bytes(frame.payload) for at in range(count))


def test_barriers_without_end_are_corrupt_and_those_of_a_thousand_checkpoints_wait(net: Net) -> None:
    one = event_frame(BARRIER, priority=True).size_bytes
    most = PRIORITY_BYTES // one
    assert most > 2_000, "each checkpoint has an announcement and a barrier"
    with fake_producer(lambda sock: sock.sendall(sends(most, BARRIER))) as address:
        gate = net.consumer(0, [address])
        net.wait_for(lambda: len(gate._priority) == most, "all of them")
        assert [gate.poll_priority() for _ in range(most)] == [(0, BARRIER)] * most
        assert gate._channels[0].priority_bytes == 0
    with fake_producer(lambda sock: sock.sendall(sends(most + 1, BARRIER))) as address:
        gate = net.consumer(1, [address])
        with pytest.raises(CorruptFrame, match=f"{(most + 1) * one} bytes of barriers wait") as raised:
            net.wait_for(lambda: gate.check(), "the failure")
        assert str(producer_id(0)) in str(raised.value)
        assert len(gate._priority) == most


def test_other_events_have_no_priority(net: Net) -> None:
    with fake_producer(lambda sock: sock.sendall(sends(1, WatermarkEvent(1)))) as address:
        gate = net.consumer(0, [address])
        with pytest.raises(CorruptFrame, match="a WatermarkEvent came with priority, which barriers alone have"):
            net.wait_for(gate.poll, "the failure")


def test_a_mistake_in_the_io_thread_reaches_the_subtask(net: Net) -> None:
    partition, _ = net.producer(0, 1)
    endpoint = net.endpoints[0]
    endpoint._loop.call_soon(_crash)
    with pytest.raises(InternalError, match="broke: ZeroDivisionError"):
        net.wait_for(endpoint.check, "the crash")
    assert partition.queued_bytes() == 0


def test_too_long_a_directory_is_told(directory: Path) -> None:
    net = Net(directory, listen=f"unix:{directory}/{'x' * 100}")
    endpoint = net.endpoint(producer_id(0))
    endpoint.add_output(*_rebalance())
    with pytest.raises(ConfigurationError, match="too long"):
        endpoint.start()
    net.close()


def _crash() -> None:
    raise ZeroDivisionError


def _rebalance() -> tuple[OutputDeployment, OutputSpec]:
    return output_of(Partitioner.REBALANCE, 1), spec_of(Partitioner.REBALANCE)
