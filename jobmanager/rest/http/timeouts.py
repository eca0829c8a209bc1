"""Timeouts for clients that send or read too slowly.

    connection ─▶ request line and headers ─▶ body ─▶ answer ─▶ idle ─▶ ...
                  ╰─── HEADERS_TIMEOUT_MS ──╯  bodies.py  ╰ SEND_TIMEOUT_MS   ╰ HEADERS_TIMEOUT_MS again

The time for the headers runs from the connection, or from the last answer, whatever arrives meanwhile; so an idle
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
"""How long a client may take to send the headers, in ms: more than the minute for which proxies keep an idle connection,
so that they close it first.
"""
SEND_TIMEOUT_MS = 60_000
"""How long a client may take to read a whole answer, in ms; buffers on the way count as read."""

SMALL_BYTES = 32 << 10
"""Answers up to this size fit a connection's buffer (64 KiB) and need no timeout."""


def runner_of(application: web.Application, *, shutdown_s: float = 60.0) -> web.AppRunner:
    """Returns a server of the application with timeouts and without a ``Server`` header.

    ``shutdown_s``: how long answers in progress may take when it ends.
    """
    application.on_response_prepare.append(_drop_server_header)
    return web.AppRunner(
        application,
        access_log=None,
        logger=_log,
        keepalive_timeout=HEADERS_TIMEOUT_MS / 1000,
        shutdown_timeout=shutdown_s,
    )


async def _drop_server_header(_: web.Request, response: web.StreamResponse) -> None:
    """Removes the ``Server`` header, as Flink sends none; it would tell attackers which library is used."""
    response.headers.popall(hdrs.SERVER, None)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Shortens the log of a malformed request, which has been answered, to one line without a stack trace."""
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
        """Skips the timeout for a small answer on a connection where nothing waits (5 % of an answer's cost)."""
        transport = request.transport
        waiting = transport.get_write_buffer_size() if transport is not None else 0
        self._is_taken_at_once = waiting == 0 and isinstance(self.body, bytes) and len(self.body) <= SMALL_BYTES
        return await super().prepare(request)

    async def write_eof(self, *arguments: Any, **options: Any) -> None:
        """Sends the rest of the answer. Raises ``ConnectionResetError`` after the timeout, on which the server closes the connection."""
        if self._is_taken_at_once:
            return await super().write_eof(*arguments, **options)
        try:
            async with asyncio.timeout(SEND_TIMEOUT_MS / 1000):
                await super().write_eof(*arguments, **options)
        except TimeoutError:
            raise ConnectionResetError(
                f"the client did not read the response within {SEND_TIMEOUT_MS} ms, so its connection is closed"
            ) from None
