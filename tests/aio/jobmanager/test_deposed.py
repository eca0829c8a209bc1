"""A leader that did not run for a while, and that another one has followed: it learns so before it decides, shows or sends anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.contract.rest.asking import serving
from tests.contract.rest.scene import recorded_scene
from tidegate.aio.process import Shutdown
from tidegate.aio.rpc import ServerContext, open_channel, start_server
from tidegate.aio.wakeful_loop import WakefulLoop
from tidegate.high_availability.port import Deposed, Unavailable
from tidegate.jobmanager.service.high_availability import election as election_module
from tidegate.jobmanager.service.high_availability.election import ElectionService
from tidegate.model.errors import Unreachable
from tidegate.model.leadership import Connected, Contact, ElectionEvent, LockAcquired


class Store:
    """An election that this process has won, and its store: what it answers to the question who leads, one after the other."""

    lease_ms = 1_000

    def __init__(self) -> None:
        self.answers: list[Exception | None] = []
        self.asked = 0
        self._gave_up = False
        self._tell: Callable[[ElectionEvent], None] = lambda event: None

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        self._tell = tell
        tell(Connected(1))

    def wait_for_turn(self, session: int) -> None:
        if not self._gave_up:
            self._tell(LockAcquired(session, 7))

    def give_up(self) -> None:
        self._gave_up = True

    def entries(self, term: int) -> Store:
        assert term == 7
        return self

    def check_lead(self) -> None:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    def close(self) -> None:
        """Nothing is open."""


class Story:
    """A follower of the term, and a timer that is due while the process does not run."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_over = asyncio.Event()

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def depose(self, reason: str) -> None:
        self.told.append(f"deposed: {reason}")

    def fire(self) -> None:
        self.told.append("timer")
        self.is_over.set()


GONE = Deposed("another JobManager leads")
DEPOSED = ["deposed: another JobManager leads", "timer"]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([GONE], DEPOSED),
        ([Unavailable("no answer yet"), GONE], DEPOSED),
        ([None], ["timer"]),
        ([Unavailable("never")] * 1_000, ["timer"]),
    ],
    ids=["deposed", "deposed-after-a-try", "leads-on", "not-known"],
)
def test_who_leads_is_known_before_a_timer_fires_that_was_due_meanwhile(
    answers: list[Exception | None], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election_module, "CHECK_LIMIT_S", 0.5)

    async def main() -> tuple[list[str], int]:
        store, story = Store(), Story()
        service = ElectionService(store)  # type: ignore[arg-type]
        service.seek(Contact(""))
        term = await service.wait_to_lead(Shutdown(), lambda: None)
        assert term is not None
        term.followers.append(story)
        store.answers = [*answers]
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, story.fire)
        loop.call_soon(time.sleep, 0.75)  # the loop's thread does nothing, as while the process is stopped
        await story.is_over.wait()
        found = [*story.told], store.asked
        await service.resign()
        return found

    with asyncio.Runner(loop_factory=WakefulLoop) as runner:
        found, asked = runner.run(main())
    assert found == told
    assert asked >= 1


async def test_rest_and_the_page_say_that_there_is_no_leader() -> None:
    scene = recorded_scene()
    async with serving(scene) as client:
        (job,) = (await (await client.get("/jobs/overview")).json())["jobs"]
        assert job["state"] == "RUNNING"
        scene.is_deposed = True
        for path in ("/jobs/overview", "/jobs/overview?x", "/", f"/jobs/{job['jid']}", "/web/events", "/taskmanagers"):
            answer = await client.get(path)
            assert answer.status == 503, path
            assert "ongoing leader election" in (await answer.json())["errors"][0]


async def test_every_kind_of_call_is_refused() -> None:
    deposed: list[Unreachable] = []

    async def one(request: object, context: ServerContext) -> bytes:
        return b"one"

    async def many(request: object, context: ServerContext) -> AsyncIterator[bytes]:
        yield b"many"

    kinds: dict[str, Any] = {
        "uu": grpc.unary_unary_rpc_method_handler(one),
        "us": grpc.unary_stream_rpc_method_handler(many),
        "su": grpc.stream_unary_rpc_method_handler(one),
        "ss": grpc.stream_stream_rpc_method_handler(many),
    }

    def register(server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", kinds),))

    server, port = await start_server("127.0.0.1", 0, register, "test", lambda: deposed[0] if deposed else None)
    channel: Any = open_channel(f"127.0.0.1:{port}")
    asks: list[Callable[[], Awaitable[bytes]]] = [
        lambda: channel.unary_unary("/t/uu")(b"x"),
        lambda: channel.stream_unary("/t/su")(iter([b"x"])),
        lambda: channel.unary_stream("/t/us")(b"x").read(),
        lambda: channel.stream_stream("/t/ss")(iter([b"x"])).read(),
    ]
    assert [await ask() for ask in asks] == [b"one", b"one", b"many", b"many"]
    deposed.append(Unreachable("this JobManager leads no more"))
    for ask in asks:
        with pytest.raises(grpc.aio.AioRpcError, match="leads no more"):
            await ask()
    await channel.close()
    await server.stop(None)
