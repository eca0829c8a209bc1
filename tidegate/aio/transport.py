"""How processes of a cluster reach each other by gRPC: by TLS with certificates of its own (``tls_transport``) or those of the user (``own_transport``), or
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
"""gRPC's own, by name."""
_log = logging.getLogger(__name__)


class Transport:
    """In plain text."""

    tls: Reloaded[Material] | None = None
    """What both ends prove who they are with; ``None``: they do not."""

    def open_channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        """Returns a channel to ``host:port`` or ``unix:/path`` for the running loop; it connects when it is first used."""
        return grpc.aio.insecure_channel(address, options=tuple(options))

    def open_blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        """Returns a channel for threads."""
        return grpc.insecure_channel(address, options=tuple(options))

    def listen(self, server: grpc.aio.Server, address: str) -> int:
        """Returns the port. Raises ``RuntimeError`` when it cannot be had, as gRPC does, and ``ConfigurationError`` for an address at which this transport
        does not listen."""
        if not is_loopback(host_of(address)):
            _log.warning("gRPC at %s has no TLS: who reaches it runs programs as this user", address)
        return server.add_insecure_port(address)

    def secure(self, connection: socket.socket) -> socket.socket:
        """Returns a connection to another server of the cluster than one of gRPC, once both ends have proven who they are. Raises ``ExternalError``, and
        closes the connection, when one of them is not believed."""
        return connection

    def diagnose(self, address: str, details: str) -> str:
        """Returns why a server at ``host:port`` cannot be talked to although it listens, in words, where that is found; blocks for a few seconds at
        most. ``details``: what gRPC says of the failure; it is about a handshake where that may have failed."""
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
        """Returns what a client has to say before the server says anything; nothing where that speaks first."""
        return b""


def first_message(context: ssl.SSLContext) -> bytes:
    """Returns the first message of a client's handshake."""
    said = ssl.MemoryBIO()
    handshake = context.wrap_bio(ssl.MemoryBIO(), said)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        return said.read()
    raise AssertionError("a handshake without an answer")


def exposed(what: str, remedy: ConfigOption[bool]) -> ConfigurationError:
    """Returns the error of a port without TLS that would listen beyond loopback. ``remedy``: the option that gives it TLS."""
    return ConfigurationError(
        f"{what} would have no TLS, where other machines reach it: who connects could run programs as this user. "
        f"Set {remedy.key} with a keystore and a truststore, listen on localhost, or give --insecure ({SecurityOptions.INSECURE.key}: true) "
        "where the network keeps others out"
    )


def host_of(address: str) -> str:
    """Returns the host of ``host:port``."""
    return address.rpartition(":")[0].strip("[]")


def is_of_handshake(details: str) -> bool:
    """Returns whether gRPC's text about a failure may be about one. A server that refuses a client closes the connection without a word."""
    return "Socket closed" in details or "handshake failed" in details


PLAIN = Transport()
