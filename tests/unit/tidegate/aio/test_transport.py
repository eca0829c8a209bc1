"""gRPC by TLS over loopback: who is let in, how certificates are renewed, and what a probe says first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests import certificates
from tests.certificates import issue, make_authority
from tidegate.aio.probing import until_refused
from tidegate.aio.rpc import open_blocking_channel, open_channel, start_server
from tidegate.aio.transport import PLAIN, Transport
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.keystores import Credentials, fingerprint_of

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
LIMIT_S = 20
METHOD = "/test/Echo"

AUTHORITY, STRANGER = make_authority(NOW, DAY), make_authority(NOW, DAY)


def write_stores(
    directory: Path, authority: Credentials = AUTHORITY, trusted: Credentials = AUTHORITY, born: datetime = NOW
) -> Mapping[str, str]:
    """Writes a keystore and a truststore; returns the options for them."""
    keystore, truststore = certificates.write_stores(directory, authority, trusted, born, DAY)
    return {
        "security.ssl.internal.enabled": "true",
        "security.ssl.keystore": str(keystore),
        "security.ssl.internal.truststore": str(truststore),
    }


def transport(options: Mapping[str, str]) -> Transport:
    return transport_of(Configuration.from_strings(options))


def register(server: grpc.aio.Server) -> None:
    async def echo(request: bytes, context: object) -> bytes:
        return request

    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))


@asynccontextmanager
async def served(by: Transport) -> AsyncIterator[str]:
    server, port = await start_server("127.0.0.1", 0, register, "a server", transport=by)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _echo(channel: Any) -> Any:
    """Without a serializer, which the types of gRPC ask for."""
    return channel.unary_unary(METHOD)


async def failure(address: str, by: Transport) -> str:
    """Returns what gRPC says of a server that cannot be reached."""
    async with open_channel(address, by) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await _echo(channel)(b"hello", timeout=LIMIT_S)
    assert told.value.code() is grpc.StatusCode.UNAVAILABLE
    return told.value.details() or ""


async def ask(address: str, by: Transport) -> bytes | grpc.StatusCode:
    """Returns the answer, or the status of the failure."""
    async with open_channel(address, by) as channel:
        try:
            answer: bytes = await _echo(channel)(b"hello", timeout=LIMIT_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return answer


async def test_two_of_a_cluster_talk_whatever_the_address(tmp_path: Path) -> None:
    server, client = transport(write_stores(tmp_path / "a")), transport(write_stores(tmp_path / "b"))
    async with served(server) as address:
        assert await ask(address, client) == b"hello"

        def ask_in_thread() -> bytes:
            with open_blocking_channel(address, client) as channel:
                answer: bytes = _echo(channel)(b"hello", timeout=LIMIT_S)
                return answer

        assert await asyncio.to_thread(ask_in_thread) == b"hello"


def of_strangers(at: Path) -> Transport:
    return transport(write_stores(at, authority=STRANGER))


def expired(at: Path) -> Transport:
    return transport(write_stores(at, born=NOW - 2 * DAY))


def believed(at: Path) -> Transport:
    return transport(write_stores(at))


def of_ada(at: Path) -> Transport:
    """Has the certificate of a user, whose configuration does not name the cluster."""
    options = write_stores(at)
    own = issue(AUTHORITY, ["ada"], NOW, DAY, is_user=True)
    Path(options["security.ssl.keystore"]).write_bytes(own.key_pem() + own.chain_pem())
    return transport(options)


NOT_TRUSTED = "its certificate is of an authority that is not in the truststore"


@pytest.mark.parametrize(
    ("server", "client", "why"),
    [
        (believed, lambda _: PLAIN, "speaks TLS: set security.ssl.internal.enabled, and the keystore and truststore"),
        (lambda _: PLAIN, believed, "it speaks no TLS"),
        (
            believed,
            of_strangers,
            "it refuses our certificate, which is missing or of an authority that it does not trust",
        ),
        (of_strangers, believed, NOT_TRUSTED),
        (believed, expired, "our certificate has expired at "),
        (expired, believed, "its certificate has expired"),
        (
            believed,
            of_ada,
            "is not for 'ada', the first name in ours: where ours is that of a user, set tidegate.security.cluster-name",
        ),
    ],
    ids=[
        "plain client",
        "plain server",
        "strange client",
        "strange server",
        "expired client",
        "expired server",
        "a user",
    ],
)
async def test_who_is_not_believed_gets_no_answer(
    server: Callable[[Path], Transport], client: Callable[[Path], Transport], why: str, tmp_path: Path
) -> None:
    async with served(server(tmp_path / "server")) as address:
        by = client(tmp_path / "client")
        details = await failure(address, by)
        found = await asyncio.to_thread(by.diagnose, address, details)
        assert why in found


async def test_renewed_certificates_are_taken_by_the_next_connection(tmp_path: Path) -> None:
    """The client trusts the new authority alone: it is answered as soon as the server has a certificate of it."""
    server = transport(write_stores(tmp_path / "server"))
    client = transport(write_stores(tmp_path / "client", authority=STRANGER, trusted=STRANGER))
    async with served(server) as address:
        assert await ask(address, client) is grpc.StatusCode.UNAVAILABLE
        write_stores(tmp_path / "server", authority=STRANGER, trusted=STRANGER)
        assert await ask(address, client) == b"hello"
        (tmp_path / "server" / "own.pem").write_text("half written")
        assert await ask(address, client) == b"hello"


def one_certificate_for_all(directory: Path) -> Mapping[str, str]:
    """As on Flink's page on SSL, and pinned."""
    shared = issue(AUTHORITY, [], NOW, DAY)
    options = write_stores(directory)
    Path(options["security.ssl.keystore"]).write_bytes(shared.key_pem() + shared.chain_pem())
    return {**options, "security.ssl.internal.cert.fingerprint": fingerprint_of(shared.certificate)}


