"""The I/O thread of a subtask process: readiness of sockets, calls from other threads, and timers.

Law: the wait in ``select`` is the only blocking call. Handlers report the errors of their connections themselves; any exception that a handler raises is a bug
and is reported through ``on_crash``.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tidegate.security.sockets import TlsFiles
from tidegate.taskmanager.exchange import addresses
from tidegate.taskmanager.exchange.exchange_settings import Clock

log = logging.getLogger(__name__)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
Handler = Callable[[int], None]
"""Called with the readiness of a socket: READ, WRITE or both."""


class EventLoop(Protocol):
    """The sockets, timers and calls from other threads through which an exchange works. Tests and the simulator replace it."""

    def listen(self, listen: str, name: str, advertised_host: str) -> tuple[socket.socket, str]: ...

    def make_client(self, address: str) -> tuple[socket.socket, str | tuple[str, int]]: ...

    def remove(self, address: str) -> None: ...

    def start(self) -> None: ...

    def call_soon(self, call: Callable[[], None]) -> None: ...

    def stop(self, timeout_s: float = 5.0) -> None: ...

    def call_at(self, at_ms: float, call: Callable[[], None]) -> None: ...

    def register(self, sock: socket.socket, interest: int, handler: Handler) -> None: ...

    def modify(self, sock: socket.socket, interest: int, handler: Handler) -> None: ...

    def forget(self, sock: socket.socket) -> None: ...

    def pause(self, sock: socket.socket) -> None: ...


OpenLoop = Callable[[str, Clock, Callable[[Exception], None]], EventLoop]
"""Makes an event loop: ``(name, clock, on_crash)``."""


class IoLoop:
    """Implements ``EventLoop`` by a thread of its own and the system's sockets."""

    def __init__(
        self, name: str, clock: Clock, on_crash: Callable[[Exception], None], tls: TlsFiles | None = None
    ) -> None:
        """Creates the loop; ``start`` starts its thread. ``on_crash``: called in that thread with an error that ends it. ``tls``: files for TLS over TCP;
        ``None``: no TLS.
        """
        self._clock, self._tls = clock, tls
        self._on_crash = on_crash
        self._selector = selectors.DefaultSelector()
        self._calls: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = itertools.count()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, READ, self._on_wakeup)
        self._wakeup_sent = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- any thread ---

    def listen(self, listen: str, name: str, advertised_host: str) -> tuple[socket.socket, str]:
        return addresses.make_listener(listen, name, advertised_host, self._tls)

    def make_client(self, address: str) -> tuple[socket.socket, str | tuple[str, int]]:
        return addresses.make_client(address, self._tls)

    def remove(self, address: str) -> None:
        addresses.remove(address)

    def start(self) -> None:
        self._thread.start()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if not self._wakeup_sent:
            self._wakeup_sent = True
            self._wake()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ends the thread after the calls that were made before, and closes what it had registered. Safe to call twice, and without ``start``."""
        self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        elif self._thread.ident is None:
            self._close()

    # --- I/O thread ---

    def call_at(self, at_ms: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (at_ms, next(self._ids), call))

    def register(self, sock: socket.socket, interest: int, handler: Handler) -> None:
        self._selector.register(sock, interest, handler)

    def modify(self, sock: socket.socket, interest: int, handler: Handler) -> None:
        self._selector.modify(sock, interest, handler)

    def forget(self, sock: socket.socket) -> None:
        """Unregisters a socket and closes it. A socket that was never registered is only closed."""
        if sock.fileno() >= 0:
            if sock.fileno() in self._selector.get_map():
                self._selector.unregister(sock)
            sock.close()

    def pause(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)

    def _run(self) -> None:
        try:
            while not self._stopping:
                for key, readiness in self._selector.select(self._timeout_s()):
                    key.data(readiness)
                self._run_calls()
                self._run_timers()
            self._run_calls()
        except Exception as error:  # the driver of this thread
            log.exception("the thread that exchanges data with other subtasks has stopped at an error")
            self._on_crash(error)
        finally:
            self._close()

    def _run_calls(self) -> None:
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._clock():
            heapq.heappop(self._timers)[2]()

    def _timeout_s(self) -> float | None:
        if self._calls:
            return 0.0
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self._clock()) / 1000.0

    def _on_wakeup(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        self._wakeup_sent = False

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full of wake-ups already, or closed: the thread is gone
            self._waker.send(b"x")

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()) if self._selector.get_map() is not None else []:
            fileobj = key.fileobj
            self._selector.unregister(fileobj)
            if isinstance(fileobj, socket.socket):
                fileobj.close()
        self._selector.close()
        self._waker.close()
