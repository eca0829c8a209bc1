"""gRPC channels and servers of all processes: limits, keepalive, ports, and the conversion of errors in both directions.

A peer that is gone without a word is seen after ``KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS``; a closed connection at once.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio

from tidegate.aio.connections import GrpcConnections
from tidegate.aio.descriptors import grpc_connections
from tidegate.aio.handlers import RpcCall, wrapped
from tidegate.aio.listening import listen, port_error
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.errors import ErrorInfo, Misuse, TidegateError
from tidegate.pb.common_pb2 import BlobChunk
from tidegate.wire.convert_errors import error_of_status, status_of_error

MESSAGE_MAX_BYTES = 256 << 20
"""The most bytes of a gRPC message. Chosen, not measured: far above a deployment of ten thousand subtasks, which gRPC's own 4 MiB is not."""
REQUEST_MAX_BYTES = 1 << 20
"""The most bytes of a request of a method without a limit of its own: ids, paths and options are far smaller."""
KEEPALIVE_MS = 10_000
"""The interval of keepalive pings, in ms. Chosen, not measured: with the timeout below, a vanished peer is noticed within 15 s."""
KEEPALIVE_TIMEOUT_MS = 5_000
"""How long a peer may leave a ping unanswered before its connection is closed, in ms. Chosen, not measured."""
HANDSHAKE_TIMEOUT_MS = 30_000
"""The timeout of a connection's handshake, in ms. Chosen, not measured: gRPC's own is two minutes."""
CALLS_OF_CONNECTION = 1_000
"""The most concurrent calls of one connection; further ones wait at the client. Chosen, not measured: gRPC has no limit of its own."""
BLOB_CHUNK_BYTES = 1 << 20
"""The bytes of one message of a blob's stream. Chosen, not measured: large enough that the cost per message does not matter."""

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
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
    ("grpc.max_concurrent_streams", CALLS_OF_CONNECTION),
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

_TRIES = 4  # when others take ports between being found and being listened on

T = TypeVar("T")


def open_channel(address: str, transport: Transport = PLAIN) -> grpc.aio.Channel:
    """Opens an asyncio channel to ``host:port`` or ``unix:/path``; it connects on first use."""
    return transport.open_channel(address, CHANNEL_OPTIONS)


def open_blocking_channel(address: str, transport: Transport = PLAIN) -> grpc.Channel:
    """Opens a blocking channel to ``host:port`` or ``unix:/path``; it connects on first use."""
    return transport.open_blocking_channel(address, CHANNEL_OPTIONS)


