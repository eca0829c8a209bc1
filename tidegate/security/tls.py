"""TLS of sockets: contexts for both ends, made from memory, and what was wrong when a handshake failed.

    Material ── server_context ──▶  ssl.SSLContext    proves itself by its identity; ``is_mutual``: believes only peers that do so too
             └─ client_context ──▶  ssl.SSLContext

TLS 1.2 and 1.3. Peers inside a cluster are known by the authority that issued their certificate and not by the address at which they are, as in Flink; clients
of REST look at the name of the host, too. ``pins``: fingerprints, of which a peer's certificate has to have one, where any are given (Flink's
``cert.fingerprint``).
"""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509

from tidegate.model.errors import ConfigurationError
from tidegate.security.keystores import Identity, pem_of

_FINGERPRINT_BYTES = 32
"""Of SHA-256."""

_BY_VERIFY_CODE = {
    9: "its certificate is not valid yet (a clock is behind)",
    10: "its certificate has expired",
    18: "its certificate was signed by itself and is not in the truststore",
    19: "its certificate is of an authority that is not in the truststore",
    20: "its certificate is of an authority that is not in the truststore",
    21: "its certificate is of an authority that is not in the truststore",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}
"""OpenSSL's numbers (``X509_V_ERR_*``)."""
_BY_REASON = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS",
    "RECORD_LAYER_FAILURE": "it speaks no TLS",
    "PACKET_LENGTH_TOO_LONG": "it speaks no TLS",
    "HTTP_REQUEST": "it speaks no TLS, but plain HTTP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate and was given none",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not have the authority of our certificate in its truststore",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired for it",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it and we have no protocol in common, or it wants a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it and we have no version of TLS in common",
    "UNSUPPORTED_PROTOCOL": "it and we have no version of TLS in common",
}
"""OpenSSL's names of reasons, as ``ssl.SSLError.reason`` has them."""


@dataclass(frozen=True, slots=True)
class Material:
    """What one end of a connection has: its identity (a client of REST needs none), the certificates that it believes, and the pins."""

    identity: Identity | None
    trusted: tuple[x509.Certificate, ...]
    pins: frozenset[bytes] = frozenset()


def parse_pins(text: str) -> frozenset[bytes]:
    """Returns the digests of fingerprints between commas, written with or without colons. Raises ``ConfigurationError`` for what is no SHA-256."""
    found = set()
    for one in filter(None, (part.strip() for part in text.split(","))):
        try:
            digest = bytes.fromhex(one.replace(":", ""))
        except ValueError:
            digest = b""
        if len(digest) != _FINGERPRINT_BYTES:
            raise ConfigurationError(
                f"{one!r} is no SHA-256 fingerprint: 64 hexadecimal digits, with or without colons"
            )
        found.add(digest)
    return frozenset(found)


def server_context(material: Material, *, is_mutual: bool) -> ssl.SSLContext:
    """Raises ``ConfigurationError`` where there is no identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if material.identity is None:
        raise ConfigurationError("a server of TLS needs a keystore")
    _prepare(context, material)
    context.verify_mode = ssl.CERT_REQUIRED if is_mutual else ssl.CERT_NONE
    return context


def client_context(material: Material, *, checks_name: bool) -> ssl.SSLContext:
    """``checks_name``: whether the server's certificate has to be for the host that was dialled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_name
    _prepare(context, material)
    return context


def check_pins(certificate: bytes | None, pins: Iterable[bytes]) -> None:
    """``certificate``: the peer's, as DER. Raises ``ssl.SSLCertVerificationError`` where pins are given and it has none of them."""
    wanted = frozenset(pins)
    digest = b"" if certificate is None else hashlib.sha256(certificate).digest()
    if wanted and digest not in wanted:
        found = digest.hex(":").upper() or "none"
        raise ssl.SSLCertVerificationError(f"its certificate is not one of those that are pinned: {found}")


def reason_of(error: BaseException) -> str:
    """Returns what was wrong with a handshake, as seen from here: what the other end is, or what it says of us."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            _BY_VERIFY_CODE.get(getattr(error, "verify_code", 0)) or getattr(error, "verify_message", "") or str(error)
        )
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError | EOFError):
        return "it closed the connection during the handshake: it speaks no TLS, or refuses our certificate"
    if isinstance(error, ssl.SSLError):
        return _BY_REASON.get(error.reason or "", "") or f"the handshake failed ({error.reason or error})"
    return str(error) or type(error).__name__


def _prepare(context: ssl.SSLContext, material: Material) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # a certificate in the truststore is believed itself, whoever issued it
    if material.trusted:
        context.load_verify_locations(cadata=pem_of(material.trusted).decode())
    if material.identity is not None:
        # A context reads keys from files only: one that nobody else can open, and that is gone when it has been read.
        with tempfile.NamedTemporaryFile(prefix="tidegate-tls-") as file:
            file.write(material.identity.key_pem() + material.identity.chain_pem())
            file.flush()
            context.load_cert_chain(file.name)
