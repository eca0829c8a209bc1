"""Listens at one port on every address of a host.

    localhost:0  ─▶  127.0.0.1:34651 and [::1]:34651

A client that dials ``localhost`` may take either address, so a process that has its port on one of them only, because another process has
it on the other, would leave its clients talking to that one.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import JobManagerOptions

_LOCALHOST = "localhost"
_LOOPBACKS = ("127.0.0.1", "::1")  # of localhost whatever the hosts file says (RFC 6761): clients dial both
_TRIES = 16  # ports that are free on one address and not on another, for one that is free on all
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})  # as ::1 where IPv6 is switched off


def listen(host: str, port: int) -> list[socket.socket]:
    """Returns a listening socket for each address of ``host`` that this machine has, all on one port; 0: a port that is free on all.

    Raises ``OSError`` when the host has no address here, or the port is in use on one of them.
    """
    addresses = _addresses(host)
    for left in reversed(range(_TRIES)):
        try:
            return _listen(addresses, port)
        except OSError as error:
            if port != 0 or error.errno != errno.EADDRINUSE or left == 0:
                raise
    raise AssertionError("unreachable")


def is_loopback(host: str) -> bool:
    """Tells whether a host is the loopback interface of this machine."""
    try:
        return host == _LOCALHOST or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def port_error(host: str, port: int, what: str, error: OSError, option: str = "") -> ExternalError:
    """Returns the error for a port that cannot be used, with a message for users. ``option``: the one that sets the port."""
    is_a_name = isinstance(error, socket.gaierror)  # which has numbers of its own
    why = os.strerror(error.errno) if error.errno and not is_a_name else error.strerror or str(error)
    way_out = "choose another port"
    if option:
        way_out += f" with -D {option}=PORT, or {option} in config.yaml; 0 takes one that is free"
    return ExternalError(f"cannot start the {what} on {host}:{port}: {why}; {way_out}")


def _addresses(host: str) -> list[str]:
    names = _LOOPBACKS if host == _LOCALHOST else (host.strip("[]"),)
    found = [info[4][0] for name in names for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return list(dict.fromkeys(str(address) for address in found))


def _listen(addresses: list[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for address in addresses:
            try:
                sockets.append(_socket(address, sockets[0].getsockname()[1] if sockets else port))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
        if not sockets and missing is not None:
            raise missing
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _socket(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


def advertised_port(configuration: Configuration, bound: int) -> int:
    """Returns the port at which other processes reach a JobManager: ``jobmanager.rpc.port`` where it is bound to another one, behind a proxy for
    instance (as in Flink)."""
    port = configuration.get(JobManagerOptions.RPC_PORT)
    return port if port and configuration.get(JobManagerOptions.RPC_BIND_PORT) is not None else bound
