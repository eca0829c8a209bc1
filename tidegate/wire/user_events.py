"""User events that travel in data channels: types registered by name, the same in every process of the job.

    @dataclass
    class PriceListChanged:
        version: int

    register_user_event("shop.price-list-changed", PriceListChanged)      where the type is defined, so that importing it
                                                                          registers it on both sides

An event is written as ``[name, fields]`` in MessagePack. Laws: a name stands for one type, a type has one name; an
unregistered one is ``UnknownEvent``, on the side that sends as on the side that receives.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import msgspec

from tidegate.model.errors import CorruptFrame, Misuse, UnknownEvent

_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_by_name: dict[str, msgspec.msgpack.Decoder[Any]] = {}
_names: dict[type, str] = {}


def register_user_event(name: str, kind: type) -> None:
    """``kind`` is a dataclass or a ``msgspec.Struct``. Registering the same pair again changes nothing; raises ``Misuse``
    for a name or a type that is taken."""
    if not (is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        raise Misuse(f"user event {name!r}: {kind.__qualname__} is neither a dataclass nor a msgspec.Struct")
    known = next((other for other, taken in _names.items() if taken == name), None)
    if _names.get(kind, name) != name or (known is not None and known is not kind):
        taken = f"{known.__qualname__ if known else kind.__qualname__} as {_names[known or kind]!r}"
        raise Misuse(f"user event {name!r} for {kind.__qualname__}: {taken} is registered already")
    _names[kind] = name
    _by_name[name] = msgspec.msgpack.Decoder(kind)


def encode_user_event(value: object) -> bytes:
    """Raises ``UnknownEvent``."""
    name = _names.get(type(value))
    if name is None:
        raise UnknownEvent(
            f"an event of type {type(value).__qualname__} cannot be sent: call register_user_event(name, type) first"
        )
    return _encoder.encode((name, value))


def decode_user_event(payload: bytes | memoryview) -> object:
    """Raises ``UnknownEvent``, or ``CorruptFrame`` for fields that do not fit the type."""
    try:
        name, fields = _envelope.decode(payload)
        decoder = _by_name.get(name)
        if decoder is None:
            known = ", ".join(sorted(_by_name)) or "none"
            raise UnknownEvent(f"user event {name!r} is not registered in this process; registered: {known}")
        return decoder.decode(fields)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptFrame(f"a user event cannot be read: {error}") from error
