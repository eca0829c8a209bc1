"""What a JobManager logs at its start about tokens of users and about signed programs."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.service.reporting.startup_log import describe_signing, plain_tokens
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


SIGNING, KEY_FILE = "tidegate.security.signing.enabled", "tidegate.security.signing.key-file"


@pytest.mark.parametrize(
    ("options", "is_signed", "said"),
    [
        ({}, True, "programs must be signed with the key of this process's user: jobs with others are refused"),
        (
            {KEY_FILE: "/k"},
            True,
            f"programs must be signed with a key of /k ({KEY_FILE}): jobs with others are refused",
        ),
        ({SIGNING: "false", KEY_FILE: "/k"}, False, f"programs are not signed: {SIGNING} is false"),
        (
            INSECURE,
            False,
            f"programs are not signed: with tidegate.security.insecure this takes a key for clients and processes ({KEY_FILE})",
        ),
        (
            TLS,
            False,
            f"programs are not signed: with security.ssl.internal.enabled this takes a key for clients and processes ({KEY_FILE})",
        ),
    ],
)
def test_whether_programs_must_be_signed_is_said(options: dict[str, str], is_signed: bool, said: str) -> None:
    assert describe_signing(Configuration.from_strings(options), is_signed=is_signed) == said
