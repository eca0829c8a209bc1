"""TLS contexts of clients and servers from certificates in memory.

    Material ── server_context ──▶  ssl.SSLContext    proves itself by its credentials; ``is_mutual``: believes only peers that do so too
             └─ client_context ──▶  ssl.SSLContext

TLS 1.2 and 1.3. Peers inside a cluster are known by the authority that issued their certificate and not by the address at which they are, as in Flink; clients
of REST look at the name of the host, too. ``pins``: fingerprints, of which a peer's certificate has to have one, where any are given (Flink's
``cert.fingerprint``).
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass

from cryptography import x509

from tidegate.model.errors import ConfigurationError
from tidegate.security.handshakes import prepare
from tidegate.security.keystores import Credentials, fingerprint_of, pem_of
from tidegate.security.reloading import Reloaded


@dataclass(frozen=True, slots=True)
class Material:
    """The TLS material of one end: its credentials (a client of REST needs none), the certificates that it trusts, and the pins."""

    credentials: Credentials | None
    trusted: tuple[x509.Certificate, ...]
    pins: frozenset[bytes] = frozenset()


def believed(material: Material) -> tuple[x509.Certificate, ...]:
    """Returns the certificates that are trusted: those of the truststore, or with pins, only the pinned ones. Raises ``ConfigurationError`` where no
    known certificate is pinned."""
    if not material.pins:
        return material.trusted
    own = () if material.credentials is None else material.credentials.chain
    known = dict.fromkeys((*material.trusted, *own))
    found = tuple(one for one in known if bytes.fromhex(fingerprint_of(one).replace(":", "")) in material.pins)
    if not found:
        raise ConfigurationError(
            "no certificate of the keystore and the truststore has one of the fingerprints of cert.fingerprint: put the certificate that is pinned "
            "into the truststore"
        )
    return found


def server_context(material: Material, *, is_mutual: bool) -> ssl.SSLContext:
    """Creates the TLS context of a server. ``is_mutual``: clients must have a trusted certificate. Raises ``ConfigurationError`` without credentials."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if material.credentials is None:
        raise ConfigurationError(
            "a process that accepts connections by TLS needs a keystore: set security.ssl.internal.keystore or security.ssl.rest.keystore"
        )
    _prepare(context, material)
    context.verify_mode = ssl.CERT_REQUIRED if is_mutual else ssl.CERT_NONE
    return context


def renewing_context(tls: Reloaded[Material], *, is_mutual: bool) -> ssl.SSLContext:
    """Creates the TLS context of a server that switches each connection, at its ClientHello, to a context with the current certificates."""
    first = tls.get()
    last = first, server_context(first, is_mutual=is_mutual)

    def pass_on(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        nonlocal last
        material = tls.get()
        if material is not last[0]:
            last = material, server_context(material, is_mutual=is_mutual)
        connection.context = last[1]

    entry = server_context(first, is_mutual=is_mutual)
    entry.sni_callback = pass_on
    return entry


def client_context(material: Material, *, checks_name: bool) -> ssl.SSLContext:
    """Creates the TLS context of a client. ``checks_name``: whether the server's certificate must be for the host that was dialled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_name
    _prepare(context, material)
    return context


def _prepare(context: ssl.SSLContext, material: Material) -> None:
    prepare(context)
    if material.trusted:
        context.load_verify_locations(cadata=pem_of(material.trusted).decode())
    if material.credentials is not None:
        # A context reads keys from files only: one that nobody else can open, and that is gone when it has been read.
        with tempfile.NamedTemporaryFile(prefix="tidegate-tls-") as file:
            file.write(material.credentials.key_pem() + material.credentials.chain_pem())
            file.flush()
            context.load_cert_chain(file.name)
