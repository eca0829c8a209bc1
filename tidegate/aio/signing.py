"""The configured keys by which programs and manifests are signed."""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate.aio.homes import home_of
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import SecurityOptions
from tidegate.security.own import own_key
from tidegate.security.reloading import Reloaded
from tidegate.security.signing import Signing, SigningNow, key_of_own, key_of_text
from tidegate.security.user_file import read_private

LEAST_KEY = 32
"""The fewest characters of a signing key. Chosen: `openssl rand -hex 32` makes 64."""

_log = logging.getLogger(__name__)


def signing_of(configuration: Configuration) -> SigningNow | None:
    """Returns the signing of programs; ``None`` when they are not signed. Raises ``ConfigurationError`` for keys that are missing or cannot be read,
    and ``ExternalError`` for a key of the user that cannot be used."""
    option = SecurityOptions
    wanted, path = configuration.get(option.SIGNING_ENABLED), configuration.get(option.SIGNING_KEY_FILE)
    cluster = configuration.get(option.SIGNING_CLUSTER) or ""
    if wanted is False:
        return None
    if path:
        file = Path(path).expanduser()
        return Reloaded([file], lambda: Signing(_read_keys(file), cluster), _on_problem).get
    if not configuration.get(option.INTERNAL_ENABLED) and not configuration.get(option.INSECURE):
        signing = Signing((key_of_own(own_key(home_of(configuration)).key),), cluster)
        return lambda: signing
    if wanted:
        raise ConfigurationError(
            f"{option.SIGNING_ENABLED.key} is true, and {option.SIGNING_KEY_FILE.key} is not set: with {option.INTERNAL_ENABLED.key} or "
            f"{option.INSECURE.key} there is no key of the user's; make one with `openssl rand -hex 32`, and give it to clients and processes"
        )
    return None


def signing_of_manifests(configuration: Configuration) -> SigningNow | None:
    """Returns the signing of checkpoint manifests; ``None`` when they are not signed, and any is read. Raises as ``signing_of`` does, and
    ``ConfigurationError`` without a key."""
    if not configuration.get(SecurityOptions.SIGNING_MANIFESTS):
        return None
    found = signing_of(configuration)
    if found is None:
        raise ConfigurationError(
            f"{SecurityOptions.SIGNING_MANIFESTS.key} is true, and there is no key: set {SecurityOptions.SIGNING_KEY_FILE.key}, to a file that "
            "`openssl rand -hex 32` has made, in the configuration of all processes"
        )
    return found


def _read_keys(file: Path) -> tuple[bytes, ...]:
    key = SecurityOptions.SIGNING_KEY_FILE.key
    lines = [line.strip() for line in read_private(file, key).splitlines() if line.strip()]
    if not lines or min(map(len, lines)) < LEAST_KEY:
        raise ConfigurationError(
            f"{file} of {key}: each line is a key of at least {LEAST_KEY} characters, such as `openssl rand -hex 32` prints"
        )
    return tuple(map(key_of_text, lines))


def _on_problem(error: ConfigurationError) -> None:
    _log.error("%s; the keys that were read before stay in use", error.message)
