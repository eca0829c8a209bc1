"""Frames: every kind survives any cutting of the stream, and any damage is told as CorruptFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tidegate.model.channel_events import (
    Barrier,
    BarrierAnnouncement,
    CancelBarrier,
    ChannelEvent,
    ChannelUnavailable,
    EndOfData,
    EndOfPartition,
    WatermarkEvent,
    WatermarkStatus,
)
from tidegate.model.checkpoint import Alignment, CheckpointOptions, SnapshotType
from tidegate.model.errors import CorruptFrame
from tidegate.wire.channel_messages import (
    Credit,
    Hello,
    RefusalCode,
    Refused,
    decode_event,
    decode_message,
    encode_event,
    encode_message,
)
from tidegate.wire.frames import (
    HEADER_BYTES,
    BatchEncoder,
    EncodedBatch,
    Frame,
    FrameDecoder,
    FrameFlags,
    FrameType,
    OutgoingFrame,
    event_frame,
    make_frame,
    make_header,
    read_schema,
)
from tidegate.wire.user_events import register_user_event, user_event


class BatchDecoder:
    """The inverse of ``BatchEncoder`` and ``event_frame``, for the frames of one channel in their order."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def decode(self, frame: Frame) -> pa.RecordBatch | ChannelEvent | None:
        """``None`` for a frame that only prepares what follows. Raises ``CorruptFrame``."""
        if frame.type is FrameType.EVENT:
            return decode_event(memoryview(frame.payload))
        if frame.type is FrameType.SCHEMA:
            self._schema = read_schema(frame)
            return None
        if frame.type is FrameType.BATCH:
            try:
                return EncodedBatch(frame.payload, self._schema, bool(frame.flags & FrameFlags.STREAM)).decode()
            except CorruptFrame as error:
                raise CorruptFrame(f"BATCH frame {frame.sequence}: {error.message}") from error
        raise CorruptFrame(f"a {frame.type.name} frame among the data (frame {frame.sequence})")


@dataclass(frozen=True)
class PriceListChanged:
    version: int


register_user_event("shop.price-list-changed", PriceListChanged)

OPTIONS = CheckpointOptions("file:///c/chk-7", SnapshotType.SUSPEND, Alignment.FORCED_ALIGNED, 30, True)
EVENTS: list[ChannelEvent | ChannelUnavailable] = [
    Barrier(7, 1_700_000_000_000, OPTIONS),
    CancelBarrier(7),
    WatermarkEvent(-(2**63)),
    WatermarkEvent(2**63 - 1),
    WatermarkStatus(True),
    EndOfData(False),
    EndOfPartition(),
    BarrierAnnouncement(Barrier(8, 1, CheckpointOptions("x")), 3),
    ChannelUnavailable("the disk of its producer is gone"),
    user_event(PriceListChanged(7)),
]


def wire(frames: list[OutgoingFrame], first: int = 0) -> bytes:
    return b"".join(make_header(f, first + i, 5) + bytes(f.payload) for i, f in enumerate(frames))


def receive_all(decoder: FrameDecoder, data: bytes) -> list[Frame]:
    frames = decoder.feed(data)
    decoder.finish()
    return frames


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_events_come_back(event: ChannelEvent | ChannelUnavailable) -> None:
    (frame,) = FrameDecoder().feed(wire([event_frame(event)]))
    assert BatchDecoder().decode(frame) == event
    assert bool(frame.flags & FrameFlags.END) == isinstance(event, EndOfPartition)


@pytest.mark.parametrize(
    "message", [Hello("t", "j", "p", "c", 3, 4), Refused(RefusalCode.BAD_TOKEN, "no"), Credit(9, 4)]
)
def test_messages_come_back(message: Any) -> None:
    assert decode_message(encode_message(message), type(message)) == message
    with pytest.raises(CorruptFrame, match=type(message).__name__):
        decode_message(b"\xc1", type(message))


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"a": pa.array([1, None, 3]), "s": pa.array(["x", None, "z" * 100_000])}),
        pa.record_batch({"a": pa.array([1, 2, 3])}).slice(1, 1),
        pa.record_batch({"a": pa.array([], pa.int32())}),
        pa.record_batch({"d": pa.array(["x", None, "x"]).dictionary_encode()}),
        pa.record_batch({"d": pa.array([["x"], []], pa.list_(pa.dictionary(pa.int8(), pa.string())))}),
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 4096, 10**9])
def test_batches_come_back_however_the_stream_is_cut(batch: pa.RecordBatch, cut: int) -> None:
    data = wire(BatchEncoder().encode(batch))
    if cut == 1 and len(data) > 10_000:
        cut = 999
    frames, decoder, batches = [], FrameDecoder(), BatchDecoder()
    for at in range(0, len(data), cut):
        frames += decoder.feed(data[at : at + cut])
    decoder.finish()
    found: list[Any] = [b for b in map(batches.decode, frames) if b is not None]
    assert len(found) == 1
    assert found[0].equals(batch, check_metadata=True)
    assert [f.backlog_bytes for f in frames] == [5] * len(frames)


