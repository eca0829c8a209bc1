"""Reading a stream of server-sent events as a browser does."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse

from tests.contract.rest.asking import Client

_LIMIT_S = 20


@dataclass(frozen=True)
class Heard:
    name: str
    data: Any
    event_id: str


class Listening:
    """One open stream; ``next`` waits for the next event, whatever it is."""

    def __init__(self, answer: ClientResponse) -> None:
        self._answer = answer
        self._rest = b""

    async def next(self) -> Heard:
        async with asyncio.timeout(_LIMIT_S):
            while True:
                while b"\n\n" not in self._rest:
                    more = await self._answer.content.readany()
                    assert more, "the stream ended"
                    self._rest += more
                frame, _, self._rest = self._rest.partition(b"\n\n")
                fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if ": " in line)
                if "event" in fields:
                    return Heard(fields["event"], json.loads(fields["data"]), fields.get("id", ""))

    async def parts(self, *names: str) -> dict[str, Any]:
        """The next of each of these."""
        found: dict[str, Any] = {}
        while not found.keys() >= set(names):
            heard = await self.next()
            found[heard.name] = heard.data
        return found

    def close(self) -> None:
        self._answer.close()


async def listen(client: Client, query: str = "", **headers: str) -> Listening:
    answer = await client.get(f"/web/events{query}", headers=headers)
    assert answer.status == 200, await answer.text()
    assert answer.headers["content-type"].startswith("text/event-stream")
    return Listening(answer)
