"""Callers of a process by HTTP that has users: without a token, with one that is none, and a user of each role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.aio.jobmanager.cluster import JOB
from tidegate.security.user_file import add_user
from tidegate.security.users import Role


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


NOBODY: tuple[Mapping[str, str], ...] = (
    {},
    bearer("tgu_wrong"),
    {"Cookie": "tidegate-token=tgu_wrong"},
    {"Authorization": "Basic eDp5"},
)


def one_of_each(file: Path) -> dict[Role, str]:
    """The token of a user ``the-<role>`` for each role, all in a file of users."""
    return {role: add_user(file, f"the-{role.value}", role) for role in Role}


def audit_files(directory: Path) -> list[Path]:
    return list(directory.glob("*.audit"))


def filled(pattern: str) -> str:
    """A path of a pattern of the REST API."""
    return re.sub(r":\w+", lambda found: JOB if "id" in found[0] else "0", pattern)


async def answers_by_role(
    session: aiohttp.ClientSession, path: str, needed: Role, tokens: Mapping[Role, str]
) -> dict[Role, int]:
    """Asks for a path as all of these. Returns the statuses for those who may; all others are refused, which is checked."""
    for headers in NOBODY:
        async with session.get(path, headers=headers) as answer:
            assert answer.status == 401, (path, headers, await answer.text())
            assert answer.headers["www-authenticate"].startswith('Bearer realm="tidegate"')
    found = {}
    for role, token in tokens.items():
        async with session.get(path, headers=bearer(token)) as answer:
            said: Any = await answer.text()
            if role.includes(needed):
                assert answer.status not in (401, 403), (path, role, said)
                found[role] = answer.status
            else:
                assert answer.status == 403, (path, role, said)
                assert f"the-{role.value} has the role {role.value}; " in said
                assert f"needs {needed.value}" in said
    return found
