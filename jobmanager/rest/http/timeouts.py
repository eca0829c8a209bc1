"""Clients that send or read so slowly that only the connection is left of them: each is given up after a while.

    connection ─▶ request line and headers ─▶ body ─▶ answer ─▶ idle ─▶ ...
                  ╰─── HEADERS_TIMEOUT_MS ──╯  bodies.py  ╰ SEND_TIMEOUT_MS   ╰ HEADERS_TIMEOUT_MS again

The time for the headers runs from the connection, or from the answer before, whatever trickles in meanwhile; so an idle
connection ends with it too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError

HEADERS_TIMEOUT_MS = 120_000
"""More than the minute for which proxies keep an idle connection, so that they close it first."""
SEND_TIMEOUT_MS = 60_000
"""For a whole answer to be taken by the client, or by buffers on the way."""

SMALL_BYTES = 32 << 10
"""Less than a connection's buffer holds before who writes must wait (64 KiB)."""


def runner_of(application: web.Application, *, shutdown_s: float = 60.0) -> web.AppRunner:
    """A server of the application that does not wait for headers without end, and does not say which library it is made of.
    ``shutdown_s``: how long answers that are under way may take when it ends."""
    application.on_response_prepare.append(_drop_server_header)
    return web.AppRunner(
        application,
        access_log=None,
        logger=_log,
        keepalive_timeout=HEADERS_TIMEOUT_MS / 1000,
        shutdown_timeout=shutdown_s,
    )


async def _drop_server_header(_: web.Request, response: web.StreamResponse) -> None:
    """Flink sends no such header either, and who looks for a library with a known hole learns nothing."""
    response.headers.popall(hdrs.SERVER, None)


def _in_one_line(record: logging.LogRecord) -> bool:
    """A request that is no HTTP, or whose body cannot be decoded, is the client's fault and has been answered: one line,
    without our stack trace."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError):
        text = error.message.splitlines()[0] if isinstance(error, HttpProcessingError) else " ".join(str(error).split())
        record.msg, record.args = f"{record.getMessage()}: {text}", ()
        record.exc_info, record.levelno, record.levelname = None, logging.INFO, "INFO"
    return True


_log = logging.getLogger("tidegate.jobmanager.rest.http")
_log.addFilter(_in_one_line)


class Response(web.Response):
    """A response that breaks off when its client stops reading."""

    _is_taken_at_once = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """A small answer on a connection where nothing waits goes into the buffer: no time needs to be kept (5 % of an answer's cost)."""
        transport = request.transport
        waiting = transport.get_write_buffer_size() if transport is not None else 0
        self._is_taken_at_once = waiting == 0 and isinstance(self.body, bytes) and len(self.body) <= SMALL_BYTES
        return await super().prepare(request)

    async def write_eof(self, *arguments: Any, **options: Any) -> None:
        """Raises ``ConnectionResetError``, on which the server closes the connection."""
        if self._is_taken_at_once:
            return await super().write_eof(*arguments, **options)
        try:
            async with asyncio.timeout(SEND_TIMEOUT_MS / 1000):
                await super().write_eof(*arguments, **options)
        except TimeoutError:
            raise ConnectionResetError("the client does not read its answer") from None
