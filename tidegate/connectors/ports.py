"""Listening ports of subtasks, out of a range that a firewall allows."""

from __future__ import annotations

import errno
import os
import random
import socket

from tidegate.model.errors import ExternalError
from tidegate.model.options import RuntimeOptions


def listening(host: str, ports: range, what: str, backlog: int = 128) -> socket.socket:
    """Listens on one of these ports as ``bound`` says. ``what``: what listens, as it stands in the message. Raises ``ExternalError``."""
    try:
        sock = bound(host, ports)
        sock.listen(backlog)
    except OSError as error:
        raise ExternalError(why_not_listening(host, ports, what, error)) from None
    return sock


def why_not_listening(host: str, ports: range, what: str, error: OSError) -> str:
    """Returns the message for ports of which none can be used: where, why, and the option that sets them."""
    shown = "any port" if ports == range(1) else str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"
    is_a_name = isinstance(error, socket.gaierror)  # which has numbers of its own
    in_use = error.errno == errno.EADDRINUSE and not is_a_name
    why = os.strerror(error.errno) if error.errno and not is_a_name else error.strerror or str(error)
    key = RuntimeOptions.DATA_PORT.key
    way_out = f"set {key} to other ports, or to a wider range such as 50100-50200; 0 takes any that are free"
    return f"cannot start the {what} on {host}:{shown}: {why}; {way_out if in_use else 'see taskmanager.bind-host and ' + key}"


def bound(host: str, ports: range) -> socket.socket:
    """Binds a TCP socket, not yet listening, to one of these ports of an address; the range of 0 alone: to any free one. Raises ``OSError`` when none
    is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    first = random.randrange(len(ports))  # processes that start together would all try the first ones
    for number in range(len(ports)):
        port = ports[(first + number) % len(ports)]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if port:  # connections of the last one to have it may still be there
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or len(ports) == 1:
                raise
    raise OSError(errno.EADDRINUSE, f"all ports from {ports[0]} to {ports[-1]} are in use")
