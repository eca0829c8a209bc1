"""Whether the process of a TaskManager is over whose connection broke: then nothing listens on its port any longer."""

from __future__ import annotations

import asyncio
import socket

FIRST_PAUSE_S = 0.02
"""Chosen: the end of a process takes some milliseconds from its first closed connection to its last, and what follows waits for this."""
LAST_PAUSE_S = 0.25
"""Chosen: a process that does not end at once is stopped, cut off, or lives. The pause doubles up to this."""
CONNECT_S = 1.0
"""Chosen, not measured: a kernel that lives answers within milliseconds, and takes or refuses."""


async def until_refused(address: str) -> str:
    """Returns once a connection to ``host:port`` is refused, with a reason for people. Goes on until then: a connection that is taken, or
    that is not answered, says nothing of the process."""
    host, _, port = address.rpartition(":")
    pause_s = FIRST_PAUSE_S
    while not await _is_refused(host.strip("[]"), int(port)):
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
    return f"nothing listens at {address}: its process is gone"


async def _is_refused(host: str, port: int) -> bool:
    """By each address of the host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(found) and all([await _refuses(family, address) for family, _, _, _, address in found])


async def _refuses(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, address), CONNECT_S)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
