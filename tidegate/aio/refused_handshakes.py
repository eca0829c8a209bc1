"""Logs why a TLS handshake at an HTTPS port failed; asyncio itself closes such a connection silently.

listening socket ─▶ accepts from a peer ─▶ a task of the loop, in a context that names it ─▶ handshake, which knows whom it is with
"""

from __future__ import annotations

import logging
import socket
import ssl
from contextvars import ContextVar
from typing import Any

from tidegate.security.handshakes import reason_of

_MAX_REASON = 200
"""The most characters of a reason in the log."""
_peer: ContextVar[str] = ContextVar("tidegate_peer", default="an unknown peer")

_log = logging.getLogger(__name__)


def tells_refusals(context: ssl.SSLContext, listening: socket.socket, what: str) -> socket.socket:
    """Returns a listening socket for an asyncio server whose failed handshakes are logged, at most 100 alike in 10 s as all warnings. ``what``: names
    the port. The given socket is detached."""
    context.sslobject_class = type("TellingHandshake", (_Handshake,), {"what": what})
    return _Listening(listening.family, listening.type, listening.proto, fileno=listening.detach())


class _Listening(socket.socket):
    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        _peer.set(f"{address[0]}:{address[1]}")
        return connection, address


class _Handshake(ssl.SSLObject):
    what = ""
    _with = ""

    def do_handshake(self) -> None:
        """Does the handshake, and logs its failure. Raises ``ssl.SSLError``."""
        self._with = self._with or _peer.get()
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            _log.warning("%s: no connection by TLS with %s: %s", self.what, self._with, reason_of(error)[:_MAX_REASON])
            raise
