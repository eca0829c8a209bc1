"""Reads keys and certificates from files: PKCS12 keystores as in Flink installations, and PEM.

    keystore      a private key, its certificate, and the authorities that issued it     ->  Credentials
    truststore    certificates of authorities                                             ->  certificates that are believed

Flink's ``keystore-type`` is PKCS12 unless it is set; which of both a file is is seen from its bytes, so PEM needs no option. Java's own format JKS is
refused with the command that converts it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from tidegate.model.errors import ConfigurationError

_PEM_MARK = b"-----BEGIN "
_JKS_MARKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A private key with its certificate.

    ``chain``: the certificate, and behind it those of the authorities between it and a root, as the file has them.
    """

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def expires(self) -> datetime:
        """The expiry of the certificate, or of the first of its chain that expires (UTC)."""
        return min(one.not_valid_after_utc for one in self.chain)

    def key_pem(self) -> bytes:
        """Returns the key as unencrypted PKCS8, for memory and for files that only their owner can read."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def chain_pem(self) -> bytes:
        return pem_of(self.chain)


class Passwords(NamedTuple):
    """The passwords of a keystore and of the key in it. In PKCS12 both are one, as Java writes it; ``key`` decrypts keys in PEM."""

    store: str = ""
    key: str = ""


NO_PASSWORDS = Passwords()


def read_keystore(path: Path, passwords: Passwords = NO_PASSWORDS) -> Credentials:
    """Reads the key of a PKCS12 or PEM file with its certificates. Raises ``ConfigurationError`` for an unreadable file, a wrong password, and a file
    without a key, without a certificate, or with a certificate of another key."""
    data = _read(path, "keystore")
    if data.startswith(_PEM_MARK):
        key, chain = _pem_identity(path, data, passwords)
    else:
        key, chain = _pkcs12_identity(path, data, passwords)
    mine = next((one for one in chain if _public(one.public_key()) == _public(key.public_key())), None)
    if mine is None:
        raise ConfigurationError(
            f"no certificate in the keystore {path} belongs to its private key; put the certificate of that key into it"
        )
    return Credentials(key, (mine, *(one for one in chain if one != mine)))


def read_truststore(path: Path, password: str = "") -> tuple[x509.Certificate, ...]:
    """Reads all certificates of a PKCS12 or PEM file. Raises ``ConfigurationError`` for an unreadable file, a wrong password, and a file without a
    certificate."""
    data = _read(path, "truststore")
    if data.startswith(_PEM_MARK):
        found = _pem_certificates(path, data)
    else:
        loaded = _load_pkcs12(path, data, password)
        own = () if loaded.cert is None else (loaded.cert,)
        found = tuple(one.certificate for one in (*own, *loaded.additional_certs))
    if not found:
        raise ConfigurationError(
            f"the truststore {path} has no certificate; put those of the authorities into it that are to be trusted"
        )
    return found


def pem_of(certificates: Sequence[x509.Certificate]) -> bytes:
    """Encodes certificates as PEM, one after the other."""
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Returns a certificate's SHA-256 fingerprint in the form of Flink's ``cert.fingerprint`` and of ``keytool``, such as ``AB:01:...``."""
    return certificate.fingerprint(SHA256()).hex(":").upper()


def _read(path: Path, what: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what} {path}: {error.strerror}") from None
    if data.startswith(_JKS_MARKS):
        raise ConfigurationError(
            f"the {what} {path} is in Java's own format JKS; make PKCS12 of it: "
            f"keytool -importkeystore -srckeystore {path} -destkeystore {path.with_suffix('.p12')} -deststoretype PKCS12"
        )
    return data


def _pkcs12_identity(
    path: Path, data: bytes, passwords: Passwords
) -> tuple[PrivateKeyTypes, tuple[x509.Certificate, ...]]:
    loaded = _load_pkcs12(path, data, passwords.store)
    if loaded.key is None or loaded.cert is None:
        missing = "private key" if loaded.key is None else "certificate of its private key"
        raise ConfigurationError(f"the keystore {path} has no {missing}; it needs both a key and its certificate")
    return loaded.key, (loaded.cert.certificate, *(one.certificate for one in loaded.additional_certs))


def _load_pkcs12(path: Path, data: bytes, password: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except (ValueError, UnsupportedAlgorithm) as error:
        why = (
            "its password is not the one that is set"
            if "password" in str(error).lower()
            else f"it is neither PKCS12 nor PEM ({error})"
        )
        raise ConfigurationError(f"cannot open {path}: {why}") from None


def _pem_identity(
    path: Path, data: bytes, passwords: Passwords
) -> tuple[PrivateKeyTypes, tuple[x509.Certificate, ...]]:
    found = _PEM_KEY.search(data)
    if found is None:
        raise ConfigurationError(f"the keystore {path} has no private key; a PEM file has it beside the certificates")
    password = passwords.key or passwords.store
    is_encrypted = b"ENCRYPTED" in found.group()
    try:
        key = load_pem_private_key(found.group(), password.encode() if password and is_encrypted else None)
    except TypeError:
        raise ConfigurationError(f"the private key of {path} is encrypted; set the password of the key") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        why = "its password is not the one that is set" if is_encrypted else str(error)
        raise ConfigurationError(f"cannot read the private key of {path}: {why}") from None
    certificates = _pem_certificates(path, data)
    if not certificates:
        raise ConfigurationError(f"the keystore {path} has no certificate of its private key; put it beside the key")
    return key, certificates


def _pem_certificates(path: Path, data: bytes) -> tuple[x509.Certificate, ...]:
    if b"-----BEGIN CERTIFICATE-----" not in data:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(data))
    except ValueError as error:
        raise ConfigurationError(f"cannot read the certificates of {path}: {error}") from None


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
