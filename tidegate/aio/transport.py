"""How the processes of a cluster connect by gRPC: with TLS and the cluster's certificates (``tls_transport``) or the user's key (``own_transport``), or
in plain text.

transport_of(configuration) ─▶ open_channel, open_blocking_channel   a client
                            └▶ listen                                a server's port
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import grpc.aio

from tidegate.aio.listening import is_loopback
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import SecurityOptions
from tidegate.model.options.option import ConfigOption
from tidegate.security.handshakes import NO_TLS
from tidegate.security.sockets import try_handshake

if TYPE_CHECKING:
    from tidegate.security.reloading import Reloaded
    from tidegate.security.tls import Material

ChannelOptions: TypeAlias = Iterable[tuple[str, Any]]
"""Options of a gRPC channel, by name."""
_log = logging.getLogger(__name__)


class Transport:
    """Opens channels and ports in plain text; the base of the transports with TLS."""

    tls: Reloaded[Material] | None = None
    """The certificates by which both ends authenticate; ``None`` without authentication."""

    def open_channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        """Opens a channel to ``host:port`` or ``unix:/path`` for the running loop; it connects on first use."""
        return grpc.aio.insecure_channel(address, options=tuple(options))

    def open_blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        """Opens a channel for blocking calls."""
        return grpc.insecure_channel(address, options=tuple(options))

    def listen(self, server: grpc.aio.Server, address: str) -> int:
        """Adds a port to a server; returns the port. Raises ``RuntimeError`` when the port cannot be used, as gRPC does, and ``ConfigurationError`` for
        an address at which this transport does not listen."""
        if not is_loopback(host_of(address)):
            _log.warning("gRPC at %s has no TLS: everyone who can reach it can run programs as this user", address)
        return server.add_insecure_port(address)

    def secure(self, connection: socket.socket) -> socket.socket:
        """Authenticates both ends of a connection to a server of the cluster that does not use gRPC; returns the connection to use. Raises
        ``ExternalError``, and closes the connection, when authentication fails."""
        return connection

    def diagnose(self, address: str, details: str) -> str:
        """Finds why calls to a server at ``host:port`` fail although it listens; returns the reason in words, or an empty text; blocks for a few
        seconds at most. ``details``: gRPC's message of the failure."""
        if not is_of_handshake(details):
            return ""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        if NO_TLS in (try_handshake(address, context) or NO_TLS):
            return ""
        return (
            f"the process at {address} speaks TLS: set {SecurityOptions.INTERNAL_ENABLED.key}, and the keystore and truststore of its cluster, "
            f"or leave out {SecurityOptions.INSECURE.key}"
        )

    def hello(self) -> bytes:
        """Returns the first bytes that a client sends; empty where the server sends first."""
        return b""


def first_message(context: ssl.SSLContext) -> bytes:
    """Returns the first TLS message (ClientHello) of a client."""
    said = ssl.MemoryBIO()
    handshake = context.wrap_bio(ssl.MemoryBIO(), said)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        return said.read()
    raise AssertionError("a TLS handshake ended before its peer had answered")


def exposed(what: str, remedy: ConfigOption[bool]) -> ConfigurationError:
    """Returns the error for a port without TLS that would listen beyond loopback. ``remedy``: the option that enables TLS there."""
    return ConfigurationError(
        f"{what} would have no TLS, where other machines reach it: who connects could run programs as this user. "
        f"Set {remedy.key} with a keystore and a truststore, listen on localhost, or give --insecure ({SecurityOptions.INSECURE.key}: true) "
        "where the network keeps others out"
    )


def host_of(address: str) -> str:
    """Returns the host of ``host:port``."""
    return address.rpartition(":")[0].strip("[]")


def is_of_handshake(details: str) -> bool:
    """Tells whether gRPC's message of a failure may be about a handshake. A server that refuses a client closes the connection without a reason."""
    return "Socket closed" in details or "handshake failed" in details


PLAIN = Transport()
