"""gRPC as all processes here use it: limits, keepalive, ports, and errors in both directions.

A peer that is gone without a word is seen after ``KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS``; a closed connection at once.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio

from tidegate.model.errors import ErrorInfo, ExternalError, TidegateError
from tidegate.wire.convert_errors import error_of_status, status_of_error

MESSAGE_MAX_BYTES = 256 << 20
KEEPALIVE_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 5_000
BLOB_CHUNK_BYTES = 1 << 20

_COMMON = (
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
)
SERVER_OPTIONS = (
    *_COMMON,
    ("grpc.so_reuseport", 0),  # else two processes could serve one port
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
)
CHANNEL_OPTIONS = (
    *_COMMON,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one attempt may take: a busy server is not a missing one
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),  # a channel's connection is its own: closing it is seen by the peer
)

T = TypeVar("T")


def open_channel(address: str) -> grpc.aio.Channel:
    """A channel to ``host:port`` or ``unix:/path``; it connects when it is first used."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)


async def start_server(
    host: str, port: int, register: Callable[[grpc.aio.Server], None], what: str
) -> tuple[grpc.aio.Server, int]:
    """A running server and its port (the one given, or the free one that was found for 0).

    Raises ``ExternalError`` that names ``what`` and the port when it cannot be had.
    """
    why = _why_taken(host, port)  # asked first: gRPC itself would write lines of its own to the terminal
    if why is not None:
        raise port_error(host, port, what, why)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    register(server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise port_error(host, port, what, "it cannot be listened on")
    await server.start()
    return server, bound


def port_error(host: str, port: int, what: str, why: str) -> ExternalError:
    return ExternalError(f"cannot start the {what} on {host}:{port}: {why}; choose another port")


def _why_taken(host: str, port: int) -> str | None:
    """Why a port cannot be listened on, found by trying; ``None`` when it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None


def error_of_rpc(error: grpc.RpcError, peer: str = "") -> TidegateError:
    """The error behind a failed call (``grpc.aio.AioRpcError``)."""
    assert isinstance(error, grpc.aio.AioRpcError), error
    number = int(error.code().value[0])
    metadata = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return error_of_status(number, error.details() or "", metadata, peer)


async def call(answer: Awaitable[T], peer: str = "") -> T:
    """Await a unary call. Raises the ``TidegateError`` behind a failure."""
    try:
        return await answer
    except grpc.aio.AioRpcError as error:
        raise error_of_rpc(error, peer) from None


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: BaseException) -> NoReturn:
    """End a call with an error, where its answer has no field for one."""
    number, text, metadata = status_of_error(ErrorInfo.of(error))
    code = next(code for code in grpc.StatusCode if code.value[0] == number)
    await context.abort(code, text, metadata)
    raise AssertionError("abort returned")


async def collect(chunks: AsyncIterable[Any]) -> bytes:
    """All bytes of a stream of ``BlobChunk``."""
    return b"".join([chunk.data async for chunk in chunks])
