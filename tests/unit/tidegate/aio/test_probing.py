"""A port is probed until a connection to it is refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from tests.ports import free_port
from tidegate.aio import probing
from tidegate.aio.probing import until_refused
from tidegate.aio.rpc import start_server

LIMIT_S = 10


@pytest.fixture
async def listener() -> AsyncIterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.setblocking(False)
        yield found


async def accepted(listener: socket.socket) -> None:
    connection, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), LIMIT_S)
    connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_where_nothing_listens_the_process_is_gone(host: str) -> None:
    address = f"{host}:{free_port()}"
    reason = await asyncio.wait_for(until_refused(address), LIMIT_S)
    assert reason == f"nothing listens at {address}: its process is gone"


async def test_a_port_that_takes_connections_is_probed_again_until_it_is_closed(listener: socket.socket) -> None:
    probing = asyncio.ensure_future(until_refused(f"127.0.0.1:{listener.getsockname()[1]}"))
    for _ in range(3):
        await accepted(listener)
    assert not probing.done(), "it took each connection"
    listener.close()
    assert "its process is gone" in await asyncio.wait_for(probing, LIMIT_S)


async def test_a_process_that_stands_still_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no connection: the queue of the kernel is full, and further ones are not answered."""
    monkeypatch.setattr(probing, "CONNECT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as full:
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(full.getsockname())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(until_refused(f"127.0.0.1:{full.getsockname()[1]}"), 0.5)
        for connection in waiting:
            connection.close()


async def test_a_port_on_which_nothing_is_said_is_of_a_process_that_stands_still(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "CONNECT_S", 0.05)
    silent = asyncio.Event()
    probe = asyncio.ensure_future(until_refused(f"127.0.0.1:{listener.getsockname()[1]}", silent.set))
    await asyncio.wait_for(silent.wait(), LIMIT_S)
    listener.close()
    await asyncio.wait_for(probe, LIMIT_S)


async def test_a_server_that_lives_speaks_first() -> None:
    server, port = await start_server("127.0.0.1", 0, lambda _: None, "a server")
    silences: list[None] = []
    probe = asyncio.ensure_future(until_refused(f"127.0.0.1:{port}", lambda: silences.append(None)))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(probe, 0.5)
    assert silences == []
    await server.stop(None)


async def test_a_name_that_cannot_be_resolved_says_nothing_of_a_process() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(until_refused("no-such-host.invalid:1"), 0.3)


async def test_one_that_is_cancelled_just_when_it_is_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` of Python 3.11 forgets that it was cancelled when what it waits for is there at the same time."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    answers: list[asyncio.Future[None]] = []

    def connect(*_: object) -> asyncio.Future[None]:
        answers.append(loop.create_future())
        asked.set()
        return answers[-1]

    monkeypatch.setattr(loop, "sock_connect", connect)
    probe = asyncio.ensure_future(until_refused("127.0.0.1:1"))
    await asyncio.wait_for(asked.wait(), LIMIT_S)
    answers[0].set_exception(OSError("no route"))
    await asyncio.sleep(0)  # so that it is woken, and has not gone on
    probe.cancel()
    await asyncio.wait([probe], timeout=LIMIT_S)
    assert probe.cancelled()
    assert len(answers) == 1
