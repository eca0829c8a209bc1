"""The key by which the processes of one user on one machine authenticate each other where no certificates are configured. Only this user can read it.

    <home>/security/own.pem     made by the first process that needs it; all others read it

Who can read it has the rights of the user anyway. The certificate signed itself, and is the only one that is believed.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.model.errors import ExternalError

DIRECTORY, FILE = "security", "own.pem"
NAME = "tidegate.internal"
"""The name in the certificate, whatever the address at which a process listens."""
_VALID_DAYS = 3650
"""The days for which the certificate is valid. Chosen: it outlives the machine; a user replaces it by removing the file."""
_SKEW_MINUTES = 5
"""The clock difference for which the certificate allows, in minutes. Chosen."""
_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.DOTALL)
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The user's key and certificate. ``path``: the file with both; ``key`` and ``certificate``: its content as PEM."""

    path: Path
    key: bytes
    certificate: bytes


def own_key(home: Path) -> OwnKey:
    """Reads the user's key, or creates it where there is none. Raises ``ExternalError`` for a file of another user, one that others can read, a damaged
    one, and where it cannot be created."""
    directory = home / DIRECTORY
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        _check(directory, stat.S_ISDIR)
        path = directory / FILE
        if not os.path.lexists(path):
            _make(path)
        _check(path, stat.S_ISREG)
        return _parsed(path, path.read_bytes())
    except OSError as error:
        raise ExternalError(
            f"cannot use the key of this user, {error.filename}: {error.strerror}; set tidegate.home to a directory that you can write"
        ) from None


def _check(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Checks that a path is not a link, and that this user owns it and no other can read it. Raises ``ExternalError``."""
    found = path.lstat()
    if found.st_uid != os.geteuid() or not is_kind(found.st_mode):
        raise ExternalError(f"{path} is not yours; remove it, or set tidegate.home to a directory of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ExternalError(f"other users of this machine can read {path}; remove it, and a new key is made")


def _make(path: Path) -> None:
    """Writes a new key, unless another process has done so meanwhile."""
    content = _self_signed()
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # for the user alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        os.unlink(name)


def _self_signed() -> bytes:
    """Returns a new key (P-256) and a self-signed certificate, as PEM."""
    # These imports take as long as those of gRPC, and are needed once for a user.
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from tidegate.security.keystores import Credentials

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .not_valid_before(now - timedelta(minutes=_SKEW_MINUTES))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(both_ends, critical=False)
        .sign(key, SHA256())
    )
    made = Credentials(key, (certificate,))
    return made.key_pem() + made.chain_pem()


def _parsed(path: Path, content: bytes) -> OwnKey:
    key, certificate = _KEY.search(content), _CERTIFICATE.search(content)
    if key is None or certificate is None:
        raise ExternalError(
            f"{path} is damaged; remove it, and a new key is made (processes that run keep the old one)"
        )
    return OwnKey(path, key.group(), certificate.group())
