"""The TLS settings of a configuration, as certificates that are reread when their files change.

    internal_tls      gRPC, data and control connections: a certificate at both ends
    rest_server_tls   the REST ports, and whether their clients need a certificate
    rest_client_tls   a process of the cluster that asks another one's REST port

Whether each is switched on, the caller looks. Errors name the key, in the words of Flink's ``SSLUtils``.
"""

from __future__ import annotations

import contextlib
import logging
import stat
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import SecurityOptions
from tidegate.model.options.option import ConfigOption
from tidegate.security.expiry import EXPIRIES
from tidegate.security.handshakes import parse_pins
from tidegate.security.keystores import Credentials, Passwords, read_keystore, read_truststore
from tidegate.security.reloading import Reloaded
from tidegate.security.tls import Material

_Text = ConfigOption[str | None]

_log = logging.getLogger(__name__)


def internal_tls(configuration: Configuration) -> Reloaded[Material]:
    """Returns the certificates for connections inside the cluster. Raises ``ConfigurationError`` for a missing option and for unreadable files."""
    option = SecurityOptions
    keystore = _keystore(
        configuration,
        option.INTERNAL_KEYSTORE,
        option.INTERNAL_KEYSTORE_PASSWORD,
        option.INTERNAL_KEY_PASSWORD,
    )
    truststore = _truststore(configuration, option.INTERNAL_TRUSTSTORE, option.INTERNAL_TRUSTSTORE_PASSWORD)
    return _reloaded(keystore, truststore, _pins(configuration, option.INTERNAL_FINGERPRINT))


def rest_server_tls(configuration: Configuration) -> Reloaded[Material]:
    """Returns the certificates of REST ports. Raises ``ConfigurationError`` for a missing option and for unreadable files."""
    option = SecurityOptions
    keystore = _keystore(configuration, option.REST_KEYSTORE, option.REST_KEYSTORE_PASSWORD, option.REST_KEY_PASSWORD)
    if not configuration.get(option.REST_AUTHENTICATION_ENABLED):
        return _reloaded(keystore, None, frozenset())
    truststore = _truststore(configuration, option.REST_TRUSTSTORE, option.REST_TRUSTSTORE_PASSWORD)
    return _reloaded(keystore, truststore, frozenset())


def rest_client_tls(configuration: Configuration) -> Reloaded[Material]:
    """Returns the TLS certificates with which processes connect to the cluster's REST ports. Raises ``ConfigurationError`` for a missing option and for
    unreadable files.
    """
    option = SecurityOptions
    keystore = None
    if configuration.get(option.REST_AUTHENTICATION_ENABLED):
        keystore = _keystore(
            configuration, option.REST_KEYSTORE, option.REST_KEYSTORE_PASSWORD, option.REST_KEY_PASSWORD
        )
    truststore = _truststore(configuration, option.REST_TRUSTSTORE, option.REST_TRUSTSTORE_PASSWORD)
    return _reloaded(keystore, truststore, _pins(configuration, option.REST_FINGERPRINT))


_Keystore = tuple[Path, Passwords]
_Truststore = tuple[Path, str]


def _keystore(configuration: Configuration, file: _Text, password: _Text, key_password: _Text) -> _Keystore:
    path = _found(configuration, file, SecurityOptions.KEYSTORE)
    store = _either(configuration, password, SecurityOptions.KEYSTORE_PASSWORD)
    key = _either(configuration, key_password, SecurityOptions.KEY_PASSWORD)
    return Path(path), Passwords(store, key)


def _truststore(configuration: Configuration, file: _Text, password: _Text) -> _Truststore:
    path = _found(configuration, file, SecurityOptions.TRUSTSTORE)
    return Path(path), _either(configuration, password, SecurityOptions.TRUSTSTORE_PASSWORD)


def _either(configuration: Configuration, own: _Text, general: _Text) -> str:
    return configuration.get(own) or configuration.get(general) or ""


def _found(configuration: Configuration, own: _Text, general: _Text) -> str:
    found = _either(configuration, own, general)
    if not found:
        raise ConfigurationError(f"The config option {own.key} or {general.key} is missing.")
    return found


def _pins(configuration: Configuration, option: _Text) -> frozenset[bytes]:
    try:
        return parse_pins(configuration.get(option) or "")
    except ConfigurationError as error:
        raise ConfigurationError(f"bad value of {option.key}: {error.message}") from None


def _reloaded(keystore: _Keystore | None, truststore: _Truststore | None, pins: frozenset[bytes]) -> Reloaded[Material]:
    files = [found[0] for found in (keystore, truststore) if found is not None]
    return Reloaded(files, partial(_read, keystore, truststore, pins), _on_problem)


def _read(keystore: _Keystore | None, truststore: _Truststore | None, pins: frozenset[bytes]) -> Material:
    credentials: Credentials | None = None
    if keystore is not None:
        credentials = read_keystore(*keystore)
        _warn(keystore[0], credentials, datetime.now(UTC))
    return Material(credentials, () if truststore is None else read_truststore(*truststore), pins)


def _warn(path: Path, credentials: Credentials, now: datetime) -> None:
    with contextlib.suppress(OSError):  # it was there when it was read
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            _log.warning("other users of this machine can read the keystore %s; chmod 600 keeps its key", path)
    EXPIRIES.note(path, credentials.expires, now)


def _on_problem(error: ConfigurationError) -> None:
    _log.warning("%s; what was read before stays in use", error.message)
