"""What a JobManager with users warns of when it starts."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.service.reporting.startup_log import plain_tokens
from tidegate.model.configuration import Configuration

USERS = "tidegate.security.users.file"
ANYWHERE = {"jobmanager.bind-host": "0.0.0.0", "rest.bind-address": "0.0.0.0"}
INSECURE = {"tidegate.security.insecure": "true"}
TLS = {"security.ssl.internal.enabled": "true", "security.ssl.rest.enabled": "true"}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (ANYWHERE, 0),
        ({USERS: "/users"}, 0),
        ({USERS: "/users", **INSECURE}, 1),
        ({USERS: "/users", **INSECURE, **ANYWHERE}, 3),
        ({USERS: "/users", **ANYWHERE, **TLS}, 0),
    ],
)
def test_tokens_in_plain_text_are_warned_of(options: dict[str, str], count: int) -> None:
    assert len(plain_tokens(Configuration.from_strings(options))) == count
