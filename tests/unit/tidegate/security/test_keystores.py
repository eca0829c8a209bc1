"""Keystores that ``keytool`` and ``openssl`` make are read as they are; what is wrong with one is said with its path."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from tests.certificates import CLUSTER_NAME, issue, make_authority
from tidegate.model.errors import ConfigurationError
from tidegate.security.keystores import (
    NO_PASSWORDS,
    Credentials,
    Passwords,
    fingerprint_of,
    pem_of,
    read_keystore,
    read_truststore,
)

PASSWORD = "storeänd key"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


def keytool(*arguments: str) -> str:
    command = [shutil.which("keytool") or "keytool", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of Flink's page on SSL: a keystore with a key, and a truststore with its certificate; the first also as JKS."""
    home = tmp_path_factory.mktemp("java")
    store = ("-keystore", str(home / "internal.keystore"), "-storepass", "secret1")
    keytool(
        "-genkeypair", "-alias", "flink.internal", *store, "-dname", "CN=flink.internal", "-keyalg", "RSA", "-keysize", "2048",
        "-storetype", "PKCS12",
    )  # fmt: skip
    keytool("-exportcert", "-alias", "flink.internal", *store, "-file", str(home / "internal.cer"))
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(home / "internal.cer"), "-keystore", str(home / "truststore"),
        "-storepass", "secret2", "-storetype", "PKCS12",
    )  # fmt: skip
    keytool(
        "-importkeystore", "-srckeystore", str(home / "internal.keystore"), "-srcstorepass", "secret1", "-destkeystore",
        str(home / "old.jks"), "-deststoretype", "JKS", "-deststorepass", "secret1", "-noprompt",
    )  # fmt: skip
    return home


@pytest.fixture(scope="module")
def authority() -> Credentials:
    return make_authority(NOW, YEAR)


@pytest.fixture(scope="module")
def own(authority: Credentials) -> Credentials:
    return issue(authority, ["localhost", "127.0.0.1", "::1"], NOW, YEAR)


def test_a_keystore_of_java(java: Path) -> None:
    found = read_keystore(java / "internal.keystore", Passwords("secret1", "secret1"))
    assert found.certificate.subject.rfc4514_string() == "CN=flink.internal"
    listed = keytool("-list", "-v", "-keystore", str(java / "internal.keystore"), "-storepass", "secret1")
    assert fingerprint_of(found.certificate) in listed
    assert read_truststore(java / "truststore", "secret2") == (found.certificate,)


def test_java_reads_what_is_issued_here(tmp_path: Path, authority: Credentials, own: Credentials) -> None:
    path = tmp_path / "issued.pem"
    path.write_bytes(own.chain_pem())
    printed = keytool("-printcert", "-file", str(path))
    for part in (f"CN={CLUSTER_NAME}", "DNSName: localhost", "IPAddress: 127.0.0.1", "serverAuth", "clientAuth"):
        assert part in printed
    own.certificate.verify_directly_issued_by(authority.certificate)


@pytest.mark.parametrize("password", ["", PASSWORD], ids=["plain", "encrypted"])
def test_pem_has_the_key_and_the_certificates_in_any_order(
    tmp_path: Path, authority: Credentials, own: Credentials, password: str
) -> None:
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    path = tmp_path / "both.pem"
    path.write_bytes(pem_of([authority.certificate]) + key + own.chain_pem())
    found = read_keystore(path, Passwords(key=password))
    assert found.chain == (own.certificate, authority.certificate)
    assert found.key_pem() == own.key_pem()
    assert read_truststore(path) == (authority.certificate, own.certificate)


def test_what_expires_first_counts(authority: Credentials) -> None:
    short = issue(make_authority(NOW, timedelta(days=3)), [], NOW, YEAR)
    assert short.expires == NOW + YEAR
    assert Credentials(
        short.key, (*short.chain, make_authority(NOW, timedelta(days=3)).certificate)
    ).expires == NOW + timedelta(days=3)


@pytest.mark.parametrize(
    ("file", "passwords", "message"),
    [
        ("missing", Passwords(), "cannot read the keystore {path}: No such file or directory"),
        ("internal.keystore", Passwords("other"), "cannot open {path}: its password is not the one that is set"),
        ("internal.keystore", Passwords(), "cannot open {path}: its password is not the one that is set"),
        (
            "old.jks",
            Passwords("secret1"),
            "the keystore {path} is in Java's own format JKS; make PKCS12 of it: keytool",
        ),
        ("internal.cer", Passwords("secret1"), "cannot open {path}: it is neither PKCS12 nor PEM"),
        ("truststore", Passwords("secret2"), "the keystore {path} has no private key"),
    ],
)
def test_a_keystore_that_cannot_be_used(java: Path, file: str, passwords: Passwords, message: str) -> None:
    path = java / file
    with pytest.raises(ConfigurationError) as caught:
        read_keystore(path, passwords)
    assert str(caught.value).startswith(message.format(path=path))


def test_pem_that_cannot_be_used(tmp_path: Path, authority: Credentials, own: Credentials) -> None:
    path = tmp_path / "one.pem"
    encrypted = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))

    def refusal(data: bytes, passwords: Passwords = NO_PASSWORDS) -> str:
        path.write_bytes(data)
        with pytest.raises(ConfigurationError) as caught:
            read_keystore(path, passwords)
        return str(caught.value).replace(str(path), "FILE")

    assert refusal(own.chain_pem()).startswith("the keystore FILE has no private key")
    assert refusal(own.key_pem()) == ("the keystore FILE has no certificate of its private key; put it beside the key")
    assert refusal(encrypted) == "the private key of FILE is encrypted; set the password of the key"
    assert (
        refusal(encrypted, Passwords("other"))
        == "cannot read the private key of FILE: its password is not the one that is set"
    )
    assert refusal(own.key_pem() + authority.chain_pem()) == (
        "no certificate in the keystore FILE belongs to its private key; put the certificate of that key into it"
    )
    assert refusal(own.key_pem() + own.chain_pem()[:200] + b"\n-----END CERTIFICATE-----\n").startswith(
        "cannot read the certificates of FILE"
    )
    path.write_bytes(own.key_pem())
    with pytest.raises(ConfigurationError, match="has no certificate"):
        read_truststore(path)
