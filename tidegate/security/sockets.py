"""TLS on the non-blocking sockets of subtasks, from two PEM files: importing a certificate library would slow the start of a subtask.

    TlsFiles ── identity.pem: key and certificate; trusted.pem: the certificates that are believed; pins
        ├─ client(socket)     before it connects
        └─ listener(socket)   what it accepts is a TlsSocket, too

The handshake is made by the first read or write. A subtask reads the files when it starts, since it connects then.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidegate.security.handshakes import check_pins, prepare, reason_of

IDENTITY, TRUSTED = "identity.pem", "trusted.pem"
TRY_LIMIT_S = 3.0
"""The timeout of each read of a handshake, in seconds. Chosen, not measured."""
_REFUSES_US = (
    "it refuses our certificate, which is missing or of an authority that it does not trust; its own log has the reason"
)


class TlsSocket(ssl.SSLSocket):
    """A TLS socket with calls for several buffers like ``sendmsg`` and ``recvmsg_into``, which TLS does not have."""

    pins: frozenset[bytes] = frozenset()
    _is_known = False

    def send_buffers(self, buffers: Iterable[memoryview]) -> int:
        """Sends bytes of the buffers; returns how many were taken. Raises ``OSError``: ``BlockingIOError`` where the socket takes nothing now,
        ``ssl.SSLWantReadError`` where the peer has to send first, another ``ssl.SSLError`` where it is not trusted."""
        sent = 0
        try:
            self.authenticate()
            for buffer in buffers:
                rest = buffer
                while rest:
                    count = self.send(rest)
                    sent, rest = sent + count, rest[count:]
        except ssl.SSLWantWriteError:
            if not sent:
                raise BlockingIOError from None
        except ssl.SSLWantReadError:
            if not sent:
                raise
        return sent

    def receive_into(self, buffers: Iterable[memoryview]) -> int:
        """Receives bytes into the buffers; returns how many; 0: the peer has closed. Raises ``OSError``: ``BlockingIOError`` where no bytes have
        arrived, ``ssl.SSLError`` where the peer is not trusted."""
        received = 0
        try:
            self.authenticate()
            for buffer in buffers:
                rest = buffer
                while rest:
                    count = self.recv_into(rest)
                    if not count:
                        return received
                    received, rest = received + count, rest[count:]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
        return received

    def authenticate(self) -> None:
        """Does the handshake, once; nothing is sent before it. Raises ``OSError``; ``ssl.SSLError`` where the peer is not trusted, and
        ``ssl.SSLWantReadError`` or ``ssl.SSLWantWriteError`` where a non-blocking socket would block."""
        if not self._is_known:
            try:
                self.do_handshake()
            except ssl.SSLError:
                raise
            except OSError as error:  # in the middle of a handshake it is the peer's answer to that
                raise ssl.SSLEOFError(error.errno, error.strerror) from None
            if self.pins:
                check_pins(self.getpeercert(binary_form=True), self.pins)
            self._is_known = True


class SharedTls:
    """A TLS connection of which one thread reads while others write: TLS allows one thread at a time, so the socket does not block, but the calls of
    this class do.

    It has the calls of a socket that ``ControlStream`` needs.
    """

    def __init__(self, sock: TlsSocket) -> None:
        """Takes a socket that is not connected yet; ``connect`` connects it."""
        self._socket = sock
        self._lock = threading.Lock()

    def connect(self, target: str | tuple[str, int], timeout_s: float) -> None:
        """Connects and does the handshake. Raises ``OSError``; ``ssl.SSLError`` where the peer is not trusted."""
        self._socket.settimeout(timeout_s)
        self._socket.connect(target)
        self._socket.authenticate()
        self._socket.setblocking(False)

    def getsockname(self) -> object:
        return self._socket.getsockname()

    def recv_into(self, buffer: memoryview) -> int:
        """Waits for bytes and returns their number; 0: the peer has closed. Raises ``OSError``."""
        while True:
            with self._lock:
                try:
                    return self._socket.recv_into(buffer)
                except ssl.SSLWantReadError:
                    events = select.POLLIN
                except ssl.SSLWantWriteError:
                    events = select.POLLOUT
            self._wait(events)

    def send(self, data: bytes, flags: int = 0) -> int:
        """Sends all bytes, and returns their number. Raises ``BlockingIOError`` where not all of them could be sent: call it again with the same bytes,
        of which some were sent; another ``OSError``."""
        try:
            with self._lock:
                return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def sendall(self, data: bytes) -> None:
        """Sends all bytes, and blocks until they are sent. Raises ``OSError``."""
        rest = memoryview(data)
        while rest:
            with self._lock:
                try:
                    rest = rest[self._socket.send(rest) :]
                    continue
                except ssl.SSLWantReadError:
                    events = select.POLLIN
                except ssl.SSLWantWriteError:
                    events = select.POLLOUT
            self._wait(events)

    def shutdown(self, how: int) -> None:
        """Closes the connection for a thread that reads, and wakes it. Raises ``OSError`` where the connection has ended."""
        with self._lock:
            # Not the method of `ssl`: it leaves a socket without TLS, from which a thread would read.
            socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        with self._lock:
            self._socket.close()

    def _wait(self, events: int) -> None:
        poller = select.poll()
        poller.register(self._socket, events)
        poller.poll()


def try_handshake(address: str, context: ssl.SSLContext, pins: frozenset[bytes] = frozenset()) -> str:
    """Tries a TLS handshake with a server at ``host:port`` that sends first, and disconnects. Returns why it fails, in words; empty where it succeeds
    or the server cannot be reached. Blocks for a few seconds at most."""
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), TRY_LIMIT_S)
    except (OSError, ValueError):
        return ""
    is_believed = False
    try:
        with connection, context.wrap_socket(connection) as secured:
            check_pins(secured.getpeercert(binary_form=True), pins)
            is_believed = True
            return "" if secured.recv(1) else _REFUSES_US  # by TLS 1.3 a server refuses a client behind the handshake
    except TimeoutError:
        return ""
    except (ConnectionError, ssl.SSLEOFError) as error:
        return _REFUSES_US if is_believed else reason_of(error)
    except OSError as error:
        return reason_of(error)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of a process: its identity and the certificates that it trusts. ``directory`` has ``IDENTITY`` and ``TRUSTED``."""

    directory: Path
    pins: frozenset[bytes] = frozenset()

    def write(self, identity: str, trusted: str) -> TlsFiles:
        """Writes the files, readable by this user alone, and returns itself. ``identity``, ``trusted``: as PEM. Raises ``OSError``."""
        for name, content in ((IDENTITY, identity), (TRUSTED, trusted)):
            with os.fdopen(os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content)
        return self

    def client(self, sock: socket.socket) -> TlsSocket:
        """Wraps a socket that is not connected yet in TLS. Raises ``OSError`` when the files cannot be read."""
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        secured = context.wrap_socket(sock, do_handshake_on_connect=False)
        assert isinstance(secured, TlsSocket)
        return secured

    def listener(self, sock: socket.socket) -> socket.socket:
        """Wraps a listening socket, so that its connections have TLS. Raises ``OSError`` when the files cannot be read."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        prepare(context)
        context.check_hostname = False  # peers are known by the authority that issued their certificate, as in Flink
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.directory / IDENTITY)
        context.load_verify_locations(self.directory / TRUSTED)
        context.sslsocket_class = type("PinnedTlsSocket", (TlsSocket,), {"pins": self.pins})
        return context
