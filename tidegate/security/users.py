"""Users of a cluster with their roles, identified by a token or a certificate.

A file of users has one line for each way to know one; of a token it holds the digest alone:

    # name  role     credential
    ada     operate  sha256:5e88...
    ci      deploy   cert:9f86...          SHA-256 fingerprint of a client's certificate

Two lines of one name, of an old token and a new one say, have the same role.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tidegate.model.errors import ConfigurationError

PREFIX = "tgu_"
"""The prefix of tokens, by which people and repository scanners recognize them."""
_TOKEN_BYTES = 32
"""The bytes of a token: 256 random bits, so that no digest can be found by trial and needs neither a salt nor a slow hash."""
MAX_TOKEN = 512
"""The most characters of a token; a longer one is refused unread."""
_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OF_TOKEN, _OF_CERTIFICATE = "sha256", "cert"


class Role(Enum):
    """The rights of a user; each role includes those before it."""

    VIEW = "view"
    """Shows jobs, checkpoints, metrics and configuration, but no state, logs or standard output."""
    DATA = "data"
    """Shows data of users' functions too: state, logs, standard output, stacks of threads."""
    OPERATE = "operate"
    """Takes checkpoints and savepoints, cancels, stops and rescales jobs."""
    DEPLOY = "deploy"
    """Uploads and runs programs, and stops the cluster."""

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


Required: TypeAlias = Role | None
"""The role that a call requires; ``None``: only processes of the cluster may call it, whatever the role of a user."""


@dataclass(frozen=True, slots=True)
class User:
    """A user with a role. ``via``: the proxy that authenticated the user; empty for a token or certificate of the user."""

    name: str
    role: Role
    via: str = ""


@dataclass(frozen=True, slots=True)
class Credential:
    """One line of a file of users. ``kind``: ``sha256`` of a token or ``cert``; ``digest``: 64 hex digits."""

    user: User
    kind: str
    digest: str

    def line(self) -> str:
        return f"{self.user.name} {self.user.role.value} {self.kind}:{self.digest}"


class Users:
    """The known users, found by their tokens and certificates."""

    def __init__(self, credentials: Iterable[Credential]) -> None:
        self._credentials = tuple(credentials)

    def of_token(self, token: str) -> User | None:
        """Returns the user with a token; ``None`` for an unknown one. Takes the same time for every known digest."""
        return self._find(_OF_TOKEN, digest_of(token)) if 0 < len(token) <= MAX_TOKEN else None

    def of_certificate(self, der: bytes) -> User | None:
        return self._find(_OF_CERTIFICATE, hashlib.sha256(der).hexdigest())

    def _find(self, kind: str, digest: str) -> User | None:
        found = None
        for one in self._credentials:
            if hmac.compare_digest(one.digest, digest) and one.kind == kind:
                found = one.user
        return found


def make_token() -> str:
    return PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> str:
    """Returns the SHA-256 digest of a token, which may be any text: what HTTP decodes may hold surrogates."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def credential_of_token(name: str, role: Role, token: str) -> Credential:
    """Creates the credential of a token. Raises ``ConfigurationError`` for a name that the file cannot hold."""
    if _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{name!r} is not a valid user name, which has up to 64 letters, digits, and any of . _ @ -"
        )
    return Credential(User(name, role), _OF_TOKEN, digest_of(token))


def parse_users(text: str, place: str) -> tuple[Credential, ...]:
    """Parses a file of users. Raises ``ConfigurationError`` that lists each invalid line; ``place`` names the file."""
    found: list[Credential] = []
    problems: list[str] = []
    roles: dict[str, Role] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            one = _parsed(words)
            if roles.setdefault(one.user.name, one.user.role) is not one.user.role:
                raise ValueError(f"{one.user.name} has another role above; give each user one role")
        except ValueError as error:
            problems.append(f"{place} line {number}: {error}")
        else:
            found.append(one)
    if problems:
        raise ConfigurationError("\n".join(problems))
    return tuple(found)


def _parsed(words: list[str]) -> Credential:
    if len(words) != 3:
        raise ValueError("expected a name, a role and a credential, with spaces between them")
    name, role, credential = words
    kind, _, digest = credential.partition(":")
    digest = digest.replace(":", "").lower()
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a valid name, which has up to 64 letters, digits, and any of . _ @ -")
    if role not in (one.value for one in Role):
        raise ValueError(f"{role!r} is none of the roles {', '.join(one.value for one in Role)}")
    if kind not in (_OF_TOKEN, _OF_CERTIFICATE) or _DIGEST.fullmatch(digest) is None:
        raise ValueError("a credential is sha256: or cert:, and 64 hex digits")
    return Credential(User(name, Role(role)), kind, digest)
