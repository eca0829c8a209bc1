"""A REST port by HTTPS over loopback: who is answered, and renewal."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from tests import certificates
from tests.certificates import make_authority
from tidegate.aio.http_server import serve_http
from tidegate.aio.https import https_client, https_server, rest_url
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.keystores import Credentials, fingerprint_of

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
LIMIT_S = 20
_PROVES = {"security.ssl.rest.authentication-enabled": "true"}

AUTHORITY, STRANGER = make_authority(NOW, DAY), make_authority(NOW, DAY)


def write_stores(
    directory: Path, authority: Credentials = AUTHORITY, trusted: Credentials = AUTHORITY
) -> dict[str, str]:
    """Writes a keystore for the host localhost and a truststore; returns the options for them."""
    keystore, truststore = certificates.write_stores(directory, authority, trusted, NOW, DAY)
    return {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": str(keystore),
        "security.ssl.truststore": str(truststore),
    }


@asynccontextmanager
async def served(options: Mapping[str, str]) -> AsyncIterator[int]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    tls = https_server(Configuration.from_strings(options), "127.0.0.1")
    try:
        yield await serve_http(runner, "127.0.0.1", 0, "a port", tls=tls)
    finally:
        await runner.cleanup()


async def ask(port: int, options: Mapping[str, str], host: str = "127.0.0.1") -> str:
    """Returns the answer, or why there is none."""
    configuration = Configuration.from_strings(options)

    def blocking() -> str:
        try:
            url = rest_url(configuration, host, port)
            with urllib.request.urlopen(url, timeout=LIMIT_S, context=https_client(configuration)) as answer:
                return str(answer.read().decode())
        except OSError as error:
            return str(getattr(error, "reason", None) or error)

    return await asyncio.to_thread(blocking)


async def test_who_trusts_the_authority_is_answered_and_proves_nothing(tmp_path: Path) -> None:
    options = write_stores(tmp_path)
    client = {key: text for key, text in options.items() if "keystore" not in key}
    async with served(options) as port:
        assert await ask(port, client) == "hello"
        assert "CERTIFICATE_VERIFY_FAILED" in await ask(port, write_stores(tmp_path / "other", trusted=STRANGER))
        assert await ask(port, {}) != "hello", "by plain HTTP"


async def test_the_host_is_compared_where_that_is_asked_for(tmp_path: Path) -> None:
    options = {**write_stores(tmp_path), "security.ssl.rest.verify-hostname": "true"}
    async with served(options) as port:
        assert await ask(port, options, "localhost") == "hello"
        assert "IP address mismatch" in await ask(port, options, "127.0.0.1")


async def test_clients_prove_themselves_where_that_is_asked_for(tmp_path: Path) -> None:
    options = {**write_stores(tmp_path), "security.ssl.rest.authentication-enabled": "true"}
    strange = write_stores(tmp_path / "strange", authority=STRANGER)
    async with served(options) as port:
        assert await ask(port, options) == "hello"
        assert await ask(port, {**options, "security.ssl.rest.authentication-enabled": "false"}) != "hello"
        assert await ask(port, {**strange, "security.ssl.rest.authentication-enabled": "true"}) != "hello"


async def test_why_there_is_no_connection_is_logged_with_the_peer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**write_stores(tmp_path), "security.ssl.rest.authentication-enabled": "true"}
    strange = {**write_stores(tmp_path / "strange", authority=STRANGER), **_PROVES}
    distrusting = {**write_stores(tmp_path / "distrusting", trusted=STRANGER), **_PROVES}
    without = {**options, "security.ssl.rest.authentication-enabled": "false"}
    async with served(options) as port:
        for client in (strange, distrusting, without, {}):
            assert await ask(port, client) != "hello"
        assert await ask(port, options) == "hello"
    said = [record.getMessage() for record in caplog.records if record.name == "tidegate.aio.refused_handshakes"]
    peers = [re.fullmatch(r"a port: no connection by TLS with 127\.0\.0\.1:\d+: (.+)", line) for line in said]
    assert [found and found[1] for found in peers] == [
        "its certificate is of an authority that is not in the truststore",
        "it does not have the authority of our certificate in its truststore",
        "it has no certificate",
        "it speaks no TLS, but plain HTTP",
    ]
    assert {record.levelname for record in caplog.records if record.getMessage() in said} == {"WARNING"}


async def test_renewed_certificates_and_authorities_are_taken_by_the_next_connection(tmp_path: Path) -> None:
    options = {**write_stores(tmp_path / "own"), "security.ssl.rest.authentication-enabled": "true"}
    other = {**write_stores(tmp_path / "b", STRANGER, STRANGER), "security.ssl.rest.authentication-enabled": "true"}
    async with served(options) as port:
        assert await ask(port, other) != "hello"
        write_stores(tmp_path / "own", STRANGER, STRANGER)
        assert await ask(port, other) == "hello"


async def test_pins_narrow_whom_a_client_believes(tmp_path: Path) -> None:
    options = write_stores(tmp_path)
    pinned = {**options, "security.ssl.rest.cert.fingerprint": fingerprint_of(AUTHORITY.certificate)}
    async with served(options) as port:
        assert await ask(port, pinned) == "hello"
    with pytest.raises(ConfigurationError, match="put the certificate that is pinned into the truststore"):
        https_client(Configuration.from_strings({**options, "security.ssl.rest.cert.fingerprint": "AB" * 32}))


def test_without_the_option_there_is_plain_http() -> None:
    nothing = Configuration.from_strings({})
    assert https_server(nothing, "127.0.0.1") is None
    assert https_client(nothing) is None
    assert rest_url(nothing, "::1", 8081) == "http://[::1]:8081"


def test_a_missing_keystore_is_named_in_flinks_words() -> None:
    with pytest.raises(ConfigurationError) as told:
        https_server(Configuration.from_strings({"security.ssl.rest.enabled": "true"}), "0.0.0.0")
    assert told.value.message == "The config option security.ssl.rest.keystore or security.ssl.keystore is missing."