def test_schema_is_sent_once_and_again_when_it_changes() -> None:
    encoder, first, other = BatchEncoder(), pa.record_batch({"a": [1]}), pa.record_batch({"b": [1.0]})
    kinds = [[f.type.name for f in encoder.encode(b)] for b in (first, pa.record_batch({"a": [2]}), other, first)]
    assert kinds == [["SCHEMA", "BATCH"], ["BATCH"], ["SCHEMA", "BATCH"], ["SCHEMA", "BATCH"]]


def test_any_single_damaged_byte_is_told() -> None:
    frames = [
        event_frame(WatermarkEvent(5)),
        *BatchEncoder().encode(pa.record_batch({"a": [1, 2, 3]})),
        event_frame(EndOfData()),
    ]
    data = wire(frames)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        decoder = FrameDecoder("channel 3")
        with pytest.raises(CorruptFrame, match=r"channel 3: byte \d+, frame \d"):
            receive_all(decoder, bytes(damaged))


def test_any_truncation_is_told() -> None:
    data = wire([event_frame(EndOfData())])
    for length in range(1, len(data)):
        decoder = FrameDecoder()
        assert decoder.feed(data[:length]) == []
        with pytest.raises(CorruptFrame, match="ended inside a frame"):
            decoder.finish()


def test_lost_and_repeated_frames_are_told() -> None:
    for sequence in (1, 7):
        with pytest.raises(CorruptFrame, match=f"frame {sequence} came where frame 0 was expected"):
            FrameDecoder().feed(wire([event_frame(EndOfData())], first=sequence))


def test_oversized_is_refused_before_any_memory_is_taken() -> None:
    header = make_header(make_frame(FrameType.BATCH, bytes(5000)), 0)
    with pytest.raises(CorruptFrame, match="5000 bytes; the limit is 4096"):
        FrameDecoder(max_payload_bytes=4096).feed(header)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [(0, b"HTTP", "not the beginning of a frame"), (4, b"\x09", "version 9"), (5, b"\x63", "checksum")],
)
def test_bad_headers(at: int, value: bytes, words: str) -> None:
    data = bytearray(wire([event_frame(EndOfData())]))
    data[at : at + len(value)] = value
    with pytest.raises(CorruptFrame, match=words):
        FrameDecoder().feed(bytes(data))


def test_unknown_type_with_a_good_header_is_told() -> None:
    class Odd(int):
        pass

    frame = OutgoingFrame(Odd(99), 0, memoryview(b""))  # type: ignore[arg-type]
    with pytest.raises(CorruptFrame, match="unknown type 99"):
        FrameDecoder().feed(make_header(frame, 0))


def test_unknown_events_are_refused_by_name() -> None:
    with pytest.raises(CorruptFrame, match="EndOfSuperstep.*iterations"):
        decode_event(msgspec.msgpack.encode(("EndOfSuperstep", {})))
    with pytest.raises(CorruptFrame, match="'Nonsense' is not known"):
        decode_event(msgspec.msgpack.encode(("Nonsense", {})))
    for name in (
        "EndOfChannelState",
        "VirtualChannelSelector",
    ):  # Flink's, of recovered channels, which do not exist here
        with pytest.raises(CorruptFrame, match=f"'{name}' is not known"):
            decode_event(msgspec.msgpack.encode((name, {})))
    with pytest.raises(CorruptFrame, match="cannot be read"):
        decode_event(encode_event(CancelBarrier(1))[:-1])


def test_batch_without_schema_and_nonsense_in_a_batch() -> None:
    schema, batch = (FrameDecoder().feed(wire([f]))[0] for f in BatchEncoder().encode(pa.record_batch({"a": [1]})))
    with pytest.raises(CorruptFrame, match="before its schema"):
        BatchDecoder().decode(batch)
    decoder = BatchDecoder()
    decoder.decode(schema)
    (nonsense,) = FrameDecoder().feed(wire([make_frame(FrameType.BATCH, b"\xff" * 64)]))
    with pytest.raises(CorruptFrame, match="BATCH frame 0: a batch of 64 bytes"):
        decoder.decode(nonsense)
    (credit,) = FrameDecoder().feed(wire([make_frame(FrameType.CREDIT)]))
    with pytest.raises(CorruptFrame, match="CREDIT frame among the data"):
        decoder.decode(credit)


def test_large_payload_is_received_into_its_own_memory() -> None:
    data = wire(BatchEncoder().encode(pa.record_batch({"a": list(range(100_000))})))
    decoder = FrameDecoder()
    frames = decoder.feed(data[:1000])
    assert len(decoder.buffers()) == 2
    frames += decoder.feed(data[1000:])
    assert frames[-1].payload.address % 64 == 0
    assert HEADER_BYTES % 8 == 0


def test_a_decoder_takes_little_memory_until_much_comes_at_once() -> None:
    decoder = FrameDecoder()
    small = wire([make_frame(FrameType.EVENT, b"x" * 20) for _ in range(300)])
    assert len(decoder.buffers()[0]) == 4096
    half = len(small) // 2 + 7  # in the middle of a frame
    frames = decoder.feed(small[:100])
    assert len(decoder.buffers()[-1]) > 4096 - HEADER_BYTES - 20
    frames += decoder.feed(small[100:half])
    assert len(decoder.buffers()[-1]) > 64 * 1024 - HEADER_BYTES - 20
    frames += decoder.feed(small[half:])
    decoder.finish()
    assert [(frame.sequence, bytes(frame.payload)) for frame in frames] == [(i, b"x" * 20) for i in range(300)]
