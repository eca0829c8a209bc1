"""A gRPC server with TLS outlives many peers that begin a handshake and hang up. It serves in a process of its own, since gRPC crashes where it does not."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import socket
from collections import deque
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import grpc.aio

from tests import certificates
from tests.certificates import make_authority
from tidegate.aio.rpc import open_blocking_channel, start_server
from tidegate.aio.transport import Transport
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration

START_LIMIT_S = 60
CONNECTIONS, OPEN = 20_000, 500
"""In all, and at once: a few thousand suffice where the certificates are given to gRPC for each connection."""
BEGINNING = bytes.fromhex("16030102000100")
"""Of a message of TLS that promises more."""


def transport(stores: Path) -> Transport:
    return transport_of(
        Configuration.from_strings(
            {
                "security.ssl.internal.enabled": "true",
                "security.ssl.internal.keystore": str(stores / "own.pem"),
                "security.ssl.internal.truststore": str(stores / "trusted.pem"),
            }
        )
    )


def serve(stores: Path, told: Connection) -> None:
    """Serves until it is ended."""

    async def echo(request: bytes, context: object) -> bytes:
        return request

    def register(server: grpc.aio.Server) -> None:
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))

    async def run() -> None:
        server, port = await start_server("127.0.0.1", 0, register, "a server", transport=transport(stores))
        told.send(port)
        await server.wait_for_termination()

    asyncio.run(run())


def test_peers_that_hang_up_in_a_handshake_do_not_end_the_server(tmp_path: Path) -> None:
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = make_authority(now, day)
    certificates.write_stores(tmp_path, authority, authority, now, day)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(tmp_path, theirs), daemon=True)
    process.start()
    try:
        assert ours.poll(START_LIMIT_S)
        port = ours.recv()
        begin_and_hang_up(port)
        with open_blocking_channel(f"127.0.0.1:{port}", transport(tmp_path)) as channel:
            call = channel.unary_unary("/test/Echo", request_serializer=bytes, response_deserializer=bytes)
            answer: bytes = call(b"hello", timeout=START_LIMIT_S, wait_for_ready=True)
        assert (answer, process.exitcode) == (b"hello", None)
    finally:
        process.kill()
        process.join()


def begin_and_hang_up(port: int) -> None:
    """Every third connection says something first."""
    waiting: deque[socket.socket] = deque()
    for number in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", port), START_LIMIT_S)
        if number % 3 == 0:
            one.sendall(BEGINNING)
        waiting.append(one)
        if len(waiting) == OPEN:
            waiting.popleft().close()
    for one in itertools.chain(waiting):
        one.close()
