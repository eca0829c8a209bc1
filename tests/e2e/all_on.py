"""Clusters with everything of security switched on, instead of the defaults: TLS at both ends of every connection, data by TCP, commands of a user with a
token, and programs that are signed by a key from a file. ``TIDEGATE_TESTS_SECURED=1`` asks for it (``.ci/secured``)."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.certificates import make_authority, write_stores
from tidegate.aio.settings import variable_of
from tidegate.model.options import SecurityOptions
from tidegate.security.user_file import add_user
from tidegate.security.users import Role

IS_ASKED = os.environ.get("TIDEGATE_TESTS_SECURED") == "1"
_LIFE = timedelta(days=1)


@dataclass(frozen=True)
class Security:
    """``settings``: of all processes; ``of_commands``: variables of the environment of commands; ``token``: of a user who may do everything, empty where there
    are none."""

    settings: dict[str, str] = field(default_factory=dict)
    of_commands: dict[str, str] = field(default_factory=dict)
    token: str = ""


def security_of(directory: Path) -> Security:
    """Returns what a cluster in a directory has beside its own settings: nothing with the defaults."""
    if not IS_ASKED:
        return Security()
    directory.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    authority = make_authority(now, _LIFE)
    keystore, truststore = write_stores(directory / "stores", authority, authority, now, _LIFE)
    users = directory / "users"
    token = add_user(users, "tester", Role.DEPLOY)
    key = directory / "signing"
    key.write_text(f"{secrets.token_hex(32)}\n", encoding="utf-8")
    key.chmod(0o600)
    settings = {
        SecurityOptions.SIGNING_KEY_FILE.key: str(key),
        "security.ssl.internal.enabled": "true",
        "security.ssl.rest.enabled": "true",
        "security.ssl.keystore": str(keystore),
        "security.ssl.truststore": str(truststore),
        SecurityOptions.USERS_FILE.key: str(users),
        "taskmanager.bind-host": "0.0.0.0",
        "taskmanager.host": "127.0.0.1",
    }
    return Security(settings, {variable_of(SecurityOptions.TOKEN.key): token}, token)
