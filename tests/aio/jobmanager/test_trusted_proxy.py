"""A JobManager behind a proxy that signs users in: what is believed, for each role, and what stands in the audit log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.aio.jobmanager.callers import audit_files, bearer
from tests.aio.jobmanager.cluster import JOB
from tests.aio.jobmanager.test_users import ask, with_users
from tidegate.model.errors import ConfigurationError
from tidegate.security.users import Role

SECRET = "0123456789abcdef0123"
OF_PROXY = {"X-Tidegate-Proxy-Secret": SECRET}
ROUTES = {
    Role.VIEW: ("GET", "/overview"),
    Role.DATA: ("GET", "/jobmanager/thread-dump"),
    Role.OPERATE: ("PATCH", f"/jobs/{JOB}"),
    Role.DEPLOY: ("POST", f"/jars/{JOB}/run"),
}


def options(directory: Path) -> dict[str, str]:
    file = directory / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return {
        "tidegate_security_proxy_secret__file": str(file),
        "tidegate_security_proxy_roles": ";".join(f"of-{role.value}:{role.value}" for role in Role),
    }


def said_of(name: str, groups: str) -> dict[str, str]:
    return {"X-Forwarded-User": name, "X-Forwarded-Groups": groups}


async def test_each_role_of_a_group_may_what_it_may(tmp_path: Path) -> None:
    async with with_users(tmp_path, **options(tmp_path)) as (listening, _, _):
        for role in Role:
            for needed, (method, path) in ROUTES.items():
                headers = {**OF_PROXY, **said_of("ada", f"others,of-{role.value}")}
                status, said, _ = await ask(listening.rest_port, method, path, headers)
                if role.includes(needed):
                    assert status not in (401, 403), (role, path, said)
                else:
                    assert status == 403, (role, path)
                    assert f"ada has the role {role.value}" in said["errors"][0]


async def test_headers_of_somebody_else_are_refused_whatever_else_the_request_has(tmp_path: Path) -> None:
    async with with_users(tmp_path, **options(tmp_path)) as (listening, tokens, _):
        port, token = listening.rest_port, bearer(tokens[Role.DEPLOY])
        admin = said_of("ada", "of-deploy")
        for headers in (
            admin,
            {**admin, **token},
            {**admin, "X-Tidegate-Proxy-Secret": "wrong"},
            {**token, "X-Forwarded-Groups": "x"},
        ):
            status, said, answered = await ask(port, "GET", "/overview", headers)
            assert (status, list(said)) == (401, ["errors"]), headers
            assert answered["www-authenticate"]
            assert (await ask(port, "GET", "/web/session", headers))[1] == {"users": True}
        assert (await ask(port, "GET", "/overview", token))[0] == 200
        assert (await ask(port, "GET", "/overview", OF_PROXY))[0] == 401, "the proxy itself is no user"
        assert (await ask(port, "GET", "/overview", {**OF_PROXY, **token}))[0] == 200


async def test_a_user_of_the_proxy_without_a_role_is_known_and_refused(tmp_path: Path) -> None:
    async with with_users(tmp_path, **options(tmp_path)) as (listening, _, _):
        for headers in (said_of("ada", "strangers"), {"X-Forwarded-User": "ada"}):
            status, said, _ = await ask(listening.rest_port, "GET", "/overview", {**OF_PROXY, **headers})
            assert (status, "ada is in none of the groups" in said["errors"][0]) == (403, True)


async def test_the_page_knows_who_is_signed_in(tmp_path: Path) -> None:
    async with with_users(tmp_path, **options(tmp_path)) as (listening, _, _):
        headers = {**OF_PROXY, **said_of("ada", "of-operate"), "Cookie": "tidegate-token=tgu_of_before"}
        said = (await ask(listening.rest_port, "GET", "/web/session", headers))[1]
        assert said == {"users": True, "name": "ada", "role": "operate"}
        for headers in (OF_PROXY | said_of("ada", "of-view"),):
            assert (await ask(listening.rest_port, "GET", "/web/settings", headers))[0] == 200


async def test_the_audit_log_tells_the_user_and_the_proxy(tmp_path: Path) -> None:
    async with with_users(tmp_path, **options(tmp_path)) as (listening, _, _):
        await ask(listening.rest_port, "PATCH", f"/jobs/{JOB}", {**OF_PROXY, **said_of("ada", "of-operate")})
        await ask(listening.rest_port, "PATCH", f"/jobs/{JOB}", said_of("eve", "of-operate"))
        await ask(listening.rest_port, "PATCH", f"/jobs/{JOB}", {**OF_PROXY, **said_of("bob", "of-nothing")})
    text = audit_files(tmp_path)[0].read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(one["user"], one["role"], one.get("via")) for one in lines] == [
        ("ada", "operate", "a proxy"),
        (None, None, None),
        (None, None, None),
    ]
    assert "accepted only from the proxy" in lines[1]["result"]
    assert "bob is in none of the groups" in lines[2]["result"]
    assert SECRET not in text


async def test_a_proxy_without_users_keeps_the_process_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="users.file is not set"):
        async with with_users(tmp_path, **options(tmp_path), tidegate_security_users_file=""):
            pass
