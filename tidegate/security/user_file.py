"""Reads and writes the file of users, for the servers that reread it when it changes, and for ``tidegate security``."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import SecurityOptions
from tidegate.security.reloading import Reloaded
from tidegate.security.users import Credential, Role, User, Users, credential_of_token, make_token, parse_users

_log = logging.getLogger(__name__)


def users_of(configuration: Configuration) -> Reloaded[Users] | None:
    """Returns the users of a configuration; ``None`` where each caller may do everything. Raises ``ConfigurationError``."""
    path = configuration.get(SecurityOptions.USERS_FILE)
    if not path:
        return None
    file = Path(path)
    return Reloaded([file], lambda: Users(read_users(file)), _on_problem)


def read_users(file: Path) -> tuple[Credential, ...]:
    """Reads a file of users. Raises ``ConfigurationError`` for one that cannot be read, that others may write, or that has an invalid line."""
    try:
        with file.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigurationError(f"{file}: other users of this machine may write it; chmod 600 it")
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(
            f"cannot read the users of {SecurityOptions.USERS_FILE.key}, {file}: {reason}"
        ) from None
    return parse_users(text, str(file))


def add_user(file: Path, name: str, role: Role) -> str:
    """Adds a credential with a new token to a file of users, and returns the token. Raises ``ConfigurationError``."""
    known = _known(file)
    if any(one.user.name == name and one.user.role is not role for one in known):
        raise ConfigurationError(f"{name} has another role in {file}; remove it first")
    token = make_token()
    _write(file, (*known, credential_of_token(name, role, token)))
    return token


def remove_user(file: Path, name: str) -> int:
    """Removes a user from a file; returns how many credentials were removed. Raises ``ConfigurationError``."""
    known = read_users(file)
    left = [one for one in known if one.user.name != name]
    if len(left) < len(known):
        _write(file, left)
    return len(known) - len(left)


def list_users(file: Path) -> list[User]:
    """Returns the users of a file. Raises ``ConfigurationError``."""
    return list(dict.fromkeys(one.user for one in read_users(file)))


def _known(file: Path) -> tuple[Credential, ...]:
    return read_users(file) if file.exists() else ()


def _write(file: Path, credentials: tuple[Credential, ...] | list[Credential]) -> None:
    """Writes the file of users atomically, readable by its owner alone."""
    new = file.with_name(f"{file.name}.new")
    text = "".join(f"{one.line()}\n" for one in credentials)
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from None


def token_of(configuration: Configuration) -> str | None:
    """Returns the token that a client of the cluster sends; ``None`` without one. Raises ``ConfigurationError`` for a file that cannot be read, or that
    others can read."""
    token = configuration.get(SecurityOptions.TOKEN)
    path = configuration.get(SecurityOptions.TOKEN_FILE)
    if token or not path:
        return token or None
    return read_private(Path(path), SecurityOptions.TOKEN_FILE.key) or None


def read_private(file: Path, key: str) -> str:
    """Reads the secret in the file that an option names. Raises ``ConfigurationError`` for one that cannot be read, or that others can read."""
    try:
        with file.open(encoding="ascii") as opened:
            if os.fstat(opened.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigurationError(f"{file}: other users of this machine can read this secret; chmod 600 it")
            return opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise ConfigurationError(f"cannot read {key}, {file}: {reason}") from None


def _on_problem(error: ConfigurationError) -> None:
    _log.error("%s; the users that were read before stay in use", error.message)
