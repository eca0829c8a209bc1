"""Keystores of a configuration: which keys count, and what is warned of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tests.certificates import issue, make_authority, write_stores
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.keystores import Credentials
from tidegate.security.tls_settings import internal_tls, rest_client_tls, rest_server_tls

NOW = datetime.now(UTC)
LONG = timedelta(days=400)
AUTHORITY = make_authority(NOW, LONG)


def stores(directory: Path, validity: timedelta = LONG, mode: int = 0o600) -> dict[str, str]:
    """A PEM keystore of the given validity, and its truststore, under the keys that all connections share."""
    keystore, truststore = write_stores(directory, AUTHORITY, AUTHORITY, NOW - timedelta(days=1), validity)
    keystore.chmod(mode)
    return {"security.ssl.keystore": str(keystore), "security.ssl.truststore": str(truststore)}


def of(texts: dict[str, str]) -> Configuration:
    return Configuration.from_strings(texts)


def pkcs12_of(credentials: Credentials, password: str) -> bytes:
    assert isinstance(credentials.key, EllipticCurvePrivateKey)
    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(b"own", credentials.key, credentials.certificate, [], encryption)


def test_the_own_keys_of_a_path_win_over_those_that_are_shared(tmp_path: Path) -> None:
    shared = stores(tmp_path)
    other = issue(AUTHORITY, ["rest.example"], NOW, LONG)
    own = tmp_path / "rest.p12"
    own.write_bytes(pkcs12_of(other, "hush"))
    own.chmod(0o600)
    texts = {**shared, "security.ssl.rest.keystore": str(own), "security.ssl.rest.keystore-password": "hush"}
    inside, rest = internal_tls(of(texts)).get(), rest_server_tls(of(texts)).get()
    assert rest.credentials is not None
    assert inside.credentials is not None
    assert rest.credentials.certificate == other.certificate
    assert inside.credentials.certificate != other.certificate
    assert rest.trusted == (), "clients need no certificate"
    assert rest_client_tls(of(texts)).get().credentials is None
    texts["security.ssl.rest.authentication-enabled"] = "true"
    assert rest_server_tls(of(texts)).get().trusted == AUTHORITY.chain
    client = rest_client_tls(of(texts)).get().credentials
    assert client is not None
    assert client.certificate == other.certificate


def test_a_password_that_is_another_is_said_without_it(tmp_path: Path) -> None:
    file = tmp_path / "own.p12"
    file.write_bytes(pkcs12_of(issue(AUTHORITY, [], NOW, LONG), "hush"))
    texts = {**stores(tmp_path), "security.ssl.internal.keystore": str(file), "security.ssl.keystore-password": "wrong"}
    with pytest.raises(ConfigurationError, match="own.p12: its password is not the one that is set") as told:
        internal_tls(of(texts))
    assert "wrong" not in told.value.message


def test_pins_that_are_no_fingerprints_are_refused_with_their_key(tmp_path: Path) -> None:
    texts = {**stores(tmp_path), "security.ssl.internal.cert.fingerprint": "AB:CD"}
    with pytest.raises(
        ConfigurationError, match=r"bad value of security\.ssl\.internal\.cert\.fingerprint: 'AB:CD' is no"
    ):
        internal_tls(of(texts))


@pytest.mark.parametrize(
    ("validity", "mode", "warning"),
    [
        (LONG, 0o600, ""),
        (LONG, 0o640, "other users of this machine can read the keystore"),
        (timedelta(days=20), 0o600, "expires at"),
        (timedelta(hours=1), 0o600, "has expired at"),
    ],
    ids=["good", "open", "expires soon", "expired"],
)
def test_what_is_about_to_go_wrong_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, validity: timedelta, mode: int, warning: str
) -> None:
    internal_tls(of(stores(tmp_path, validity, mode)))
    assert [record.message for record in caplog.records if warning not in record.message] == []
    assert bool(caplog.records) is bool(warning)
