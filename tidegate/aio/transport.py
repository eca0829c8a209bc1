"""How processes of a cluster reach each other by gRPC: in plain text, or by TLS (``tls_transport``).

transport_of(configuration) ─▶ open_channel, open_blocking_channel   a client
                            └▶ listen                                a server's port
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from tidegate.model.configuration import Configuration
from tidegate.model.options import SecurityOptions

ChannelOptions: TypeAlias = Iterable[tuple[str, Any]]
"""gRPC's own, by name."""


class Transport:
    """In plain text."""

    is_secure = False
    """Whether both ends prove who they are."""

    def open_channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        """Returns a channel to ``host:port`` or ``unix:/path`` for the running loop; it connects when it is first used."""
        return grpc.aio.insecure_channel(address, options=tuple(options))

    def open_blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        """Returns a channel for threads."""
        return grpc.insecure_channel(address, options=tuple(options))

    def listen(self, server: grpc.aio.Server, address: str) -> int:
        """Returns the port. Raises ``RuntimeError`` when it cannot be had, as gRPC does."""
        return server.add_insecure_port(address)

    def secure(self, connection: socket.socket) -> socket.socket:
        """Returns a connection to another server of the cluster than one of gRPC, once both ends have proven who they are. Raises ``ExternalError``, and
        closes the connection, when one of them is not believed."""
        return connection

    def hello(self) -> bytes:
        """Returns what a client has to say before the server says anything; nothing where that speaks first."""
        return b""


PLAIN = Transport()


def transport_of(configuration: Configuration) -> Transport:
    """Raises ``ConfigurationError`` for keystores that are missing or cannot be read."""
    if not configuration.get(SecurityOptions.INTERNAL_ENABLED):
        return PLAIN
    from tidegate.aio.tls_transport import TlsTransport  # its imports take as long as those of gRPC
    from tidegate.security.settings import internal_tls

    return TlsTransport(internal_tls(configuration))
