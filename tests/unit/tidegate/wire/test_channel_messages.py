"""Small frames of a data channel that are no message: ``CorruptFrame``, whatever they are, since a peer may not have proven anything yet."""

from __future__ import annotations

import msgspec
import pytest

from tests.fuzz.targets import signed
from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import CorruptData, CorruptFrame
from tidegate.wire.channel_messages import Credit, Hello, Refused, decode_event, decode_message
from tidegate.wire.manifest import manifest_from_bytes
from tidegate.wire.user_events import register_user_event, value_of

NESTED = b"\x91" * 4000 + b"\x01"
"""Arrays in arrays, as many as the first message of a peer has place for."""
IN_AN_UNKNOWN_FIELD = b"\x81\xa1x" + NESTED
DEEPER = b"\x91" * 100_000 + b"\x01"
"""More than any Python of the promise follows: 3.13 reads NESTED."""


class Noted(msgspec.Struct):
    version: int = 0


register_user_event("test.channel-messages.noted", Noted)


@pytest.mark.parametrize("kind", [Hello, Credit, Refused])
@pytest.mark.parametrize("payload", [NESTED, IN_AN_UNKNOWN_FIELD, b"\x80", b"", b"\xa1\xff"])
def test_what_is_no_message(kind: type, payload: bytes) -> None:
    with pytest.raises(CorruptFrame, match=f"a {kind.__name__} frame cannot be read"):
        decode_message(payload, kind)


@pytest.mark.parametrize("fields", [DEEPER, b"\x81\xa1x" + DEEPER], ids=["value", "unknown"])
def test_events_that_are_nested_too_deeply(fields: bytes) -> None:
    with pytest.raises(CorruptFrame, match="an event frame cannot be read"):
        decode_event(b"\x92\xa7Barrier" + fields)
    name = "test.channel-messages.noted"
    with pytest.raises(CorruptFrame, match="a user event cannot be read"):
        value_of(UserEvent(b"\x92" + msgspec.msgpack.encode(name) + fields))


def test_a_manifest_that_is_nested_too_deeply() -> None:
    with pytest.raises(CorruptData, match="line 2 does not have the form of a checkpoint"):
        manifest_from_bytes(signed(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"), "_metadata")
