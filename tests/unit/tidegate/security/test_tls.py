"""Two ends of TLS over loopback: who is believed, and what each end says of the other when it is not."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.certificates import issue, make_authority
from tidegate.model.errors import ConfigurationError
from tidegate.security.handshakes import check_pins, parse_pins, reason_of
from tidegate.security.keystores import Credentials, fingerprint_of
from tidegate.security.tls import Material, client_context, server_context

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
LIMIT_S = 20
WORD = b"hello\n"
CLOSED = "it closed the connection during the handshake: it speaks no TLS, or refuses our certificate"

AUTHORITY, STRANGER = make_authority(NOW, DAY), make_authority(NOW, DAY)


def of(
    authority: Credentials,
    trusted: Credentials = AUTHORITY,
    hosts: tuple[str, ...] = ("localhost",),
    age: timedelta = timedelta(),
) -> Material:
    """``age``: for how long the certificate has been expired."""
    born = NOW - age - DAY if age else NOW
    return Material(issue(authority, hosts, born, DAY), trusted.chain)


async def talk(
    server: ssl.SSLContext | None, client: ssl.SSLContext | None, host: str = "localhost"
) -> tuple[str, str, bytes | None]:
    """Returns what the server and the client had to say of the other (empty: a word was exchanged), and the certificate that the client saw."""
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if server is not None:
                await writer.start_tls(server, ssl_handshake_timeout=LIMIT_S)
            writer.write(await reader.readline())
            await writer.drain()
            heard.set_result("")
        except (OSError, EOFError) as error:
            heard.set_result(reason_of(error))
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    said, seen = "", None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            if client is not None:
                await writer.start_tls(client, server_hostname=host)
                seen = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.write(WORD)
            await writer.drain()
            if await reader.readline() != WORD:
                raise EOFError
        except (OSError, EOFError) as error:
            said = reason_of(error)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return await asyncio.wait_for(heard, LIMIT_S), said, seen
    finally:
        listening.close()
        await listening.wait_closed()


async def test_two_of_a_cluster_believe_each_other_whatever_the_address() -> None:
    mine, yours = of(AUTHORITY), of(AUTHORITY, hosts=())
    server, client = server_context(yours, is_mutual=True), client_context(mine, checks_name=False)
    heard, said, seen = await talk(server, client)
    assert (heard, said) == ("", "")
    assert yours.credentials is not None
    fingerprint = fingerprint_of(yours.credentials.certificate)
    check_pins(seen, parse_pins(f"{fingerprint_of(AUTHORITY.certificate)}, {fingerprint.replace(':', '').lower()}"))
    check_pins(seen, ())
    with pytest.raises(ssl.SSLCertVerificationError, match=f"not one of those that are pinned: {fingerprint}"):
        check_pins(seen, parse_pins(fingerprint_of(AUTHORITY.certificate)))


async def test_a_certificate_in_the_truststore_is_believed_itself() -> None:
    """As with the one keystore that Flink's page on SSL makes for a whole cluster."""
    shared = of(AUTHORITY)
    assert shared.credentials is not None
    shared = replace(shared, trusted=shared.credentials.chain)
    assert (await talk(server_context(shared, is_mutual=True), client_context(shared, checks_name=False)))[:2] == (
        "",
        "",
    )


@pytest.mark.parametrize(
    ("server", "client", "heard", "said"),
    [
        (of(STRANGER), of(AUTHORITY), CLOSED, "its certificate is of an authority that is not in the truststore"),
        (of(AUTHORITY, age=DAY), of(AUTHORITY), CLOSED, "its certificate has expired"),
        (of(AUTHORITY), of(STRANGER), "its certificate is of an authority that is not in the truststore", CLOSED),
        (of(AUTHORITY), of(AUTHORITY, age=DAY), "its certificate has expired", CLOSED),
        (of(AUTHORITY), replace(of(AUTHORITY), credentials=None), "it has no certificate", CLOSED),
    ],
    ids=["strange server", "expired server", "strange client", "expired client", "client without one"],
)
async def test_who_is_not_believed(server: Material, client: Material, heard: str, said: str) -> None:
    """The end that refuses knows why; asyncio closes the connection before it has sent that to the other."""
    ours, theirs = server_context(server, is_mutual=True), client_context(client, checks_name=False)
    found = await talk(ours, theirs)
    assert found[:2] == (heard, said)


async def test_the_name_counts_where_it_is_asked_for() -> None:
    server, client = server_context(of(AUTHORITY), is_mutual=False), client_context(of(AUTHORITY), checks_name=True)
    assert (await talk(server, client))[:2] == ("", "")
    assert (await talk(server, client, host="other.example"))[1] == "its certificate is for another name"
    assert (await talk(server, client, host="127.0.0.1"))[1] == "its certificate is for another address"


async def test_plain_text_at_one_end() -> None:
    heard, _, _ = await talk(server_context(of(AUTHORITY), is_mutual=True), None)
    assert heard == "it speaks no TLS"
    _, said, _ = await talk(None, client_context(of(AUTHORITY), checks_name=False))
    assert "speaks no TLS" in said


def test_what_is_no_fingerprint_and_a_server_without_a_key_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'AB:CD' is not a SHA-256 fingerprint"):
        parse_pins("AB:CD")
    assert parse_pins("") == frozenset()
    with pytest.raises(ConfigurationError, match="needs a keystore"):
        server_context(Material(None, AUTHORITY.chain), is_mutual=True)
