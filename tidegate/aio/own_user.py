"""Restricts a loopback port to the user of its process and to root, where nothing else authenticates clients: all users of the machine can reach it.

first request of a connection ─▶ its user, by the kernel ─▶ ours: kept for the connection; another one: refused
"""

from __future__ import annotations

import asyncio
import os
from weakref import WeakSet

from tidegate.aio.listening import is_loopback
from tidegate.aio.local_users import LocalUsers
from tidegate.model.configuration import Configuration
from tidegate.model.errors import NotPermitted
from tidegate.model.options import SecurityOptions

_ROOT = 0  # the user id of root, which may do everything


class OwnUser:
    """Admits connections of this user and of root; remembers those that it has checked."""

    def __init__(self, users: LocalUsers) -> None:
        self._users = users
        self._admitted = WeakSet[object]()

    @staticmethod
    def of(configuration: Configuration, host: str, users: LocalUsers | None = None) -> OwnUser | None:
        """Creates the check for a port at ``host``; ``None`` where ``tidegate.security.insecure`` admits all users, where the host is not loopback, and
        where the kernel does not tell users."""
        if configuration.get(SecurityOptions.INSECURE) or not is_loopback(host) or not LocalUsers.can_tell():
            return None
        return OwnUser(users or LocalUsers())

    async def admit(self, connection: asyncio.BaseTransport | None) -> None:
        """Checks the user of a connection. Raises ``NotPermitted``."""
        if connection in self._admitted:
            return
        if connection is None:
            raise NotPermitted("Refused: the connection is closed.")
        client, server = connection.get_extra_info("peername"), connection.get_extra_info("sockname")
        try:
            user = await self._users.of(client[:2], server[:2])
        except OSError as error:
            raise NotPermitted(f"Refused: the kernel does not tell of which user the connection is: {error}.") from None
        if user not in (os.geteuid(), _ROOT):
            whose = "a user that the kernel does not tell" if user is None else f"the user with the id {user}"
            raise NotPermitted(
                f"Refused: this port is for the user with the id {os.geteuid()}, whose process has it, and the connection is of {whose}. "
                f"To let others in give them tokens ({SecurityOptions.USERS_FILE.key}), or {SecurityOptions.INSECURE.key}: true lets in all users of "
                "this machine."
            )
        self._admitted.add(connection)
