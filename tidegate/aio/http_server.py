"""An HTTP server on a port that a host has as a whole."""

from __future__ import annotations

from aiohttp import web

from tidegate.aio.listening import listen, port_error


async def serve_http(runner: web.AppRunner, host: str, port: int, what: str) -> int:
    """Listen for a runner that is set up; the port. Raises ``ExternalError`` that names ``what`` when it cannot be had."""
    try:
        sockets = listen(host, port)
    except OSError as error:
        raise port_error(host, port, what, error) from None
    for one in sockets:
        await web.SockSite(runner, one).start()
    return int(sockets[0].getsockname()[1])
