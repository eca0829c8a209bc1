"""Limits how many connections of a gRPC server one host may hold: gRPC itself limits only their total, so that one host could hold all of them.

kernel ─▶ accepted sockets of the port ─▶ surplus ─▶ shut down, as if the client had closed them
gRPC   ─▶ calls in flight, by peer      ─╯
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio

from tidegate.aio.handlers import RpcCall, wrapped

Peer: TypeAlias = tuple[str, int]
"""The address and port of a client."""

LOOK_S = 1.0
"""How long one host may exceed its share of connections, in seconds. Chosen, not measured. The check is skipped where few descriptors are open."""
_MAPPED = "::ffff:"
_DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_running: set[asyncio.Task[None]] = set()
"""The running checks; held here because the loop itself holds tasks weakly."""


def of_host(most: int) -> int:
    """Returns how many of ``most`` connections one host may have."""
    return max(1, most // 2)


def surplus(connections: Sequence[Peer], busy: Collection[Peer], most: int) -> list[Peer]:
    """Returns which connections to close, in this order. ``connections``: the oldest first. ``busy``: those with calls in flight. ``most``: how many
    the server accepts.

    A host has at most half of ``most``: what it has beyond makes room, connections without calls first, the oldest of them before the others, then those with
    calls, the newest first. An eighth of ``most`` is kept free of connections without calls: there the oldest of the host with most of them makes room.
    """
    closed: list[Peer] = []
    by_host: dict[str, list[Peer]] = {}
    for one in connections:
        by_host.setdefault(one[0], []).append(one)
    for of_one in by_host.values():
        silent, talking = [one for one in of_one if one not in busy], [one for one in of_one if one in busy]
        over = max(0, len(of_one) - of_host(most))
        closed += [*silent, *reversed(talking)][:over]
    gone = set(closed)
    silent = [one for one in connections if one not in gone and one not in busy]
    hosts = Counter(host for host, _ in silent)
    for _ in range(min(len(silent), len(connections) - len(closed) - most * 7 // 8)):
        one = max(silent, key=lambda peer: hosts[peer[0]])  # the first of several
        silent.remove(one)
        hosts[one[0]] -= 1
        closed.append(one)
    return closed


class GrpcConnections(grpc.aio.ServerInterceptor):
    """Tracks and limits the connections that a gRPC server has accepted at a port. It is the innermost interceptor, so it sees only calls that were
    admitted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: Counter[Peer] = Counter()
        self._known: dict[Peer, None] = {}
        """In the order in which they were seen first."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        return None if handler is None else wrapped(handler, self._call)

    def watch(self, server: grpc.aio.Server, port: int) -> None:
        """Closes connections beyond the limits until the server has stopped."""
        task = asyncio.create_task(self._watch(server, port), name=f"connections of port {port}")
        _running.add(task)
        task.add_done_callback(_running.discard)

    def close_surplus(self, port: int) -> int:
        """Closes the connections beyond the limits now. Returns how many were closed."""
        try:
            names = os.listdir(_DESCRIPTORS)
        except OSError:
            return 0
        if len(names) <= of_host(self._most):
            return 0
        found = {peer: number for number, peer in _accepted(map(int, names), port)}
        self._known = {peer: None for peer in (*self._known, *found) if peer in found}
        closed = surplus(list(self._known), self._calls, self._most)
        for peer in closed:
            _shut_down(found[peer], port, peer)
        return len(closed)

    async def _watch(self, server: grpc.aio.Server, port: int) -> None:
        while await server.wait_for_termination(LOOK_S):  # it is "whether time was up"
            self.close_surplus(port)

    @asynccontextmanager
    async def _call(self, request: Any, context: Any) -> AsyncIterator[RpcCall]:
        peer = peer_of(context.peer())
        self._calls[peer] += 1
        try:
            yield RpcCall(request)
        finally:
            self._calls[peer] -= 1
            if not self._calls[peer]:
                del self._calls[peer]


def peer_of(text: str) -> Peer:
    """Parses gRPC's name of a peer, ``ipv4:10.0.0.1:50000`` or ``ipv6:%5B::1%5D:50000``; returns an empty address and port 0 for a peer without one,
    such as a Unix socket."""
    kind, _, rest = text.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    return (host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdigit() else ("", 0)


def _accepted(descriptors: Iterable[int], port: int) -> Iterator[tuple[int, Peer]]:
    """Yields the descriptors and peers of the connections that were accepted at a port of this process."""
    for number in descriptors:
        one = _same(number)
        if one is None:
            continue
        with one:
            peer = _peer(one, port)
        if peer is not None:
            yield number, peer


def _shut_down(number: int, port: int, wanted: Peer) -> None:
    """Shuts a connection down, unless its descriptor belongs to another connection by now."""
    one = _same(number)
    if one is None:
        return
    with one, suppress(OSError):
        if _peer(one, port) == wanted:
            one.shutdown(socket.SHUT_RDWR)


def _same(number: int) -> socket.socket | None:
    """Duplicates the descriptor of a socket, so that it cannot change meanwhile; ``None`` where it is closed or not a socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return None
        own = os.dup(number)
    except OSError:
        return None
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        return None


def _peer(one: socket.socket, port: int) -> Peer | None:
    """Returns the peer of a socket; ``None`` where it is not a connection to this port."""
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
        return None
    try:
        if one.getsockname()[1] != port:
            return None
        host, number = one.getpeername()[:2]
    except OSError:
        return None
    return str(host).removeprefix(_MAPPED), int(number)