async def test_pins_narrow_whom_a_peer_believes(tmp_path: Path) -> None:
    pinned = one_certificate_for_all(tmp_path / "shared")
    async with served(transport(pinned)) as address:
        assert await ask(address, transport(pinned)) == b"hello"
        assert await ask(address, transport(write_stores(tmp_path / "other"))) is grpc.StatusCode.UNAVAILABLE
    strange = {**pinned, "security.ssl.internal.cert.fingerprint": fingerprint_of(STRANGER.certificate)}
    with pytest.raises(ConfigurationError, match=r"no certificate of the keystore and the truststore .* put the"):
        transport(strange)


@pytest.mark.parametrize("missing", ["keystore", "truststore"])
def test_a_missing_key_is_named_in_flinks_words(missing: str, tmp_path: Path) -> None:
    options = {key: text for key, text in write_stores(tmp_path).items() if not key.endswith(f".{missing}")}
    with pytest.raises(ConfigurationError) as told:
        transport(options)
    key = f"security.ssl.internal.{missing} or security.ssl.{missing}"
    assert told.value.message == f"The config option {key} is missing."


async def test_a_probe_of_a_server_by_tls_hears_an_answer(tmp_path: Path) -> None:
    by = transport(write_stores(tmp_path))
    silences: list[None] = []
    async with served(by) as address:
        probe = asyncio.ensure_future(until_refused(address, lambda: silences.append(None), by.hello()))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(probe, 2.5)
    assert silences == []
    assert await asyncio.wait_for(until_refused(address, hello=by.hello()), LIMIT_S)


def of_user(home: Path) -> Transport:
    return transport({"tidegate.home": str(home)})


async def test_processes_of_one_user_talk_without_a_word_in_their_configuration(tmp_path: Path) -> None:
    async with served(of_user(tmp_path)) as address:
        assert await ask(address, of_user(tmp_path)) == b"hello"


@pytest.mark.parametrize(
    ("server", "client", "why"),
    [
        (of_user, lambda _: PLAIN, "speaks TLS: set security.ssl.internal.enabled"),
        (lambda _: PLAIN, of_user, "speaks plain text: it was started with tidegate.security.insecure"),
        (of_user, lambda at: of_user(at / "other"), "does not have the key of this user"),
        (believed, of_user, "does not have the key of this user"),
    ],
    ids=["plain client", "plain server", "other user", "certificates of a cluster"],
)
async def test_another_user_of_the_machine_is_neither_let_in_nor_listened_to(
    server: Callable[[Path], Transport],
    client: Callable[[Path], Transport],
    why: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with served(server(tmp_path)) as address:
        by = client(tmp_path)
        details = await failure(address, by)
        assert why in await asyncio.to_thread(by.diagnose, address, details)
    assert "Handshake failed" not in capfd.readouterr().err  # of gRPC itself, for each connection


async def test_no_port_without_tls_is_opened_beyond_this_machine_but_where_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigurationError, match=r"gRPC on 0\.0\.0\.0 would have no TLS.*--insecure"):
        await start_server("0.0.0.0", 0, register, "a server", transport=of_user(tmp_path))
    insecure = transport({"tidegate.security.insecure": "true"})
    server, port = await start_server("0.0.0.0", 0, register, "a server", transport=insecure)
    assert "has no TLS: everyone who can reach it can run programs as this user" in caplog.text
    assert await ask(f"127.0.0.1:{port}", insecure) == b"hello"
    await server.stop(None)
    certain = transport(write_stores(tmp_path / "tls"))
    server, _ = await start_server("0.0.0.0", 0, register, "a server", transport=certain)
    await server.stop(None)
