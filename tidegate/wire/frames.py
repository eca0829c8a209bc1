"""Frames of a data channel without I/O: decodes received bytes to frames, and encodes frames.

    0      4       5      6       8         12         16         24         32         36      40
    ┌──────┬───────┬──────┬───────┬─────────┬──────────┬──────────┬──────────┬──────────┬───────┬───────────┐
    │ TGF1 │version│ type │ flags │ length  │ checksum │ sequence │ backlog  │ checksum │   0   │ payload...│
    │      │       │      │       │ payload │ payload  │  of this │  bytes   │ of bytes │       │  `length` │
    │      │       │      │       │  bytes  │  xxh3    │ direction│ waiting  │ 0 to 32  │       │   bytes   │
    └──────┴───────┴──────┴───────┴─────────┴──────────┴──────────┴──────────┴──────────┴───────┴───────────┘

Little endian. Laws: a byte that changed, went missing or came twice gives ``CorruptFrame``, never another frame: the header
has its own checksum and ``sequence`` counts the frames of a direction from 0. The checksum of a payload is there if flag
CHECKSUM is. ``backlog`` (producer to consumer) is what still waits behind this frame. A BATCH is an Arrow IPC record
batch message without schema; its schema came in the last SCHEMA frame. With flag STREAM it is a whole IPC stream of
one batch (for dictionaries). Payloads are received straight into the memory that the Arrow columns then use.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

import pyarrow as pa
import xxhash

from tidegate.model.channel_events import ChannelEvent, ChannelUnavailable, EndOfPartition
from tidegate.model.errors import CorruptFrame
from tidegate.wire.channel_messages import encode_event

MAGIC = b"TGF1"
VERSION = 1
"""The version of the header; a peer with another one is refused."""
HEADER_BYTES = 40
"""The size of `_HEADER`."""
DEFAULT_MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
"""The default limit of a frame's payload. A frame has at most 2 MiB unless one record has more; a larger length is corrupt, and must not be allocated."""
_SCRATCH_BYTES = 64 * 1024
"""The size of the buffer for headers and small payloads, which are received together; larger payloads are received in place."""
_FIRST_SCRATCH_BYTES = 4 * 1024
"""The size of the first buffer, until that many bytes arrive at once: most channels of a large job never have as many, and at parallelism 64 there are
thousands of channels."""
_HEADER = struct.Struct("<4sBBHIIQQII")
_CHECKED_BYTES = 32
"""The bytes of the header that its checksum covers."""
_CHECKSUM_AT = struct.Struct("<I")


class FrameType(IntEnum):
    """The types of frames on a data connection."""

    HELLO = 1
    ACCEPTED = 2
    REFUSED = 3
    CREDIT = 4
    SCHEMA = 5
    BATCH = 6
    EVENT = 7
    BACKLOG = 8


class FrameFlags(IntFlag):
    """The flags of a frame."""

    NONE = 0
    CHECKSUM = 1
    STREAM = 2
    PRIORITY = 4
    """The frame overtakes queued frames."""
    END = 8
    """The event ends the partition: the connection may be closed after it."""


