"""Reads, discards or saves bodies of requests, with limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from tidegate.jobmanager.rest.http.errors import RestError, bad_request

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_MS = 30_000
"""How long a client may take to send a body of JSON, in ms. Chosen, not measured."""
UPLOAD_TIMEOUT_MS = 300_000
"""How long a client may take to upload a program, in ms. Chosen, not measured."""
_CHUNK_BYTES = 256 * 1024
"""How much of an upload is read at once, which bounds its memory."""


async def read_body(request: web.Request) -> bytes:
    """Reads the body. Raises ``RestError`` 413, 408, or 400 when the client has disconnected."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_MS / 1000):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(MAX_BODY_BYTES) from None
    except TimeoutError:
        raise _too_slow(BODY_TIMEOUT_MS) from None
    except ConnectionError:
        raise _broke_off() from None


async def drain(request: web.Request, max_bytes: int) -> None:
    """Reads and discards the body, for a client that reads no answer before it has sent everything. Raises ``RestError`` 413, 408 or 400."""
    left = max_bytes
    try:
        async with asyncio.timeout(UPLOAD_TIMEOUT_MS / 1000):
            async for chunk in request.content.iter_chunked(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise too_large(max_bytes)
    except TimeoutError:
        raise _too_slow(UPLOAD_TIMEOUT_MS) from None
    except ConnectionError:
        raise _broke_off() from None


class Upload:
    """A file in a multipart body."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    async def save(self, path: Path, max_bytes: int) -> str:
        """Saves the file at ``path``; returns the client's name for it, without directories. Raises ``RestError`` 400, 408 or 413."""
        if not self._request.content_type.startswith("multipart/"):
            raise bad_request("Exactly 1 file must be sent, received 0: post it as multipart/form-data.")
        try:
            async with asyncio.timeout(UPLOAD_TIMEOUT_MS / 1000):
                return await self._save(path, max_bytes)
        except TimeoutError:
            raise _too_slow(UPLOAD_TIMEOUT_MS) from None
        except (ValueError, HttpProcessingError) as error:
            raise bad_request(f"Request did not match expected format: {str(error)[:500]}") from None
        except ConnectionError:
            raise _broke_off() from None

    async def _save(self, path: Path, max_bytes: int) -> str:
        names = []
        left = max_bytes
        async for part in await self._request.multipart():
            if not isinstance(part, BodyPartReader):
                raise bad_request("Request did not match expected format: a part of the form contains further parts.")
            if part.filename is not None:
                names.append(part.filename.replace("\\", "/").rpartition("/")[2])
            with _place(path if part.filename is not None and len(names) == 1 else None) as write:
                while chunk := await part.read_chunk(_CHUNK_BYTES):
                    left -= len(chunk)
                    if left < 0:
                        raise too_large(max_bytes)
                    await asyncio.to_thread(write, chunk)
        if len(names) != 1:
            raise bad_request(f"Exactly 1 file must be sent, received {len(names)}.")
        return names[0]


@contextmanager
def _place(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Yields a function that writes to the file, or discards when ``path`` is ``None``."""
    if path is None:
        yield len
        return
    with path.open("wb") as file:
        yield file.write


def too_large(max_bytes: int) -> RestError:
    return RestError(413, f"The request is larger than {max_bytes} bytes.")


def _broke_off() -> RestError:
    """Returns the error for a client that has disconnected; it is never read."""
    return bad_request("The connection broke before the end of the request.")


def _too_slow(limit_ms: int) -> RestError:
    return RestError(408, f"The request's body did not arrive within {limit_ms} ms.")
