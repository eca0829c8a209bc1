"""An authority for one cluster: it issues the certificates of its processes, and is thrown away with it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidegate.security.keystores import Credentials

CLUSTER_NAME = "tidegate.internal"
"""A name that every certificate of a cluster has: peers are known by the authority, not by the address at which they are."""
_SKEW = timedelta(minutes=5)
"""By how much a clock may be behind the one that issued a certificate."""


def make_authority(now: datetime, life: timedelta) -> Credentials:
    """Returns a new key (P-256) with a certificate that it signed itself, which issues others. ``now``: UTC."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("tidegate cluster")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _valid(now, life)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(issues=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, SHA256())
    )
    return Credentials(key, (certificate,))


def issue(authority: Credentials, hosts: Iterable[str], now: datetime, life: timedelta) -> Credentials:
    """Returns a new key with a certificate of the authority, for a process that is a server and a client.

    ``hosts``: names and addresses at which it is, beside ``CLUSTER_NAME``. ``now``: UTC.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.certificate.public_key())  # type: ignore[arg-type]
    certificate = (
        _valid(now, life)
        .subject_name(_name(CLUSTER_NAME))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(issues=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(
            x509.SubjectAlternativeName([_general(name) for name in dict.fromkeys((CLUSTER_NAME, *hosts))]),
            critical=False,
        )
        .add_extension(identifier, critical=False)
        .sign(authority.key, SHA256())  # type: ignore[arg-type]
    )
    return Credentials(key, (certificate,))


def _valid(now: datetime, life: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
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