def refuse_nothing() -> TidegateError | None:
    """Refuses no call: the default of ``start_server``."""
    return None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The most bytes of requests. ``most_bytes``: of any message; a longer one is refused by its length, before it is received. ``by_method``: of
    methods, by name, whose requests may exceed ``REQUEST_MAX_BYTES``; longer ones are refused before they are parsed."""

    most_bytes: int = MESSAGE_MAX_BYTES
    by_method: Mapping[str, int] | None = None


async def start_server(
    host: str,
    port: int,
    register: Callable[[grpc.aio.Server], None],
    what: str,
    refuses: Callable[[], TidegateError | None] = refuse_nothing,
    limits: RequestLimits = RequestLimits(),
    transport: Transport = PLAIN,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    option: str = "",
) -> tuple[grpc.aio.Server, int]:
    """Starts a gRPC server; returns it with its port (the given one, or a free one for 0). While ``refuses`` returns an error, each new call fails with
    it. The server accepts as many connections as its process has descriptors for, half of them from one host (``GrpcConnections``).

    Raises ``ExternalError`` that names ``what``, the port and the ``option`` that sets it when it cannot be had.
    """
    for left in reversed(range(_TRIES if port == 0 else 1)):
        try:
            return await _start_server(_free_addresses(host, port), register, refuses, limits, transport, interceptors)
        except OSError as error:
            if left == 0:
                raise port_error(host, port, what, error, option) from None
    raise AssertionError("unreachable")


def _free_addresses(host: str, port: int) -> list[tuple[str, int]]:
    """Returns the addresses of a host at which a port is free. gRPC takes no sockets and would accept only some of a host's addresses, so they are
    tried here and passed to it one by one; this also keeps gRPC from printing messages of its own about a port in use."""
    sockets = listen(host, port)
    found = [one.getsockname()[:2] for one in sockets]
    for one in sockets:
        one.close()
    return found


async def _start_server(
    addresses: list[tuple[str, int]],
    register: Callable[[grpc.aio.Server], None],
    refuses: Callable[[], TidegateError | None],
    limits: RequestLimits,
    transport: Transport,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
) -> tuple[grpc.aio.Server, int]:
    """Starts the server. Raises ``OSError`` when another process has taken the port meanwhile."""
    most = grpc_connections()
    bounds = (
        ("grpc.max_receive_message_length", limits.most_bytes),
        ("grpc.max_allowed_incoming_connections", most),
    )
    bounded = () if limits.by_method is None else (_BoundedRequests(limits.by_method),)
    connections = GrpcConnections(most)
    options = (*(one for one in SERVER_OPTIONS if one[0] != bounds[0][0]), *bounds)
    server = grpc.aio.server(options=options, interceptors=(_Refusal(refuses), *interceptors, *bounded, connections))
    register(server)
    for address, port in addresses:
        try:
            transport.listen(server, f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        except RuntimeError as error:
            await server.stop(None)
            raise OSError(errno.EADDRINUSE, str(error)) from None
    await server.start()
    connections.watch(server, addresses[0][1])
    return server, addresses[0][1]


@asynccontextmanager
async def _unless_too_long(request: Any, context: ServerContext) -> AsyncIterator[RpcCall]:
    """Ends a call whose request was refused as too long with the reason."""
    if isinstance(request, Misuse):
        await abort(context, request)
    yield RpcCall(_until_too_long(request, context) if isinstance(request, AsyncIterable) else request)


async def _until_too_long(requests: AsyncIterable[Any], context: ServerContext) -> AsyncIterator[Any]:
    async for one in requests:
        if isinstance(one, Misuse):
            await abort(context, one)
        yield one


class _BoundedRequests(grpc.aio.ServerInterceptor):
    """Refuses requests that are too long for their method, before they are parsed."""

    def __init__(self, by_method: Mapping[str, int]) -> None:
        self._by_method = by_method

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        method = handler_call_details.method.rpartition("/")[2]
        most, parse = self._by_method.get(method, REQUEST_MAX_BYTES), handler.request_deserializer

        def bounded(data: bytes) -> Any:
            if len(data) <= most:
                return parse(data)
            return Misuse(f"a request to {method} has {len(data)} bytes; at most {most} are taken")

        return wrapped(handler, _unless_too_long)._replace(request_deserializer=bounded)  # type: ignore[no-any-return]


def error_of_rpc(error: grpc.RpcError, peer: str = "") -> TidegateError:
    """Returns the ``TidegateError`` of a failed call (``grpc.aio.AioRpcError``). ``peer``: named in its message."""
    assert isinstance(error, grpc.aio.AioRpcError), error
    number = int(error.code().value[0])
    metadata = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return error_of_status(number, error.details() or "", metadata, peer)


async def call(answer: Awaitable[T], peer: str = "") -> T:
    """Awaits a unary call. Raises the ``TidegateError`` of a failure."""
    try:
        return await answer
    except grpc.aio.AioRpcError as error:
        raise error_of_rpc(error, peer) from None


ServerContext: TypeAlias = grpc.aio.ServicerContext[Any, Any]
"""The context of a gRPC call at a server."""


async def abort(context: ServerContext, error: BaseException) -> NoReturn:
    """Ends a call with an error, for methods whose answer has no field for one."""
    number, text, metadata = status_of_error(ErrorInfo.of(error))
    code = next(code for code in grpc.StatusCode if code.value[0] == number)
    await context.abort(code, text, metadata)
    raise AssertionError("abort returned")


class _Refusal(grpc.aio.ServerInterceptor):
    """Refuses each call while a function returns an error to refuse it with."""

    def __init__(self, refuses: Callable[[], TidegateError | None]) -> None:
        self._refuses = refuses

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        error = self._refuses()
        if error is None or handler is None:
            return handler

        @asynccontextmanager
        async def refused(request: Any, context: ServerContext) -> AsyncIterator[RpcCall]:
            await abort(context, error)
            yield RpcCall(request)

        return wrapped(handler, refused)


async def collect(chunks: AsyncIterable[BlobChunk]) -> bytes:
    """Joins a stream of ``BlobChunk`` into bytes."""
    return b"".join([chunk.data async for chunk in chunks])
