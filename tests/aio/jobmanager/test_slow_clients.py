"""Clients that send their headers, or read an answer, too slowly lose their connection; others notice nothing."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from tests.aio.jobmanager.cluster import running_job_manager
from tidegate.jobmanager.rest.http import timeouts as slow_clients
from tidegate.jobmanager.rest.http.timeouts import Response, runner_of

LIMIT_S = 20


async def test_headers_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "HEADERS_TIMEOUT_MS", 300)
    async with running_job_manager() as listening:
        reader, writer = await asyncio.open_connection("localhost", listening.rest_port)
        writer.write(b"GET /overview HTTP/1.1\r\nHost: localhost\r\n")
        assert await asyncio.wait_for(reader.read(), LIMIT_S) == b"", "closed without an answer"
        writer.close()
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"http://localhost:{listening.rest_port}/overview")
            assert answer.status == 200


@pytest.mark.parametrize(("body_bytes", "asked"), [(64 << 20, 1), (16 << 10, 2_000)], ids=["one", "many small ones"])
async def test_an_answer_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, body_bytes: int, asked: int) -> None:
    monkeypatch.setattr(slow_clients, "SEND_TIMEOUT_MS", 200)
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        assert request.task is not None
        request.task.add_done_callback(lambda _: ended.set())
        return Response(body=bytes(body_bytes))

    application = web.Application()
    application.router.add_get("/", answer)
    runner = runner_of(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, runner.addresses[0])
            await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * asked)
            await asyncio.wait_for(ended.wait(), LIMIT_S)
        async with aiohttp.ClientSession() as session:
            read = await session.get(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            assert len(await read.read()) == body_bytes, "who reads gets all of it"
    finally:
        await runner.cleanup()
