"""Addresses of data servers: ``host:port``, ``[v6]:port`` or ``unix:/path``, and the sockets for them."""

from __future__ import annotations

import contextlib
import os
import socket
from hashlib import sha256
from pathlib import Path

from tidegate.model.errors import ConfigurationError
from tidegate.security.sockets import TlsFiles

UNIX = "unix:"
OWN_HOST = "*"
"""A host in a listen address that each process replaces by an address of its own machine (``listen_at``), since executors run on other machines."""
ANY_PORT = range(1)
_UNIX_PATH_LIMIT = 103
"""Longest path of a Unix socket, on the platform with the lowest limit (macOS)."""
_BACKLOG = 4096
"""Connections that may wait to be accepted. Every consumer of a large job may connect at once; the kernel lowers this to its own limit."""
_SILENT_S, _PROBE_S, _PROBES = 5, 2, 5
"""When a silent TCP peer counts as gone: it is probed after ``_SILENT_S`` seconds, then every ``_PROBE_S`` seconds, and ``_PROBES`` probes must fail, where the
system lets these be set. Chosen, not measured: 15 s in all.
"""


def make_listener(
    listen: str, name: str, advertised_host: str, tls: TlsFiles | None = None
) -> tuple[socket.socket, str]:
    """Opens a listening socket; returns it with the address to announce. Raises ``ConfigurationError``.

    ``listen``: ``unix:/directory``, or what ``listen_on`` returns. ``tls``: for TCP; a Unix socket is protected by its permissions.
    """
    try:
        if listen.startswith(UNIX):
            return _listen_unix(listen.removeprefix(UNIX), name)
        sock, address = _listen_tcp(listen, advertised_host)
        return sock if tls is None else tls.listener(sock), address
    except OSError as error:
        # Imported here as in ``_listen_tcp``.
        from tidegate.connectors.ports import why_not_listening

        if listen.startswith(UNIX):
            raise ConfigurationError(
                f"cannot listen for data connections on {listen!r}: {error}; see io.tmp.dirs"
            ) from error
        why = why_not_listening(host_of(listen), ports_of(listen), "listener for data connections", error)
        raise ConfigurationError(why) from error


def listen_on(host: str, ports: range) -> str:
    """Returns a listen address as text: ``host:first-last``, or ``host`` alone where any free port may be taken."""
    shown = f"[{host}]" if ":" in host else host
    return host if ports == ANY_PORT else f"{shown}:{ports[0]}-{ports[-1]}"


def listen_at(listen: str, own_host: str) -> str:
    """Returns a listen address with the host ``*`` replaced by ``own_host``, the address by which this process reaches its TaskManager."""
    return listen_on(own_host, ports_of(listen)) if host_of(listen) == OWN_HOST else listen


def ports_of(listen: str) -> range:
    """Returns the ports of a listen address that ``listen_on`` made; ``ANY_PORT`` if it has none."""
    _, dash, last = listen.rpartition("-")
    first = listen.rpartition("-")[0].rpartition(":")[2]
    return range(int(first), int(last) + 1) if dash and first.isdigit() and last.isdigit() else ANY_PORT


def host_of(listen: str) -> str:
    """Returns the host of a listen address that ``listen_on`` made."""
    return listen if ports_of(listen) == ANY_PORT else listen.rpartition(":")[0].strip("[]")


def make_client(address: str, tls: TlsFiles | None = None) -> tuple[socket.socket, str | tuple[str, int]]:
    """Makes a non-blocking socket for an address; returns it with the argument of ``connect_ex``. ``tls``: for TCP."""
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
    """Tells whether an address is a Unix socket, and so on this machine."""
    return address.startswith(UNIX)


def tune(sock: socket.socket) -> None:
    """Sets options of a data socket: frames are sent at once, and a peer whose machine is gone is noticed."""
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
    """Limits the time for which sent data may stay unacknowledged, so that a peer whose machine is gone is noticed.

    Not for data connections: a consumer that reads nothing for as long, because of backpressure, would count as gone.
    """
    if sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (_SILENT_S + _PROBE_S * _PROBES) * 1000)


def remove(address: str) -> None:
    """Removes the file of a Unix socket. Does nothing for TCP."""
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
    # Imported here since it imports NumPy and Arrow, which would delay the start of a TaskManager.
    from tidegate.connectors.ports import bound

    host = host_of(listen)
    sock = bound(host, ports_of(listen))
    sock.listen(_BACKLOG)
    sock.setblocking(False)
    shown = advertised_host or host
    return sock, f"[{shown}]:{sock.getsockname()[1]}" if ":" in shown else f"{shown}:{sock.getsockname()[1]}"
