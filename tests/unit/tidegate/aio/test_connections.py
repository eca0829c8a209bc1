"""One host does not hold all connections of a gRPC server: idle ones make room, and those with calls only where a host has too many of them."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
import pytest

from tidegate.aio import connections, rpc
from tidegate.aio.connections import Peer, peer_of, surplus
from tidegate.aio.rpc import open_channel, start_server
from tidegate.pb.common_pb2 import Ack
from tidegate.pb.jobmanager_pb2 import JobRequest

MOST = 16
"""Eight of one host; two are kept free of idle ones."""


def of(host: str, count: int) -> list[Peer]:
    return [(host, 50_000 + number) for number in range(count)]


def test_a_host_has_half_and_its_oldest_idle_ones_make_room() -> None:
    assert surplus(of("a", 8), set(), MOST) == []
    assert surplus(of("a", 10), set(), MOST) == of("a", 2)
    assert surplus(of("a", 10), set(of("a", 9)), MOST) == [("a", 50_009), ("a", 50_008)]
    assert surplus([*of("a", 10), *of("b", 3)], set(of("a", 1)), MOST) == of("a", 3)[1:]


def test_calls_of_too_many_connections_end_the_newest_first() -> None:
    assert surplus(of("a", 10), set(of("a", 10)), MOST) == [("a", 50_009), ("a", 50_008)]


def test_a_place_is_free_though_several_hosts_fill_it() -> None:
    full = [*of("b", 6), *of("a", 8), *of("c", 2)]
    assert surplus(full, set(), MOST) == of("a", 2)
    assert surplus(full, set(full), MOST) == [], "those with calls stay"
    assert surplus(full, set(full[1:]), MOST) == of("b", 1)
    assert surplus([(f"host {number}", 1) for number in range(16)], set(), MOST) == [("host 0", 1), ("host 1", 1)]


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:10.0.0.1:50000", ("10.0.0.1", 50_000)),
        ("ipv6:%5B::1%5D:50000", ("::1", 50_000)),
        ("ipv6:[fe80::1%25eth0]:50000", ("fe80::1%eth0", 50_000)),
        ("unix:/a/b:c", ("", 0)),
        ("unix:", ("", 0)),
        ("", ("", 0)),
    ],
)
def test_clients_as_grpc_names_them(text: str, peer: Peer) -> None:
    assert peer_of(text) == peer


class _Service(grpc.GenericRpcHandler):
    """``/wait`` answers once, and again when ``goes_on`` is set; other calls are answered."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[JobRequest, Ack]:
        async def answer(request: JobRequest, context: object) -> Ack:
            return Ack()

        async def answers(request: JobRequest, context: object) -> AsyncIterator[Ack]:
            yield Ack()
            await self.goes_on.wait()
            yield Ack()

        if handler_call_details.method == "/wait":
            return grpc.unary_stream_rpc_method_handler(answers, JobRequest.FromString, Ack.SerializeToString)
        return grpc.unary_unary_rpc_method_handler(answer, JobRequest.FromString, Ack.SerializeToString)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
async def test_idle_connections_of_one_host_leave_calls_and_other_hosts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "grpc_connections", lambda: MOST)
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    service = _Service()
    server, port = await start_server(
        "127.0.0.1", 0, lambda made: made.add_generic_rpc_handlers((service,)), "a server"
    )
    attack, others = list[socket.socket](), list[socket.socket]()
    try:
        async with asyncio.timeout(60), open_channel(f"127.0.0.1:{port}") as channel:
            waiting = _stream(channel)(b"")
            await waiting.read()
            others.append(await connected(port, "127.0.0.2"))
            attack = [await connected(port, "127.0.0.1") for _ in range(40)]
            await closed_of(attack, 40 - MOST // 2 + 1)
            assert not any(map(is_closed, others)), "of another host"
            async with open_channel(f"127.0.0.1:{port}") as second:
                await _unary(second)(b"", wait_for_ready=True)
            service.goes_on.set()
            await waiting.read()
            assert await waiting.read() is grpc.aio.EOF, "it went on all the time"
    finally:
        for one in (*attack, *others):
            one.close()
        await server.stop(None)


def _stream(channel: Any) -> Any:
    return channel.unary_stream("/wait")


def _unary(channel: Any) -> Any:
    return channel.unary_unary("/ask")


async def connected(port: int, host: str) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    one.bind((host, 0))
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
    return one


async def closed_of(attack: list[socket.socket], at_least: int) -> None:
    while True:
        if sum(map(is_closed, attack)) >= at_least:
            return
        await asyncio.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    """What the server has said to it is passed over."""
    with suppress(BlockingIOError):
        try:
            while connection.recv(1000):
                pass
        except ConnectionError:
            pass
        return True
    return False
