"""Checks of TLS handshakes beside certificates, and the reasons of failed ones in words. Uses the standard library alone."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable

from tidegate.model.errors import ConfigurationError

NO_TLS = "it speaks no TLS"
"""The reason for a peer without TLS; others of that kind begin with it."""
_FINGERPRINT_BYTES = 32
"""The length of a SHA-256 digest."""

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
"""Reasons by OpenSSL's verification errors (``X509_V_ERR_*``)."""
_BY_REASON = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "HTTP_REQUEST": f"{NO_TLS}, but plain HTTP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate and was given none",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not have the authority of our certificate in its truststore",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that our certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it and we have no protocol in common, or it wants a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it and we have no version of TLS in common",
    "UNSUPPORTED_PROTOCOL": "it and we have no version of TLS in common",
}
"""Reasons by OpenSSL's names of errors, as in ``ssl.SSLError.reason``."""


def prepare(context: ssl.SSLContext) -> None:
    """Sets the options of all TLS contexts: TLS 1.2 or 1.3, and a certificate in the truststore is trusted itself, whatever its issuer."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def parse_pins(text: str) -> frozenset[bytes]:
    """Parses SHA-256 fingerprints separated by commas, with or without colons. Raises ``ConfigurationError`` for an invalid one."""
    found = set()
    for one in filter(None, (part.strip() for part in text.split(","))):
        try:
            digest = bytes.fromhex(one.replace(":", ""))
        except ValueError:
            digest = b""
        if len(digest) != _FINGERPRINT_BYTES:
            raise ConfigurationError(
                f"{one!r} is not a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons"
            )
        found.add(digest)
    return frozenset(found)


def check_pins(certificate: bytes | None, pins: Iterable[bytes]) -> None:
    """Checks that a peer's certificate (DER) has one of the pinned fingerprints, if there are any. Raises ``ssl.SSLCertVerificationError``."""
    wanted = frozenset(pins)
    digest = b"" if certificate is None else hashlib.sha256(certificate).digest()
    if wanted and digest not in wanted:
        found = digest.hex(":").upper() or "none"
        raise ssl.SSLCertVerificationError(f"its certificate is not one of those that are pinned: {found}")


def reason_of_loss(error: OSError) -> str:
    """Returns why a connection was lost, in words; it may have no TLS, or have been in use for long."""
    return reason_of(error) if isinstance(error, ssl.SSLError) else str(error)


def reason_of(error: BaseException) -> str:
    """Returns why a handshake failed, in words, from this end's view: what is wrong with the peer, or what it reports of this end."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            _BY_VERIFY_CODE.get(getattr(error, "verify_code", 0)) or getattr(error, "verify_message", "") or str(error)
        )
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError | EOFError):
        return "it closed the connection during the handshake: it speaks no TLS, or refuses our certificate"
    if isinstance(error, ssl.SSLError):
        return _BY_REASON.get(error.reason or "", "") or f"the handshake failed ({error.reason or error})"
    return str(error) or type(error).__name__
