"""A port at loopback is for the user whose process has it, and for root, where nothing else says who may come in: all users of the machine reach it.

first request of a connection ─▶ its user, by the kernel ─▶ ours: kept for the connection; another one: 403
"""

from __future__ import annotations

import logging
import os
from weakref import WeakSet

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tidegate.aio.listening import is_loopback
from tidegate.aio.local_users import LocalUsers
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.timeouts import Response
from tidegate.model.configuration import Configuration
from tidegate.model.masking import SECRETS
from tidegate.model.options import SecurityOptions

_ROOT = 0  # the user id of root, which may do everything
_log = logging.getLogger(__name__)


def own_user_alone(
    configuration: Configuration,
    host: str,
    *,
    asks_users: bool,
    has_https: bool = True,
    local_users: LocalUsers | None = None,
) -> list[Middleware]:
    """Returns what an application of a port at ``host`` looks at first: nothing where it asks users for tokens or clients for certificates, where
    ``tidegate.security.insecure`` lets all users of the machine in, and where the kernel does not tell users. ``has_https``: whether the port has it where
    the REST port has it."""
    option = configuration.get
    of_rest = option(SecurityOptions.REST_ENABLED) and option(SecurityOptions.REST_AUTHENTICATION_ENABLED)
    if asks_users or (has_https and of_rest) or option(SecurityOptions.INSECURE):
        return []
    if not is_loopback(host) or not LocalUsers.can_tell():
        return []
    return [_OwnUser(local_users or LocalUsers()).check]


class _OwnUser:
    def __init__(self, users: LocalUsers) -> None:
        self._users = users
        self._admitted = WeakSet[object]()

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await self._admit(request)
        except RestError as error:
            _log.warning("%s %s refused: %s", request.method, request.path, error.messages[0])
            body = SECRETS.encoded({"errors": list(error.messages)}).encode()
            return Response(status=error.status, body=body, headers={"content-type": "application/json; charset=UTF-8"})
        return await handler(request)

    async def _admit(self, request: web.Request) -> None:
        """Raises ``RestError`` 403."""
        connection = request.transport
        if connection in self._admitted:
            return
        if connection is None:
            raise RestError(403, "Refused: the connection is closed.")
        client, server = connection.get_extra_info("peername"), connection.get_extra_info("sockname")
        try:
            user = await self._users.of(client[:2], server[:2])
        except OSError as error:
            raise RestError(
                403, f"Refused: the kernel does not tell of which user the connection is: {error}."
            ) from None
        if user not in (os.geteuid(), _ROOT):
            whose = "a user that the kernel does not tell" if user is None else f"the user with the id {user}"
            raise RestError(
                403,
                f"Refused: this port is for the user with the id {os.geteuid()}, whose process has it, and the connection is of {whose}. "
                f"To let others in give them tokens ({SecurityOptions.USERS_FILE.key}), or {SecurityOptions.INSECURE.key}: true lets in all users of "
                "this machine.",
            )
        self._admitted.add(connection)
