"""Listening ports of subtasks, out of a range that a firewall allows."""

from __future__ import annotations

import errno
import random
import socket


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
