"""The figures of the benchmark of questions by REST, and the client that asks them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from benchmarks.rest_load import Connection, Measured, Phase, at_99


def test_a_change_that_every_pair_shows_is_found_whatever_pairs_are_drawn() -> None:
    measured = Measured()
    for pair in range(30):
        times = [0.100 + 0.001 * (pair % 3 + number) for number in range(20)]
        measured.alone.append(Phase(times, 1.0))
        measured.requests.append(Phase([1.2 * took for took in times], 1.0))
    low, high = measured.between(at_99)
    assert low == pytest.approx(20, abs=3)
    assert high == pytest.approx(20, abs=3)


def test_noise_gives_a_wide_answer() -> None:
    measured = Measured()
    for pair in range(30):
        slow = 0.3 if pair % 10 == 0 else 0.1
        measured.alone.append(Phase([0.1] * 20, 1.0))
        measured.requests.append(Phase([0.1] * 17 + [slow] * 3, 1.0))
    low, high = measured.between(at_99)
    assert low == pytest.approx(0)
    assert high > 50


async def test_answers_are_counted_in_pieces_and_several_at_once() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 300_000)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(Connection, *runner.addresses[0])
        for _ in range(5):
            connection.get("/")
        async with asyncio.timeout(20):
            await connection.settled.wait()
        assert len(connection.took_s) == 5
        transport.close()
    finally:
        await runner.cleanup()
