"""Refuses other users of the machine with 403, on an HTTP port at loopback that requires no token."""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tidegate.aio.local_users import LocalUsers
from tidegate.aio.own_user import OwnUser
from tidegate.jobmanager.rest.http.timeouts import Response
from tidegate.model.configuration import Configuration
from tidegate.model.errors import NotPermitted
from tidegate.model.masking import SECRETS
from tidegate.model.options import SecurityOptions

_log = logging.getLogger(__name__)


def own_user_alone(
    configuration: Configuration,
    host: str,
    *,
    asks_users: bool,
    has_https: bool = True,
    local_users: LocalUsers | None = None,
) -> list[Middleware]:
    """Returns middlewares that refuse other users of the machine, for a port at ``host``.

    Empty when the port requires tokens or client certificates, when ``tidegate.security.insecure`` lets all users of the machine in, and when
    the kernel does not tell users. ``has_https``: whether the port has HTTPS when the REST port has it.
    """
    option = configuration.get
    of_rest = option(SecurityOptions.REST_ENABLED) and option(SecurityOptions.REST_AUTHENTICATION_ENABLED)
    if asks_users or (has_https and of_rest):
        return []
    own_user = OwnUser.of(configuration, host, local_users)
    return [] if own_user is None else [_checking(own_user)]


def _checking(own_user: OwnUser) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await own_user.admit(request.transport)
        except NotPermitted as error:
            _log.warning("the request %s %s was refused: %s", request.method, request.path, error.message)
            body = SECRETS.encoded({"errors": [error.message]}).encode()
            return Response(status=403, body=body, headers={"content-type": "application/json; charset=UTF-8"})
        return await handler(request)

    return check
