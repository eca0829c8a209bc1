from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import CorruptFrame, Misuse, UnknownEvent
from tidegate.wire.channel_messages import decode_event, encode_event
from tidegate.wire.user_events import register_user_event


@dataclass
class Opened:
    shop: str


@dataclass
class Closed:
    shop: str


class Moved(msgspec.Struct):
    to: str


register_user_event("test.opened", Opened)
register_user_event("test.moved", Moved)


def test_registered_events_travel_by_name() -> None:
    assert decode_event(encode_event(UserEvent(Opened("a")))) == UserEvent(Opened("a"))
    assert decode_event(encode_event(UserEvent(Moved("b")))) == UserEvent(Moved("b"))
    assert b"test.opened" in encode_event(UserEvent(Opened("a")))


def test_a_type_that_nobody_registered_is_not_sent() -> None:
    with pytest.raises(UnknownEvent, match="Closed cannot be sent"):
        encode_event(UserEvent(Closed("a")))


def test_a_name_that_nobody_registered_is_refused_with_those_known() -> None:
    payload = msgspec.msgpack.encode(("UserEvent", ("test.burnt", {"shop": "a"})))
    with pytest.raises(UnknownEvent, match=r"'test.burnt' is not registered.*test.moved, test.opened"):
        decode_event(payload)


@pytest.mark.parametrize("content", [("test.opened", {"shop": 3}), ("test.opened",), 7])
def test_fields_that_do_not_fit_are_a_corrupt_frame(content: object) -> None:
    with pytest.raises(CorruptFrame, match="cannot be read"):
        decode_event(msgspec.msgpack.encode(("UserEvent", content)))


def test_a_name_is_of_one_type_and_a_type_has_one_name() -> None:
    register_user_event("test.opened", Opened)
    with pytest.raises(Misuse, match="Opened as 'test.opened' is registered already"):
        register_user_event("test.opened", Closed)
    with pytest.raises(Misuse, match="Opened as 'test.opened' is registered already"):
        register_user_event("test.other", Opened)
    with pytest.raises(Misuse, match="neither a dataclass"):
        register_user_event("test.int", int)


def test_the_end_of_a_superstep_is_refused_by_name() -> None:
    with pytest.raises(CorruptFrame, match="superstep ends"):
        decode_event(msgspec.msgpack.encode(("EndOfSuperstep", {})))
