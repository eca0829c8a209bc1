"""Finds which local user owns the other end of a loopback connection, from the kernel's tables (Linux: ``/proc/net/tcp``, ``proc_pid_net(5)``)."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]
"""The address, without brackets, and port of a socket."""
Owners: TypeAlias = dict[tuple[Place, Place], int]
"""The user id of each socket, by its own address and that of its peer."""
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_CONNECTED = frozenset({"01", "04", "05", "08"})
"""TCP states ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT, in which a process may still own the socket. The table has no user for the other states."""
_NO_INODE = "0"
"""The inode of a socket that all processes have closed: the kernel shows it as owned by root."""
_WORDS = "<I" if sys.byteorder == "little" else ">I"


def owners_of(tables: Iterable[str], port: int) -> Owners:
    """Parses the text of the kernel's tables into the owners of the sockets that are connected to ``port``."""
    found: Owners = {}
    wanted = f":{port:04X}"
    for table in tables:
        for line in table.splitlines()[1:]:
            _, local, remote, state, _, _, _, user, _, inode, *_ = line.split()
            if remote.endswith(wanted) and state in _CONNECTED and inode != _NO_INODE:
                found[_place(local), _place(remote)] = int(user)
    return found


def plain(place: Place) -> Place:
    """Normalizes the address of a socket: ``::ffff:127.0.0.1`` becomes ``127.0.0.1``."""
    address = ipaddress.ip_address(place[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), place[1]


class LocalUsers:
    """Finds the users of connections to one port. Concurrent callers share one reading of the kernel's tables."""

    def __init__(self, tables: Iterable[Path] = TABLES) -> None:
        self._tables = tuple(tables)
        self._reading: asyncio.Task[Owners] | None = None
        self._next: asyncio.Task[Owners] | None = None

    @staticmethod
    def can_tell() -> bool:
        """Tells whether this machine has the kernel's socket tables."""
        return TABLES[0].exists()

    async def of(self, client: Place, server: Place) -> int | None:
        """Returns the id of the user whose socket is at ``client``; ``None`` when all processes have closed it. Raises ``OSError``."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._reading, server[1]))
        owners = await asyncio.shield(self._next)
        return owners.get((plain(client), plain(server)))

    async def _read_after(self, before: asyncio.Task[Owners] | None, port: int) -> Owners:
        if before is not None:
            await asyncio.wait([before])
        self._reading, self._next = self._next, None
        return await asyncio.to_thread(self._read, port)

    def _read(self, port: int) -> Owners:
        return owners_of((path.read_text("ascii") for path in self._tables if path.exists()), port)


def _place(text: str) -> Place:
    """Parses the address of a socket such as ``0100007F:1F91``, whose words have the byte order of the machine."""
    address, _, port = text.partition(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    packed = b"".join(struct.pack(_WORDS, word) for word in words)
    return plain((str(ipaddress.ip_address(packed)), int(port, 16)))
