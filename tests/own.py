"""How tests reach a process of their own user that has no certificates configured."""

from __future__ import annotations

from tidegate.aio.transport import Transport
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration


def own_transport() -> Transport:
    return transport_of(Configuration.from_strings({}))
