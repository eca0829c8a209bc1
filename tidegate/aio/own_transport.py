"""gRPC with TLS by the key of this user at both ends, for clusters without configured TLS: no other user of the machine is accepted or eavesdrops.
Servers listen on loopback alone, since another machine does not have the key."""

from __future__ import annotations

import ssl

import grpc
import grpc.aio

from tidegate.aio.listening import is_loopback
from tidegate.aio.transport import ChannelOptions, Transport, exposed, first_message, host_of, is_of_handshake
from tidegate.model.options import SecurityOptions
from tidegate.security.handshakes import NO_TLS, prepare
from tidegate.security.own import NAME, OwnKey
from tidegate.security.sockets import try_handshake

_INSECURE = SecurityOptions.INSECURE.key
_NAMED = ("grpc.ssl_target_name_override", NAME)


class OwnTransport(Transport):
    """TLS with the user's own key on loopback. Thread-safe."""

    def __init__(self, own: OwnKey) -> None:
        self._own = own
        self._context = _context_of(own)

    def open_channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(address, self._client(), options=(*options, _NAMED))

    def open_blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        return grpc.secure_channel(address, self._client(), options=(*options, _NAMED))

    def listen(self, server: grpc.aio.Server, address: str) -> int:
        if not is_loopback(host_of(address)):
            raise exposed(f"gRPC on {host_of(address)}", SecurityOptions.INTERNAL_ENABLED)
        own = self._own
        credentials = grpc.ssl_server_credentials(
            [(own.key, own.certificate)], root_certificates=own.certificate, require_client_auth=True
        )
        return server.add_secure_port(address, credentials)

    def diagnose(self, address: str, details: str) -> str:
        if not is_of_handshake(details):
            return ""
        found = try_handshake(address, self._context)
        if not found:
            return ""
        if NO_TLS in found:
            return (
                f"the process at {address} speaks plain text: it was started with {_INSECURE}, or is of another program; "
                f"with -D {_INSECURE}=true this one speaks plain text, too, and others can read it and answer"
            )
        return (
            f"the process at {address} does not have the key of this user ({self._own.path}): it is another user's, who can let others in by TLS, "
            "was started with another tidegate.home, or has TLS of its own (security.ssl.internal.enabled)"
        )

    def hello(self) -> bytes:
        return first_message(self._context)

    def _client(self) -> grpc.ChannelCredentials:
        own = self._own
        return grpc.ssl_channel_credentials(own.certificate, own.key, own.certificate)


def _context_of(own: OwnKey) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    prepare(context)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(own.path)
    context.load_verify_locations(cadata=own.certificate.decode("ascii"))
    return context
