"""Addresses of data servers: ``host:port``, ``[v6]:port`` or ``unix:/path``, and the sockets for them."""

from __future__ import annotations

import contextlib
import os
import socket
from hashlib import sha256
from pathlib import Path

from tidegate.connectors.ports import bound
from tidegate.model.errors import ConfigurationError
from tidegate.security.sockets import TlsFiles

UNIX = "unix:"
OWN_HOST = "*"
"""It stands for the address by which a process reaches its TaskManager, since executors are on other machines."""
ANY_PORT = range(1)
_UNIX_PATH_LIMIT = 103
"""``sun_path`` without its end, on the platform that has the least (macOS)."""
_BACKLOG = 4096
"""Every consumer of a large job may connect at once; the kernel lowers it to its own limit."""
_SILENT_S, _PROBE_S, _PROBES = 5, 2, 5
"""A silent peer is probed after ``_SILENT_S`` seconds, every ``_PROBE_S`` seconds, and counts as gone after ``_PROBES``
probes without an answer, where the system lets these be set. Chosen, not measured: 15 s in all."""


def make_listener(
    listen: str, name: str, advertised_host: str, tls: TlsFiles | None = None
) -> tuple[socket.socket, str]:
    """A listening socket and the address to announce. ``listen`` is ``unix:/directory``, or what ``listen_on`` gives. Raises
    ``ConfigurationError``. ``tls``: for TCP; who can open a Unix socket is known by that."""
    try:
        if listen.startswith(UNIX):
            return _listen_unix(listen.removeprefix(UNIX), name)
        sock, address = _listen_tcp(listen, advertised_host)
        return sock if tls is None else tls.listener(sock), address
    except OSError as error:
        raise ConfigurationError(f"cannot listen for data connections on {listen!r}: {error}") from error


def listen_on(host: str, ports: range) -> str:
    """What a subtask listens on: a host, and the ports of which it takes a free one, if they are not all."""
    shown = f"[{host}]" if ":" in host else host
    return host if ports == ANY_PORT else f"{shown}:{ports[0]}-{ports[-1]}"


def listen_at(listen: str, own_host: str) -> str:
    """What a process listens on that reaches its TaskManager by ``own_host``."""
    return listen_on(own_host, ports_of(listen)) if host_of(listen) == OWN_HOST else listen


def ports_of(listen: str) -> range:
    """The inverse of ``listen_on``."""
    _, dash, last = listen.rpartition("-")
    first = listen.rpartition("-")[0].rpartition(":")[2]
    return range(int(first), int(last) + 1) if dash and first.isdigit() and last.isdigit() else ANY_PORT


def host_of(listen: str) -> str:
    """The inverse of ``listen_on``."""
    return listen if ports_of(listen) == ANY_PORT else listen.rpartition(":")[0].strip("[]")


def make_client(address: str, tls: TlsFiles | None = None) -> tuple[socket.socket, str | tuple[str, int]]:
    """A non-blocking socket for this address, and what to give to ``connect_ex``. ``tls``: for TCP."""
    if address.startswith(UNIX):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        target: str | tuple[str, int] = address.removeprefix(UNIX)
    else:
        host, port = address.rsplit(":", 1)
        host = host.strip("[]")
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        target = (host, int(port))
        if tls is not None:
            sock = tls.client(sock)
    sock.setblocking(False)
    tune(sock)
    return sock, target


def is_unix(address: str) -> bool:
    """Whether it is on this machine, and no packet of the network is needed to reach it."""
    return address.startswith(UNIX)


def tune(sock: socket.socket) -> None:
    """Frames leave at once, and a peer whose machine is gone is noticed."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", _SILENT_S), ("TCP_KEEPINTVL", _PROBE_S), ("TCP_KEEPCNT", _PROBES)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    else:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)  # the system's own limit applies


def give_up_in_time(sock: socket.socket) -> None:
    """A peer whose machine is gone is noticed as soon while something is on its way to it. Not for data: a consumer that takes
    nothing for as long (backpressure, a function that keeps the interpreter) would count as gone."""
    if sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (_SILENT_S + _PROBE_S * _PROBES) * 1000)


def remove(address: str) -> None:
    """The file of a Unix socket; nothing for TCP."""
    if address.startswith(UNIX):
        with contextlib.suppress(OSError):
            os.unlink(address.removeprefix(UNIX))


def _listen_unix(directory: str, name: str) -> tuple[socket.socket, str]:
    path = str(Path(directory) / f"{sha256(name.encode()).hexdigest()[:16]}.sock")
    if len(os.fsencode(path)) > _UNIX_PATH_LIMIT:
        raise ConfigurationError(
            f"the path of the data socket is too long ({len(path)} characters, the system takes {_UNIX_PATH_LIMIT}): "
            f"{path}; set io.tmp.dirs to a shorter directory"
        )
    remove(UNIX + path)  # left by a process that was killed: an attempt id is never used twice at the same time
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    os.chmod(path, 0o600)
    sock.listen(_BACKLOG)
    sock.setblocking(False)
    return sock, UNIX + path


def _listen_tcp(listen: str, advertised_host: str) -> tuple[socket.socket, str]:
    host = host_of(listen)
    sock = bound(host, ports_of(listen))
    sock.listen(_BACKLOG)
    sock.setblocking(False)
    shown = advertised_host or host
    return sock, f"[{shown}]:{sock.getsockname()[1]}" if ":" in shown else f"{shown}:{sock.getsockname()[1]}"
