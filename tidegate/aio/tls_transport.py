"""gRPC with mutual TLS.

gRPC looks at the name in a certificate, Flink's internal connections do not: each peer is known by the authority that issued its certificate. So a client asks
for the name in its own certificate; all certificates of a cluster have one name in common. A user's has another, and its configuration names the cluster's. A
server takes certificates that were renewed for its next connections, a client for its next channel.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import grpc
import grpc.aio
from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from tidegate.aio.transport import ChannelOptions, Transport, first_message, is_of_handshake
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.options import SecurityOptions
from tidegate.security.handshakes import check_pins, reason_of
from tidegate.security.keystores import Credentials, pem_of
from tidegate.security.reloading import Reloaded
from tidegate.security.sockets import try_handshake
from tidegate.security.tls import Material, believed, client_context

_WRONG_NAME = ("is not in peer certificate", "Hostname Verification Check failed")
"""The parts of gRPC's messages about a server certificate with another name."""


class TlsTransport(Transport):
    """TLS with certificates of the configured keystores at both ends. Thread-safe."""

    def __init__(self, tls: Reloaded[Material], cluster: str = "") -> None:
        """Takes the TLS material, which must have credentials. ``cluster``: the name in the certificates of servers; empty: that in the own certificate. Raises
        ``ConfigurationError`` for a certificate without a name, and for pinned certificates that are in neither store.
        """
        self.tls = self._tls = tls
        self._cluster = cluster
        believed(tls.get())
        name_of(_credentials(tls.get()).certificate)

    def open_channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        credentials, name = self._client()
        return grpc.aio.secure_channel(address, credentials, options=(*options, name))

    def open_blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        credentials, name = self._client()
        return grpc.secure_channel(address, credentials, options=(*options, name))

    def listen(self, server: grpc.aio.Server, address: str) -> int:
        return server.add_secure_port(address, self._server())

    def secure(self, connection: socket.socket) -> socket.socket:
        material = self._tls.get()
        try:
            secured = client_context(material, checks_name=False).wrap_socket(connection)
            check_pins(secured.getpeercert(binary_form=True), material.pins)
        except OSError as error:
            connection.close()
            raise ExternalError(
                f"a connection by TLS (security.ssl.internal.enabled) failed: {reason_of(error)}"
            ) from None
        return secured

    def diagnose(self, address: str, details: str) -> str:
        material = self._tls.get()
        if any(text in details for text in _WRONG_NAME):
            return self._of_another_name(address, name_of(_credentials(material).certificate))
        if not is_of_handshake(details):
            return ""
        context = client_context(material, checks_name=False)
        context.set_alpn_protocols(["h2"])
        expired = _credentials(material).expires
        if expired < datetime.now(UTC):
            return f"our certificate has expired at {expired:%Y-%m-%d %H:%M} UTC; renew it in the keystore"
        found = try_handshake(address, context, material.pins)
        return found and f"no connection by TLS to the process at {address}: {found}"

    def hello(self) -> bytes:
        return first_message(client_context(self._tls.get(), checks_name=False))

    def _of_another_name(self, address: str, own: str) -> str:
        key = SecurityOptions.CLUSTER_NAME.key
        if self._cluster:
            return f"the certificate of the process at {address} is not for {self._cluster!r}, as {key} has it"
        return (
            f"the certificate of the process at {address} is not for {own!r}, the first name in ours: where ours is that of a user, set {key} to the first "
            "name in the certificates of the cluster"
        )

    def _client(self) -> tuple[grpc.ChannelCredentials, tuple[str, str]]:
        material = self._tls.get()
        own = _credentials(material)
        credentials = grpc.ssl_channel_credentials(pem_of(believed(material)), own.key_pem(), own.chain_pem())
        return credentials, ("grpc.ssl_target_name_override", self._cluster or name_of(own.certificate))

    def _server(self) -> grpc.ServerCredentials:
        given, lock = self._tls.get(), threading.Lock()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            """Returns a new configuration once after each renewal of the certificate, ``None`` otherwise. gRPC calls it for each connection, from its own
            threads.

            When gRPC gets a configuration, it drops the one before, even while another thread begins a handshake with it, which crashes (grpcio 1.85);
            therefore none is returned without a renewal.
            """
            nonlocal given
            with lock:
                material = self._tls.get()
                if material is given:
                    return None
                given = material
            return _server_configuration(material)

        # gRPC's types do not allow ``None``, which its documentation does.
        fetcher = cast(Callable[[], grpc.ServerCertificateConfiguration], renewed)
        return grpc.dynamic_ssl_server_credentials(
            _server_configuration(given), fetcher, require_client_authentication=True
        )


def _server_configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    own = _credentials(material)
    return grpc.ssl_server_certificate_configuration([(own.key_pem(), own.chain_pem())], pem_of(believed(material)))


def _credentials(material: Material) -> Credentials:
    assert material.credentials is not None, "connections inside a cluster have a certificate at both ends"
    return material.credentials


def name_of(certificate: x509.Certificate) -> str:
    """Returns the first alternative name of a certificate, or the common name of its subject."""
    try:
        names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except x509.ExtensionNotFound:
        found = [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    else:
        assert isinstance(names, x509.SubjectAlternativeName)
        found = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    if not found:
        raise ConfigurationError(
            f"the certificate {certificate.subject.rfc4514_string()!r} has no name: neither a subject alternative name nor a common name"
        )
    return found[0]
