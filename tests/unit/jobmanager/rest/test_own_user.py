"""An HTTP port at loopback serves the user whose process has it, and no other one of the machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tidegate.aio.http_server import serve_http
from tidegate.aio.local_users import LocalUsers, Place
from tidegate.jobmanager.rest.http.own_user import own_user_alone
from tidegate.jobmanager.rest.http.timeouts import runner_of
from tidegate.model.configuration import Configuration

pytestmark = pytest.mark.skipif(not LocalUsers.can_tell(), reason="the kernel of this system has no /proc/net/tcp")


class Told(LocalUsers):
    """A kernel that gives one answer; counts how often it is asked."""

    def __init__(self, user: int | None) -> None:
        super().__init__()
        self.user, self.requests = user, 0

    async def of(self, client: Place, server: Place) -> int | None:
        self.requests += 1
        return self.user


class Silent(LocalUsers):
    async def of(self, client: Place, server: Place) -> int | None:
        raise PermissionError(13, "Permission denied", "/proc/net/tcp")


@asynccontextmanager
async def served(
    users: LocalUsers | None, asks_users: bool = False, has_https: bool = True, **settings: str
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    configuration = Configuration.from_strings({key.replace("_", "."): text for key, text in settings.items()})
    first = own_user_alone(configuration, "127.0.0.1", asks_users=asks_users, has_https=has_https, local_users=users)
    application = web.Application(middlewares=first)
    application.router.add_route("*", "/", answer)
    runner = runner_of(application)
    await runner.setup()
    try:
        port = await serve_http(runner, "127.0.0.1", 0, "a port")
        async with aiohttp.ClientSession() as session:
            yield session, f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


async def test_the_user_itself_comes_in() -> None:
    async with served(None) as (session, url), session.get(url) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("users", "why"),
    [
        (Told(4711), "the connection is of the user with the id 4711"),
        (Told(None), "of a user that the kernel does not tell"),
        (Silent(), "Permission denied"),
    ],
    ids=["another user", "nobody", "no answer"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nobody_else_does(users: LocalUsers, why: str, method: str) -> None:
    async with served(users) as (session, url), session.request(method, url, data=b"x" * 10) as answer:
        assert answer.status == 403
        assert why in (await answer.json())["errors"][0]


async def test_root_comes_in() -> None:
    async with served(Told(0)) as (session, url), session.get(url) as answer:
        assert answer.status == 200


async def test_the_kernel_is_asked_once_for_a_connection() -> None:
    users = Told(os.geteuid())
    async with served(users) as (session, url):
        for _ in range(3):
            async with session.get(url) as answer:
                await answer.read()
    assert users.requests == 1


CERTIFICATES = {"security_ssl_rest_enabled": "true", "security_ssl_rest_authentication-enabled": "true"}


@pytest.mark.parametrize(
    ("asks_users", "settings"),
    [(True, {}), (False, {"tidegate_security_insecure": "true"}), (False, CERTIFICATES)],
    ids=["tokens", "insecure", "certificates"],
)
async def test_it_is_not_asked_where_something_else_says_who_may(asks_users: bool, settings: dict[str, str]) -> None:
    async with served(Told(4711), asks_users, True, **settings) as (session, url), session.get(url) as answer:
        assert answer.status == 200


async def test_certificates_of_the_rest_port_let_nobody_in_at_a_port_without_https() -> None:
    """As the history server's, which has HTTPS by an option of its own."""
    async with served(Told(4711), False, False, **CERTIFICATES) as (session, url), session.get(url) as answer:
        assert answer.status == 403