_ALL_FLAGS = 15
"""The known flags; frames with others are refused."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A received frame. ``payload`` owns its memory."""

    type: FrameType
    flags: int
    payload: pa.Buffer
    sequence: int = 0
    backlog_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return int(self.payload.size)


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """A frame to be sent; its header is created when it is sent (``make_header``). Channels may share it."""

    type: FrameType
    flags: int
    payload: memoryview
    checksum: int = 0
    schema: pa.Schema | None = None
    """The schema of a BATCH frame, so that the batch can be persisted without the frames before it."""

    @property
    def size_bytes(self) -> int:
        return self.payload.nbytes


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """An encoded batch with everything that is needed to decode it."""

    payload: pa.Buffer
    schema: pa.Schema | None
    is_stream: bool = False

    @property
    def size_bytes(self) -> int:
        return int(self.payload.size)

    def decode(self) -> pa.RecordBatch:
        """Decodes the batch. Raises ``CorruptFrame``."""
        try:
            if self.is_stream:
                return pa.ipc.open_stream(self.payload).read_next_batch()
            if self.schema is None:
                raise CorruptFrame("a batch came before its schema")
            return pa.ipc.read_record_batch(self.payload, self.schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptFrame(f"a batch of {self.size_bytes} bytes cannot be read: {error}") from error


def encoded_batch(frame: OutgoingFrame) -> EncodedBatch:
    """Converts a BATCH frame to be sent to an encoded batch, without a copy."""
    return EncodedBatch(pa.py_buffer(frame.payload), frame.schema, bool(frame.flags & FrameFlags.STREAM))


def read_schema(frame: Frame) -> pa.Schema:
    """Decodes the schema of a SCHEMA frame. Raises ``CorruptFrame``."""
    try:
        return pa.ipc.read_schema(frame.payload)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFrame(
            f"the schema in frame {frame.sequence}, of {frame.size_bytes} bytes, cannot be read: {error}"
        ) from error


def make_frame(
    kind: FrameType,
    payload: bytes | pa.Buffer = b"",
    flags: int = 0,
    *,
    checksum: bool = True,
    schema: pa.Schema | None = None,
) -> OutgoingFrame:
    view = memoryview(payload).cast("B") if len(payload) else memoryview(b"")
    if not checksum:
        return OutgoingFrame(kind, flags, view, schema=schema)
    return OutgoingFrame(kind, flags | FrameFlags.CHECKSUM, view, _checksum(view), schema)


def make_header(frame: OutgoingFrame, sequence: int, backlog_bytes: int = 0) -> bytes:
    header = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        header,
        0,
        MAGIC,
        VERSION,
        frame.type,
        frame.flags,
        frame.size_bytes,
        frame.checksum,
        sequence,
        backlog_bytes,
        0,
        0,
    )
    _CHECKSUM_AT.pack_into(header, _CHECKED_BYTES, _checksum(memoryview(header)[:_CHECKED_BYTES]))
    return bytes(header)


def event_frame(event: ChannelEvent | ChannelUnavailable, *, priority: bool = False) -> OutgoingFrame:
    flags = FrameFlags.PRIORITY if priority else FrameFlags.NONE
    if isinstance(event, EndOfPartition):
        flags |= FrameFlags.END
    return make_frame(FrameType.EVENT, encode_event(event), flags)


class BatchEncoder:
    """Encodes the record batches of one channel as frames, with a SCHEMA frame before the first batch of each schema."""

    def __init__(self, *, checksum: bool = True) -> None:
        self._checksum = checksum
        self._schema: pa.Schema | None = None
        self._whole_stream = False

    def encode(self, batch: pa.RecordBatch) -> list[OutgoingFrame]:
        """Encodes a batch as frames. Raises ``CorruptFrame`` when the batch exceeds the largest frame (4 GiB)."""
        frames: list[OutgoingFrame] = []
        schema = batch.schema
        if schema is not self._schema and (
            self._schema is None or not schema.equals(self._schema, check_metadata=True)
        ):
            self._whole_stream = any(_has_dictionary(field.type) for field in schema)
            if not self._whole_stream:
                frames.append(make_frame(FrameType.SCHEMA, schema.serialize()))
            self._schema = schema
        payload = _as_stream(batch) if self._whole_stream else batch.serialize()
        if payload.size >= 2**32:
            raise CorruptFrame(
                f"a batch of {batch.num_rows} rows takes {payload.size} bytes; a frame takes less than 4 GiB"
            )
        flags = FrameFlags.STREAM if self._whole_stream else FrameFlags.NONE
        frames.append(make_frame(FrameType.BATCH, payload, flags, checksum=self._checksum, schema=schema))
        return frames


