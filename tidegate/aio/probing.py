"""Detects that the process that listens on a port has ended: connections to it are refused then."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from enum import Enum

FIRST_PAUSE_S = 0.02
"""The first delay between two connections, in seconds. Chosen: a process takes some milliseconds to close all of its connections, and failover waits
for this."""
LAST_PAUSE_S = 0.25
"""The longest delay between two connections, to which it doubles, in seconds. Chosen: a process that does not end at once is stopped, unreachable, or
alive."""
CONNECT_S = 1.0
"""The timeout of a connection and of a gRPC server's first bytes on it, in seconds. Chosen, not measured."""


class _Said(Enum):
    REFUSED = "refused"
    SILENT = "silent"
    OTHER = "other"


async def until_refused(address: str, on_silence: Callable[[], None] = lambda: None, hello: bytes = b"") -> str:
    """Connects to a gRPC server at ``host:port`` repeatedly until the connection is refused. Returns the reason in words.

    A connection that is accepted proves nothing: the kernel accepts it for a process that is stopped. One that times out may be a broken
    network. ``on_silence`` is called after each connection that was accepted and on which the server sent nothing for ``CONNECT_S``.
    ``hello``: what a client sends first, where a server waits for that (``Transport.hello``)."""
    host, _, port = address.rpartition(":")
    pause_s = FIRST_PAUSE_S
    while True:
        said = await _ask(host.strip("[]"), int(port), hello)
        if said is _Said.REFUSED:
            return f"nothing listens at {address}: its process is gone"
        if said is _Said.SILENT:
            on_silence()
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)


async def _ask(host: str, port: int, hello: bytes) -> _Said:
    """Probes a port once on each address of a host: connects, sends ``hello`` and waits for a first byte.

    Returns ``REFUSED`` when all connections were refused, ``SILENT`` when a connection was accepted but nothing was sent on it within ``CONNECT_S``
    (others were refused or silent too), else ``OTHER``.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return _Said.OTHER
    answers = {await _ask_at(family, address, hello) for family, _, _, _, address in found}
    if answers == {_Said.REFUSED}:
        return _Said.REFUSED
    return _Said.SILENT if _Said.SILENT in answers and _Said.OTHER not in answers else _Said.OTHER


async def _ask_at(family: int, address: tuple[object, ...], hello: bytes) -> _Said:
    loop = asyncio.get_running_loop()
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(connection, address)
        except ConnectionRefusedError:
            return _Said.REFUSED
        except OSError:  # a TimeoutError is one
            return _Said.OTHER
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_sendall(connection, hello)
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_recv(connection, 1)
        except TimeoutError:
            return _Said.SILENT
        except OSError:
            return _Said.OTHER
    return _Said.OTHER
