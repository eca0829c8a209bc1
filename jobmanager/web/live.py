"""Server-sent events: one stream for each open page, with the changed parts of what it shows.

    hello ─▶ every part ─▶ a change of the job, or a tick ─▶ pause ─▶ parts whose digest is another ─▶ ...

Changes are merged: between two looks is a pause that grows with the job, and a slow reader gets the latest state, never
a queue of old ones. A stream is resumed by the id of its last event, which holds the digests that the page has: what did not
change meanwhile is not sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiohttp import web

from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError, bad_request
from tidegate.jobmanager.web.cluster_parts import hello
from tidegate.jobmanager.web.parts import PagePart, PageParts, Shown
from tidegate.model.ids import parse_job_id
from tidegate.model.masking import SECRETS

MAX_STREAMS = 64
"""How many streams may be open. Chosen, not measured: each open page costs the JobManager a stream and its parts."""
TICK_MS = 1_000
"""How often parts are checked without a change of the job, in ms: counters and heartbeats come without one."""
SETTLE_MS = 50
"""The delay before a change is looked at, in ms: what it started, such as a checkpoint, must not wait for a page."""
QUIET_MS = 10_000
"""After this long without a change, in ms, a comment is sent, which detects clients that are gone."""
WRITE_TIMEOUT_MS = 30_000
"""How long a browser may take to read, in ms. Chosen, not measured: a slower one is asleep, and connects again."""
RETRY_MS = 1_000
"""After how long a page that lost its stream reconnects, in ms."""
_MAX_EVENT_ID = 512
"""The longest event id that is accepted; ours are far shorter."""
_HEADERS = {
    "content-type": "text/event-stream; charset=UTF-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


_log = logging.getLogger(__name__)


class Live:
    """All streams of this process. ``close`` ends them."""

    def __init__(self, backend: Backend, parts: PageParts) -> None:
        self._backend = backend
        self._parts = parts
        self._open: set[asyncio.Event] = set()
        self._closing = asyncio.Event()

    @property
    def open_streams(self) -> int:
        return len(self._open)

    async def answer(self, request: web.Request, may_go_on: Callable[[], bool] = lambda: True) -> web.StreamResponse:
        """Serves the stream that the query asks for, until one side closes it or ``may_go_on`` returns false.

        Raises ``RestError`` for a bad query, a foreign page, or too many streams.
        """
        shown = _shown(request.query)
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise RestError(403, "Refused: only pages of this endpoint may listen here.")
        if self.open_streams >= MAX_STREAMS:
            raise RestError(503, f"{MAX_STREAMS} pages are open; close one of them, or try again later.")
        response = web.StreamResponse(headers=_HEADERS)
        stream = _Stream(response, shown, _known(request.headers.get("Last-Event-ID", "")))
        with self._backend.watch(shown.job_id) as changed:
            self._open.add(changed)
            try:
                await response.prepare(request)
                await self._serve(stream, changed, request, may_go_on)
            except (ConnectionError, TimeoutError):
                pass  # the page is gone, or does not read
            except Exception:  # noqa: BLE001  (a driver: the page comes again)
                _log.exception(
                    "live updates of the page of %s failed; the page asks for them again", shown.job_id or "the cluster"
                )
            finally:
                self._open.discard(changed)
        return response

    def close(self) -> None:
        """Ends all open streams; pages may reconnect."""
        self._closing.set()
        self._closing = asyncio.Event()
        for changed in self._open:
            changed.set()

    async def _serve(
        self, stream: _Stream, changed: asyncio.Event, request: web.Request, may_go_on: Callable[[], bool]
    ) -> None:
        closing = self._closing
        hello_data = SECRETS.encoded(hello(self._backend))
        await stream.send(f"retry: {RETRY_MS}\nevent: hello\ndata: {hello_data}\n\n".encode())
        while not closing.is_set() and request.transport is not None and may_go_on():
            changed.clear()
            await stream.send_parts(await self._parts.of(stream.shown))
            await _wait(closing, self._parts.pause_ms(stream.shown))
            await _wait(changed, TICK_MS)
            await _wait(closing, SETTLE_MS)


class _Stream:
    def __init__(self, response: web.StreamResponse, shown: Shown, known: dict[str, str]) -> None:
        self.response = response
        self.shown = shown
        self._known = known
        """The digests of the parts that the page has, by name."""
        self._heard = asyncio.get_running_loop().time()

    async def send_parts(self, parts: list[PagePart]) -> None:
        """Sends the parts that the page does not have; the last event carries all digests."""
        newer = [part for part in parts if self._known.get(part.name) != part.digest]
        names = {part.name for part in parts}
        self._known = {name: digest for name, digest in self._known.items() if name in names}
        frames = []
        for part in newer:
            self._known[part.name] = part.digest
            event_id = ",".join(f"{name}={digest}" for name, digest in self._known.items())
            frames.append(b"id: %s\nevent: %s\ndata: %s\n\n" % (event_id.encode(), part.name.encode(), part.body))
        if frames:
            await self.send(b"".join(frames))
        elif asyncio.get_running_loop().time() - self._heard > QUIET_MS / 1000:
            await self.send(b":\n\n")

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(WRITE_TIMEOUT_MS / 1000):
            await self.response.write(data)
        self._heard = asyncio.get_running_loop().time()


def _shown(query: Mapping[str, str]) -> Shown:
    job, vertex, checkpoint = query.get("job"), query.get("vertex", ""), query.get("checkpoint")
    if checkpoint is not None and not (checkpoint.isascii() and checkpoint.isdigit() and len(checkpoint) < 19):
        raise bad_request(f"Cannot resolve query parameter (checkpoint) from value {checkpoint!r}: expected a number.")
    try:
        return Shown(
            None if job is None else parse_job_id(job), vertex, None if checkpoint is None else int(checkpoint)
        )
    except ValueError as error:
        raise bad_request(f"Cannot resolve query parameter (job): {error}") from None


def _known(event_id: str) -> dict[str, str]:
    if len(event_id) > _MAX_EVENT_ID:
        return {}
    pairs = (pair.partition("=") for pair in event_id.split(","))
    return {name: digest for name, _, digest in pairs if digest}


async def _wait(event: asyncio.Event, timeout_ms: float) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
