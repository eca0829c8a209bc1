"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 10_000, 32_000
"""Below those that Linux and macOS give to outgoing connections, or one of them could have the port of a server that starts again."""
_given: set[int] = set()
_random = random.SystemRandom()  # runs of tests beside each other ask for different ones


def free_port() -> int:
    """A port of 127.0.0.1 where nothing listens, and that this process was not given before."""
    while True:
        port = _random.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
