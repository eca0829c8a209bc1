"""Trusts the users whom a proxy in front of REST has authenticated, by OIDC for instance: it sends them and their groups in headers, and proves that it
is the proxy.

    request ─▶ no header of the proxy's ─▶ nothing is said of a user
            ─▶ its proofs: a certificate with a fingerprint, a header with a secret, both where both are configured ─▶ user, groups ─▶ role
            ╰▶ without them: refused

A header that any caller could send is never believed, and never passed over in silence either.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, NotAuthenticated, NotPermitted
from tidegate.model.masking import SECRETS
from tidegate.model.options import SecurityOptions
from tidegate.security.handshakes import parse_pins
from tidegate.security.reloading import Reloaded
from tidegate.security.user_file import read_private
from tidegate.security.users import Role, User

LEAST_SECRET = 16
"""The fewest characters of the proxy's secret. Chosen: `openssl rand -hex 32` makes 64."""
_MAX_NAME = 256
"""The most characters of a user's name; OIDC has at most 255 for a subject."""

ValuesOf = Callable[[str], Sequence[str]]
"""Returns all values of a request's header, whatever the case of its name."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """The proxy that may name users. ``fingerprints``: SHA-256 digests of its certificates; none where only the secret counts. ``secret``: ``None``
    where only certificates count. ``roles``: by group."""

    fingerprints: frozenset[bytes]
    secret: Reloaded[str] | None
    secret_header: str
    user_header: str
    groups_header: str
    roles: Mapping[str, Role]

    @staticmethod
    def of(configuration: Configuration) -> TrustedProxy | None:
        """Creates the trusted proxy of a configuration; ``None`` without one. Raises ``ConfigurationError``."""
        option = SecurityOptions
        get = configuration.get
        fingerprints, path = parse_pins(get(option.PROXY_FINGERPRINT) or ""), get(option.PROXY_SECRET_FILE)
        pairs = get(option.PROXY_ROLES)
        if not fingerprints and not path:
            return None
        if not get(option.USERS_FILE):
            raise ConfigurationError(
                f"a proxy is trusted, and {option.USERS_FILE.key} is not set, so everyone may do everything; name a file, which may be empty"
            )
        if fingerprints and not (get(option.REST_ENABLED) and get(option.REST_AUTHENTICATION_ENABLED)):
            raise ConfigurationError(
                f"{option.PROXY_FINGERPRINT.key} needs {option.REST_ENABLED.key} and {option.REST_AUTHENTICATION_ENABLED.key}: no client shows a "
                "certificate otherwise"
            )
        return TrustedProxy(
            fingerprints,
            None if not path else Reloaded([Path(path)], lambda: _read_secret(Path(path)), _on_problem),
            get(option.PROXY_SECRET_HEADER),
            get(option.PROXY_USER_HEADER),
            get(option.PROXY_GROUPS_HEADER),
            _roles(pairs or ()),
        )

    def user(self, values_of: ValuesOf, certificate: bytes | None) -> User | None:
        """Returns the user whom the proxy names; ``None`` for a request without the proxy's headers. ``certificate``: of the caller, DER. Raises
        ``NotAuthenticated``, also for headers of the proxy from another caller, and ``NotPermitted`` for a user without a group that has a role."""
        names, groups = values_of(self.user_header), values_of(self.groups_header)
        secrets = values_of(self.secret_header) if self.secret is not None else ()
        if not (names or groups or secrets):
            return None
        self._check_proofs(secrets, certificate)
        if not names and not groups:
            return None
        name, listed = self._only(self.user_header, names), self._only(self.groups_header, groups or ("",))
        if not name or len(name) > _MAX_NAME or not name.isprintable():
            raise NotAuthenticated(f"{self.user_header} of the proxy is not a valid name of a user")
        if "," in name:
            raise NotAuthenticated(f"{self.user_header} of the proxy has several values")
        roles = [self.roles[group] for group in map(str.strip, listed.split(",")) if group in self.roles]
        if not roles:
            raise NotPermitted(f"{name} is in none of the groups of {SecurityOptions.PROXY_ROLES.key}")
        order = list(Role)
        return User(name, max(roles, key=order.index), "a proxy" if not certificate else f"proxy {_hex(certificate)}")

    def _check_proofs(self, secrets: Sequence[str], certificate: bytes | None) -> None:
        if self.fingerprints and (certificate is None or hashlib.sha256(certificate).digest() not in self.fingerprints):
            raise NotAuthenticated(
                f"{self.user_header} and {self.groups_header} are accepted only from the proxy, and the certificate of this request is not the proxy's"
            )
        if self.secret is None:
            return
        if not secrets:
            raise NotAuthenticated(
                f"{self.user_header} and {self.groups_header} are accepted only from the proxy, which also sends {self.secret_header}"
            )
        given = self._only(self.secret_header, secrets)
        if not hmac.compare_digest(_bytes(given), _bytes(self.secret.get())):
            raise NotAuthenticated(f"{self.secret_header} is not that of the proxy")

    @staticmethod
    def _only(header: str, values: Sequence[str]) -> str:
        if len(values) != 1:
            raise NotAuthenticated(f"{header} of the proxy has {len(values) or 'no'} values")
        return values[0].strip()


def _roles(pairs: Sequence[str]) -> dict[str, Role]:
    """Parses the roles of groups, ``group:role``. Raises ``ConfigurationError`` where there is none, or an invalid one."""
    key = SecurityOptions.PROXY_ROLES.key
    if not pairs:
        raise ConfigurationError(
            f"a proxy is trusted, and no group has a role: set {key}, such as `admins:deploy;staff:view`"
        )
    found: dict[str, Role] = {}
    for pair in pairs:
        group, _, role = (part.strip() for part in pair.rpartition(":"))
        if not group or "," in group or role not in (one.value for one in Role):
            raise ConfigurationError(
                f"{key}: {pair!r} is not group:role with one of {', '.join(one.value for one in Role)}"
            )
        if found.setdefault(group, Role(role)) is not Role(role):
            raise ConfigurationError(f"{key}: {group} has two roles; give it one")
    return found


def _read_secret(file: Path) -> str:
    """Reads the proxy's secret. Raises ``ConfigurationError``."""
    secret = read_private(file, SecurityOptions.PROXY_SECRET_FILE.key)
    if len(secret) < LEAST_SECRET:
        raise ConfigurationError(f"{file}: the secret of a proxy has at least {LEAST_SECRET} characters")
    SECRETS.learn_values([secret])
    return secret


def _on_problem(error: ConfigurationError) -> None:
    _log.error("%s; the secret that was read before stays in use", error.message)


def _hex(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
