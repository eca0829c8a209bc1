from __future__ import annotations

from dataclasses import dataclass

import cloudpickle
import msgspec
import pytest

from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import CorruptFrame, Misuse, UnknownEvent
from tidegate.wire import user_events
from tidegate.wire.channel_messages import decode_event, encode_event
from tidegate.wire.user_events import (
    adopt_user_events,
    events_of_the_script,
    register_user_event,
    user_event,
    value_of,
)


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
    for value in (Opened("a"), Moved("b")):
        came = decode_event(encode_event(user_event(value)))
        assert isinstance(came, UserEvent)
        assert value_of(came) == value
    assert b"test.opened" in encode_event(user_event(Opened("a")))


def test_an_event_passes_where_nobody_knows_its_type() -> None:
    payload = msgspec.msgpack.encode(("UserEvent", ("test.burnt", {"shop": "a"})))
    assert encode_event(decode_event(payload)) == payload


def test_a_type_that_nobody_registered_is_not_sent() -> None:
    with pytest.raises(UnknownEvent, match="Closed cannot be sent"):
        user_event(Closed("a"))


def test_a_name_that_nobody_registered_is_refused_with_those_known() -> None:
    content = msgspec.msgpack.encode(("test.burnt", {"shop": "a"}))
    with pytest.raises(UnknownEvent, match=r"'test.burnt' is not registered.*test.moved, test.opened"):
        value_of(UserEvent(content))


@pytest.mark.parametrize("content", [("test.opened", {"shop": 3}), ("test.opened",), 7])
def test_fields_that_do_not_fit_are_a_corrupt_frame(content: object) -> None:
    with pytest.raises(CorruptFrame, match="cannot be read"):
        value_of(UserEvent(msgspec.msgpack.encode(content)))


def test_types_of_the_script_travel_with_its_programs_and_the_newest_copy_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for registry in ("_names", "_by_name"):
        monkeypatch.setattr(user_events, registry, dict(getattr(user_events, registry)))

    def another_copy() -> type:
        @dataclass
        class Local:
            number: int

        return Local

    first, second = another_copy(), another_copy()
    register_user_event("test.local", first)
    assert ("test.local", first) in events_of_the_script()
    assert "test.opened" not in dict(events_of_the_script()), "others are imported by their modules' names"
    sent = user_event(first(3))
    adopt_user_events([("test.local", second)])
    assert value_of(sent) == second(3)
    assert cloudpickle.loads(cloudpickle.dumps(second)) is second
    with pytest.raises(UnknownEvent):
        user_event(first(3))


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
