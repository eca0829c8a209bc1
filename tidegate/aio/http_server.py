"""Starts an HTTP server on one port of all addresses of a host, with a bounded number of connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from tidegate.aio.descriptors import http_connections
from tidegate.aio.listening import listen, port_error
from tidegate.aio.refused_handshakes import tells_refusals

_ACCEPTED_AT_ONCE = 8
"""How many connections are accepted before the loop handles the first of them and closes those beyond the limit. Chosen."""


async def serve_http(
    runner: web.AppRunner,
    host: str,
    port: int,
    what: str,
    most: int | None = None,
    tls: ssl.SSLContext | None = None,
    option: str = "",
) -> int:
    """Listens for a runner that is set up, and returns the port. ``most``: connections at once; ``None``: a share of the descriptors of the process.
    ``tls``: for HTTPS. ``option``: the one that sets the port. Raises ``ExternalError`` that names ``what`` when the port cannot be used."""
    _bound_connections(runner, most or http_connections())
    try:
        sockets = listen(host, port)
    except OSError as error:
        raise port_error(host, port, what, error, option) from None
    if tls is not None:
        sockets = [tells_refusals(tls, one, what) for one in sockets]
    for one in sockets:
        await web.SockSite(runner, one, backlog=_ACCEPTED_AT_ONCE, ssl_context=tls).start()
        one.listen(socket.SOMAXCONN)  # what waits in the kernel takes no descriptor
    return int(sockets[0].getsockname()[1])


def _bound_connections(runner: web.AppRunner, most: int) -> None:
    """Limits the connections of an HTTP server. A connection beyond ``most`` replaces the oldest one without a request in progress, idle or half open,
    of the host that has most of those. Where there is none, the new one is closed."""
    server = runner.server
    assert server is not None, "the runner is set up"
    accept = server.connection_made

    def connection_made(handler: RequestHandler, transport: asyncio.Transport) -> None:
        accept(handler, transport)
        connections = [
            one for one in server.connections if one.transport is not None and not one.transport.is_closing()
        ]
        if len(connections) > most:
            silent = [one for one in connections if one._current_request is None and one is not handler]
            hosts = Counter(map(_host_of, silent))
            _close(max(silent, key=lambda one: hosts[_host_of(one)], default=handler))  # the first of several

    server.connection_made = connection_made  # type: ignore[method-assign]


def _host_of(handler: RequestHandler) -> str:
    """Returns the address of a connection's client, without the port."""
    name = None if handler.transport is None else handler.transport.get_extra_info("peername")
    return str(name[0]) if name else ""


def _close(handler: RequestHandler) -> None:
    transport = handler.transport
    if isinstance(transport, asyncio.Transport):
        transport.abort()
