"""Data connections of a simulated world: sockets in memory, whose bytes travel when the schedule says so.

    sendmsg ─▶ wire (bytes on the way, bounded) ─▶ ``Network.deliver`` ─▶ arrived ─▶ recvmsg_into
    close ─▶ end of stream, behind what is on the wire      break ─▶ reset: what is on the wire is lost

``SteppedLoop`` is the exchange's ``EventLoop`` without a thread: ``step`` serves one socket, or the calls and timers that are due.
"""

from __future__ import annotations

import errno
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

from tidegate.taskmanager.exchange.exchange_settings import Clock
from tidegate.taskmanager.exchange.io_loop import READ, WRITE, Handler

_WIRE_BYTES = 2048
"""So little that frames are cut, and senders meet full sockets."""


class MemorySocket:
    """The part of ``socket.socket`` that the exchange uses, never blocking."""

    family = None

    def __init__(self, network: Network) -> None:
        self.network = network
        self.peer: MemorySocket | None = None
        self.wire: deque[bytes] = deque()
        """Sent by this side, and not there yet."""
        self.arrived = bytearray()
        self.waiting: deque[MemorySocket] = deque()
        """Of a listener: connections to accept."""
        self.is_listening = False
        self.is_closed = False
        self.has_ended = False
        """The peer closed, and everything it had sent arrived."""
        self.is_reset = False

    def fileno(self) -> int:
        return -1 if self.is_closed else 1

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *option: int) -> None: ...

    def getsockopt(self, *option: int) -> int:
        return 0

    def connect_ex(self, address: str) -> int:
        listener = self.network.listeners.get(address)
        if listener is None:
            return errno.ECONNREFUSED
        server = MemorySocket(self.network)
        self.peer, server.peer = server, self
        listener.waiting.append(server)
        self.network.sockets += (self, server)
        return 0

    def accept(self) -> tuple[MemorySocket, str]:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.popleft(), ""

    @property
    def readiness(self) -> int:
        if self.is_listening:
            return READ if self.waiting else 0
        readable = READ if self.arrived or self.has_ended or self.is_reset else 0
        return readable | (WRITE if self.is_reset or self._room() > 0 else 0)

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:
        self._check()
        room = self._room()
        if room <= 0:
            raise BlockingIOError
        data = b"".join(buffers)[:room]
        self.wire.append(data)
        return len(data)

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int, list[Any], int, None]:
        self._check()
        if not self.arrived and not self.has_ended:
            raise BlockingIOError
        count = 0
        for buffer in buffers:
            taken = min(len(buffer), len(self.arrived) - count)
            buffer[:taken] = self.arrived[count : count + taken]
            count += taken
        del self.arrived[:count]
        return count, [], 0, None

    def close(self) -> None:
        self.is_closed = True

    def break_off(self) -> None:
        """As the system does when the process is gone."""
        self.is_closed = True
        self.wire.clear()
        self.arrived.clear()
        if self.peer is not None:
            self.peer.is_reset = True

    def _room(self) -> int:
        return _WIRE_BYTES - sum(map(len, self.wire))

    def _check(self) -> None:
        if self.is_reset or self.is_closed:
            raise ConnectionResetError(errno.ECONNRESET, "reset by the schedule")


class Network:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = itertools.count()
        self.listeners: dict[str, MemorySocket] = {}
        self.sockets: list[MemorySocket] = []
        self.delivered_bytes = 0

    def open_loop(self, name: str, clock: Clock, on_crash: Callable[[Exception], None]) -> SteppedLoop:
        return SteppedLoop(self, clock, on_crash, self._random)

    def listen(self) -> tuple[MemorySocket, str]:
        address = f"sim:{next(self._names)}"
        listener = self.listeners[address] = MemorySocket(self)
        listener.is_listening = True
        return listener, address

    def deliver(self, sock: MemorySocket) -> bool:
        """Something of what this socket sent reaches its peer: a part of a frame, or several; whether anything moved."""
        peer = sock.peer
        if peer is None or peer.has_ended or sock.is_reset:
            return False
        if sock.wire:
            data = sock.wire.popleft()
            cut = self._random.randint(1, len(data)) if self._random.random() < 0.3 else len(data)
            if cut < len(data):
                sock.wire.appendleft(data[cut:])
            peer.arrived += data[:cut]
            self.delivered_bytes += cut
            return True
        if sock.is_closed:
            peer.has_ended = True
            return True
        return False


class SteppedLoop:
    def __init__(self, network: Network, clock: Clock, on_crash: Callable[[Exception], None], random: Random) -> None:
        self._network = network
        self._clock = clock
        self._on_crash = on_crash
        self._random = random
        self._calls: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = itertools.count()
        self._registered: dict[MemorySocket, tuple[int, Handler]] = {}
        self._is_running = False

    # --- EventLoop ---

    def listen(self, listen: str, name: str, advertised_host: str) -> tuple[Any, str]:
        return self._network.listen()

    def make_client(self, address: str) -> tuple[Any, str]:
        return MemorySocket(self._network), address

    def remove(self, address: str) -> None:
        self._network.listeners.pop(address, None)

    def start(self) -> None:
        self._is_running = True

    def stop(self, timeout_s: float = 5.0) -> None:
        self._is_running = False
        for sock in list(self._registered):
            self.forget(sock)

    def call_soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def call_at(self, at_ms: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (at_ms, next(self._ids), call))

    def register(self, sock: Any, interest: int, handler: Handler) -> None:
        self._registered[cast(MemorySocket, sock)] = interest, handler

    modify = register

    def forget(self, sock: Any) -> None:
        self._registered.pop(sock, None)
        sock.close()

    def pause(self, sock: Any) -> None:
        self._registered.pop(sock, None)

    # --- the schedule ---

    @property
    def next_ms(self) -> float | None:
        return self._timers[0][0] if self._is_running and self._timers else None

    def step(self) -> bool:
        """One socket is served, or the calls and timers that are due; whether there was anything."""
        if not self._is_running:
            return False
        ready = [s for s, (interest, _) in self._registered.items() if s.readiness & interest]
        try:
            if ready and not (self._calls and self._random.random() < 0.5):
                sock = ready[self._random.randrange(len(ready))]
                interest, handler = self._registered[sock]
                handler(sock.readiness & interest)
                return True
            return self._run_calls()
        except Exception as error:  # noqa: BLE001  as in the loop of the system
            self._is_running = False
            self._on_crash(error)
            return True

    def break_off(self) -> None:
        """The process is gone."""
        self._is_running = False
        for sock in self._registered:
            sock.break_off()
        self._registered.clear()

    def _run_calls(self) -> bool:
        found = bool(self._calls)
        for _ in range(len(self._calls)):
            self._calls.popleft()()
        while self._timers and self._timers[0][0] <= self._clock():
            found = True
            heapq.heappop(self._timers)[2]()
        return found
