"""User events of functions, along the stream and against it: types registered by name, the same in every process of the job.

    @dataclass
    class PriceListChanged:
        version: int

    register_user_event("shop.price-list-changed", PriceListChanged)      where the type is defined, so that importing it
                                                                          registers it on both sides

An event is written as ``[name, fields]`` in MessagePack. Laws: a name stands for one type, a type has one name; an
unregistered one is ``UnknownEvent``, on the side that sends as on the side that listens. Types of the job's own script cannot be
imported elsewhere: they travel with the programs (``events_of_the_script``), and a process takes them over (``adopt_user_events``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import msgspec

from tidegate.model.channel_events import UserEvent
from tidegate.model.errors import CorruptFrame, Misuse, UnknownEvent
from tidegate.wire.unreadable import UNREADABLE

_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_by_name: dict[str, type] = {}
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}
_names: dict[type, str] = {}
_MSGSPEC_CACHE = "__msgspec_cache__"


def register_user_event(name: str, kind: type) -> None:
    """Registers a type of user events: the instances of ``kind``, a dataclass or a ``msgspec.Struct``, are sent under ``name``.

    To be called where the type is defined. Registering the same pair again changes nothing; raises ``Misuse`` for a name or a
    type that is taken. Flink has no counterpart: its events are classes with a ``read`` and a ``write`` method.
    """
    if not (is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        raise Misuse(f"user event {name!r}: {kind.__qualname__} is neither a dataclass nor a msgspec.Struct")
    known = next((other for other, taken in _names.items() if taken == name), None)
    if _names.get(kind, name) != name or (known is not None and known is not kind):
        taken = f"{known.__qualname__ if known else kind.__qualname__} as {_names[known or kind]!r}"
        raise Misuse(f"user event {name!r} for {kind.__qualname__}: {taken} is registered already")
    _add(name, kind)


def events_of_the_script() -> tuple[tuple[str, type], ...]:
    """Returns the registered events whose types other processes cannot import: they are pickled by value, with the functions that use them."""
    return tuple((name, kind) for kind, name in _names.items() if _is_of_the_script(kind))


def adopt_user_events(events: Sequence[tuple[str, type]]) -> None:
    """Registers the event types of a program. An earlier program of this process may have registered another copy of a type under its name: the newest
    replaces it."""
    for name, kind in events:
        for other in [other for other, taken in _names.items() if taken == name]:
            del _names[other]
        _add(name, kind)


def user_event(value: object) -> UserEvent:
    """Encodes a user event. Raises ``UnknownEvent``."""
    name = _names.get(type(value))
    if name is None:
        raise UnknownEvent(
            f"an event of type {type(value).__qualname__} cannot be sent: call register_user_event(name, type) first"
        )
    return UserEvent(_encoder.encode((name, value)))


def value_of(event: UserEvent) -> object:
    """Decodes a user event. Raises ``UnknownEvent``, or ``CorruptFrame`` for fields that do not fit the type."""
    try:
        name, fields = _envelope.decode(event.content)
        kind = _by_name.get(name)
        if kind is None:
            known = ", ".join(sorted(_by_name)) or "none"
            raise UnknownEvent(f"user event {name!r} is not registered in this process; registered: {known}")
        return _decoder_of(kind).decode(fields)
    except UNREADABLE as error:
        raise CorruptFrame(f"a user event cannot be read: {error}") from error


def _add(name: str, kind: type) -> None:
    _names[kind] = name
    _by_name[name] = kind


def _decoder_of(kind: type) -> msgspec.msgpack.Decoder[Any]:
    """Returns the decoder of a type. It is created when an event arrives, and not at registration: the cache that msgspec stores in a dataclass cannot
    be pickled, and the client pickles types of its script."""
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.msgpack.Decoder(kind)
        if _MSGSPEC_CACHE in vars(kind):
            delattr(kind, _MSGSPEC_CACHE)
    return found


def _is_of_the_script(kind: type) -> bool:
    return kind.__module__ == "__main__" or "<locals>" in kind.__qualname__
