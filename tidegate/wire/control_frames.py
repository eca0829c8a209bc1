"""Frames of a control stream without I/O: each message follows its length.

    0                4
    ┌────────────────┬───────────────────────────┐
    │ length, uint32 │ message, `length` bytes   │     big endian; the connection is TCP or a Unix socket, so the
    └────────────────┴───────────────────────────┘     kernel answers for order and content

A length above the limit gives ``CorruptFrame`` before anything is read: a peer that speaks another protocol is refused at once.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tidegate.model.errors import CorruptFrame

HEADER_BYTES = 4
MESSAGE_MAX_BYTES = 256 << 20
HELLO_MAX_BYTES = 64 << 10
"""The size limit of the first message, whose sender is not yet authenticated."""
_LENGTH = struct.Struct(">I")

M = TypeVar("M", bound=Message)


def frame(message: Message) -> bytes:
    """Encodes a message as a frame. Raises ``CorruptFrame`` for one that the peer would refuse."""
    payload = message.SerializeToString()
    if len(payload) > MESSAGE_MAX_BYTES:
        raise CorruptFrame(
            f"a control message has {len(payload)} bytes, and its receiver takes at most {MESSAGE_MAX_BYTES}"
        )
    return _LENGTH.pack(len(payload)) + payload


def payload_bytes(header: bytes, max_bytes: int = MESSAGE_MAX_BYTES) -> int:
    """Returns the size of the message after ``header``. Raises ``CorruptFrame`` for one above the limit."""
    (length,) = _LENGTH.unpack(header)
    if length > max_bytes:
        raise CorruptFrame(
            f"the peer announces a control message of {length} bytes, and at most {max_bytes} are allowed: it is probably no process of tidegate"
        )
    return int(length)


def parse(kind: type[M], payload: bytes) -> M:
    """Parses a message of a frame. Raises ``CorruptFrame`` for an invalid payload."""
    message = kind()
    try:
        message.ParseFromString(payload)
    except DecodeError:
        raise CorruptFrame(f"a control message of {len(payload)} bytes cannot be read as a {kind.__name__}") from None
    return message
