"""An authority for tests: it issues certificates of processes, and writes the stores that a configuration names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidegate.security.keystores import Credentials, pem_of

CLUSTER_NAME = "tidegate.internal"
"""A name that every certificate of a cluster has: peers are known by the authority, not by the address at which they are."""
_SKEW = timedelta(minutes=5)
"""By how much a clock may be behind the one that issued a certificate."""


def make_authority(now: datetime, validity: timedelta) -> Credentials:
    """Returns a new key (P-256) with a certificate that it signed itself, which issues others. ``now``: UTC."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("tidegate cluster")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _valid(now, validity)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(issues=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, SHA256())
    )
    return Credentials(key, (certificate,))


def issue(
    authority: Credentials, hosts: Iterable[str], now: datetime, validity: timedelta, *, is_user: bool = False
) -> Credentials:
    """Returns a new key with a certificate of the authority, for a process that is a server and a client.

    ``hosts``: names and addresses at which it is, beside ``CLUSTER_NAME``, which a user does not have. ``now``: UTC.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    assert isinstance(authority.key, ec.EllipticCurvePrivateKey)
    names = dict.fromkeys(hosts if is_user else (CLUSTER_NAME, *hosts))
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _valid(now, validity)
        .subject_name(_name(CLUSTER_NAME))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(issues=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]),
            critical=False,
        )
        .add_extension(identifier, critical=False)
        .sign(authority.key, SHA256())
    )
    return Credentials(key, (certificate,))


def write_stores(
    directory: Path, authority: Credentials, trusted: Credentials, born: datetime, validity: timedelta
) -> tuple[Path, Path]:
    """Writes a keystore for localhost and a truststore as PEM; returns both."""
    directory.mkdir(exist_ok=True)
    own = issue(authority, ["localhost"], born, validity)
    keystore, truststore = directory / "own.pem", directory / "trusted.pem"
    keystore.write_bytes(own.key_pem() + own.chain_pem())
    keystore.chmod(0o600)
    truststore.write_bytes(pem_of(trusted.chain))
    return keystore, truststore


def _valid(now: datetime, validity: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + validity)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, issues: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not issues,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=issues,
        crl_sign=issues,
        encipher_only=False,
        decipher_only=False,
    )