class FrameDecoder:
    """Decodes a stream of bytes into frames. Receive into ``buffers()`` and call ``received(n)``, or just ``feed``.

    A payload that is not yet complete gets memory of its own, which is received into directly; what follows it goes
    to a scratch area. After a ``CorruptFrame`` the decoder is of no further use.
    """

    def __init__(self, where: str = "data channel", max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES) -> None:
        self.where = where
        self.max_payload_bytes = max_payload_bytes
        self._scratch = memoryview(bytearray(_FIRST_SCRATCH_BYTES))
        self._filled = 0
        self._header: _Header | None = None
        self._payload: pa.Buffer | None = None
        self._view = memoryview(b"")
        self._missing = 0
        self._position = 0
        self._sequence = 0

    def buffers(self) -> list[memoryview]:
        """Returns the buffers to receive the next bytes into, in order."""
        if self._missing:
            return [self._view[len(self._view) - self._missing :], self._scratch]
        return [self._scratch[self._filled :]]

    def received(self, count: int) -> list[Frame]:
        """Returns the frames that ``count`` bytes in ``buffers()`` completed. Raises ``CorruptFrame``."""
        frames: list[Frame] = []
        if self._missing:
            direct = min(count, self._missing)
            self._missing -= direct
            count -= direct
            if self._missing == 0:
                frames.append(self._complete())
        self._filled += count
        if self._filled:
            was_full = self._filled == len(self._scratch)
            self._cut(frames)
            if was_full and len(self._scratch) < _SCRATCH_BYTES:
                self._enlarge()
        return frames

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        rest, frames = memoryview(data), list[Frame]()
        while len(rest):
            target = self.buffers()[0]
            part = rest[: len(target)]
            target[: len(part)] = part
            rest = rest[len(part) :]
            frames += self.received(len(part))
        return frames

    def finish(self) -> None:
        """Ends the stream. Raises ``CorruptFrame`` within a frame."""
        if self._missing or self._filled:
            have = self._filled if self._header is None else self._header.length - self._missing
            raise self._corrupt(f"the stream ended inside a frame ({have} bytes of it came)")

    def _cut(self, frames: list[Frame]) -> None:
        at = 0
        while self._filled - at >= HEADER_BYTES:
            header = self._parse(self._scratch[at : at + HEADER_BYTES])
            self._header = header
            at += HEADER_BYTES
            part = self._scratch[at : min(self._filled, at + header.length)]
            at += len(part)
            if len(part) == header.length:
                self._payload = pa.py_buffer(bytes(part))
                frames.append(self._complete())
                continue
            self._payload = pa.allocate_buffer(header.length)
            self._view = memoryview(self._payload).cast("B")
            self._view[: len(part)] = part
            self._missing = header.length - len(part)
        rest = self._filled - at
        if rest and at:
            self._scratch[:rest] = bytes(self._scratch[at : self._filled])
        self._filled = rest

    def _enlarge(self) -> None:
        larger = memoryview(bytearray(_SCRATCH_BYTES))
        larger[: self._filled] = self._scratch[: self._filled]
        self._scratch = larger

    def _complete(self) -> Frame:
        header, payload = self._header, self._payload
        assert header is not None, "a payload has a header"
        assert payload is not None, "a header has a payload"
        self._header, self._payload, self._view = None, None, memoryview(b"")
        if header.flags & FrameFlags.CHECKSUM and _checksum(memoryview(payload)) != header.checksum:
            raise self._corrupt(
                f"the payload of a {header.type.name} frame ({header.length} bytes) does not match its checksum"
            )
        self._position += HEADER_BYTES + header.length
        self._sequence += 1
        return Frame(header.type, header.flags, payload, header.sequence, header.backlog)

    def _parse(self, view: memoryview) -> _Header:
        magic, version, kind, flags, length, checksum, sequence, backlog, check, zero = _HEADER.unpack(view)
        if magic != MAGIC:
            raise self._corrupt(f"bytes that are not the beginning of a frame (found {magic!r}, expected {MAGIC!r})")
        if version != VERSION:
            raise self._corrupt(
                f"a frame has version {version}, and this process supports version {VERSION}: install the same tidegate on both sides"
            )
        if check != _checksum(view[:_CHECKED_BYTES]) or zero:
            raise self._corrupt("the header of a frame does not match its checksum")
        if kind not in FrameType._value2member_map_ or flags & ~_ALL_FLAGS:
            raise self._corrupt(f"a frame has the unknown type {kind}, or unknown flags {flags:#x}")
        if length > self.max_payload_bytes:
            raise self._corrupt(f"a frame has {length} bytes; the limit is {self.max_payload_bytes} bytes")
        if sequence != self._sequence:
            raise self._corrupt(f"frame {sequence} came where frame {self._sequence} was expected")
        return _Header(FrameType(kind), flags, length, checksum, sequence, backlog)

    def _corrupt(self, what: str) -> CorruptFrame:
        return CorruptFrame(f"{self.where}: byte {self._position}, frame {self._sequence}: {what}")


@dataclass(frozen=True, slots=True)
class _Header:
    type: FrameType
    flags: int
    length: int
    checksum: int
    sequence: int
    backlog: int


def _checksum(data: memoryview) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def _as_stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
