"""The payloads of the small frames of a data channel: the handshake, credit, and the events that travel with the batches.

    consumer                                     producer
       Hello(token, attempts, edge, index)  ──▶
                                            ◀──  Accepted  |  Refused(code, message), then closed
       Credit(granted, consumed)            ──▶        consumer's bounds, cumulative
       EVENT: a UserEvent                   ──▶        against the stream, for the operator that feeds the edge
                                            ◀──  SCHEMA, BATCH, EVENT frames; BACKLOG when credit is out

Payloads are MessagePack. An event is ``[name, fields]``, the name that of its class in ``model.channel_events``; the fields
of a user event are those of ``tidegate.wire.user_events``, and stay as they are. All decoders raise ``CorruptFrame``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from tidegate.model import channel_events
from tidegate.model.channel_events import ChannelEvent, ChannelUnavailable
from tidegate.model.errors import CorruptFrame
from tidegate.wire.unreadable import UNREADABLE

PROTOCOL_VERSION = 1
"""The version of the data channel's protocol; it changes when peers of the previous version are incompatible."""
MAX_CONSUMER_BYTES = 4096
"""The largest payload that a consumer may send: its handshake, a grant of credit, or an event against the stream. A peer without a verified token gets
no more memory."""
MAX_TASK_EVENT_BYTES = MAX_CONSUMER_BYTES - 96
"""The largest user event against the stream: its envelope, most of which is the name of its class, fits into the rest."""

_Message = TypeVar("_Message", "Hello", "Refused", "Credit")


@dataclass(frozen=True, slots=True)
class Hello:
    """The handshake of a consumer, which requests one subpartition: that of consumer subtask ``consumer_index`` on edge ``edge_id``."""

    token: str
    job_id: str
    producer: str
    """The attempt id of the producer as text: a newer attempt does not serve the channels of an ended one."""
    consumer: str
    edge_id: int
    consumer_index: int
    protocol_version: int = PROTOCOL_VERSION


class RefusalCode(Enum):
    """Why a producer refuses a consumer."""

    BAD_TOKEN = "bad-token"  # noqa: S105  (what is wrong)
    UNKNOWN_ATTEMPT = "unknown-attempt"
    UNKNOWN_EDGE = "unknown-edge"
    ALREADY_TAKEN = "already-taken"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer of a producer that refuses a consumer."""

    code: RefusalCode
    message: str


@dataclass(frozen=True, slots=True)
class Credit:
    """A grant of credit in cumulative bytes of batch payloads: how many may be sent in total, and how many the gate has consumed."""

    granted_bytes: int
    consumed_bytes: int


_EVENT_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        channel_events.Barrier,
        channel_events.CancelBarrier,
        channel_events.WatermarkEvent,
        channel_events.WatermarkStatus,
        channel_events.EndOfData,
        channel_events.EndOfPartition,
        channel_events.BarrierAnnouncement,
        channel_events.ChannelUnavailable,
    )
}
_USER_EVENT = channel_events.UserEvent.__name__
_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_fields: dict[str, msgspec.msgpack.Decoder[Any]] = {
    name: msgspec.msgpack.Decoder(kind) for name, kind in _EVENT_TYPES.items()
}


def encode_event(event: ChannelEvent | ChannelUnavailable) -> bytes:
    if isinstance(event, channel_events.UserEvent):
        return _encoder.encode((_USER_EVENT, msgspec.Raw(event.content)))
    return _encoder.encode((type(event).__name__, event))


def decode_event(payload: bytes | memoryview) -> ChannelEvent | ChannelUnavailable:
    try:
        name, fields = _envelope.decode(payload)
        if name == _USER_EVENT:
            return channel_events.UserEvent(bytes(fields))
        decoder = _fields.get(name)
        if decoder is None:
            raise CorruptFrame(_unknown_event(name))
        event: ChannelEvent | ChannelUnavailable = decoder.decode(fields)
    except UNREADABLE as error:
        raise CorruptFrame(f"an event frame cannot be read: {error}") from error
    return event


def encode_message(message: Hello | Refused | Credit) -> bytes:
    return _encoder.encode(message)


def decode_message(payload: bytes | memoryview, kind: type[_Message]) -> _Message:
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except UNREADABLE as error:
        raise CorruptFrame(
            f"a {kind.__name__} frame cannot be read: {error}; it comes from another version of tidegate, from another program, or was damaged on its way"
        ) from error


def _unknown_event(name: str) -> str:
    if "superstep" in name.lower():
        return f"event {name!r}: iterations (superstep ends) are not supported; the peer is not a tidegate subtask"
    return f"event {name!r} is not known; known are {', '.join(sorted(_EVENT_TYPES))}: install the same version of tidegate on both sides"
