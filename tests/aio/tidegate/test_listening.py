"""A host with two addresses, of which somebody else has a port on the second: a planned meeting of what happened in CI."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import grpc.aio
import pytest
from aiohttp import web

from tests.aio.jobmanager.cluster import running_job_manager
from tidegate.aio import listening
from tidegate.aio.http_server import serve_http
from tidegate.aio.listening import listen
from tidegate.aio.rpc import start_server
from tidegate.model.errors import ExternalError

FIRST = "127.0.0.1"
SECONDS = ("::1", "127.0.0.2")  # IPv6 may be switched off


def hold(address: str, port: int = 0) -> socket.socket:
    return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> str:
    """The second address of ``localhost``."""
    for address in SECONDS:
        try:
            hold(address).close()
        except OSError:
            continue
        monkeypatch.setattr(listening, "_LOOPBACKS", (FIRST, address))
        return address
    raise AssertionError(f"this machine has none of {SECONDS}")


@pytest.fixture
def taken(second: str) -> Iterator[int]:
    """A port that somebody has on the second address only."""
    with closing(hold(second)) as somebody:
        yield somebody.getsockname()[1]


@pytest.fixture
def offered(taken: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """A port like ``taken``, which is also the first free port that is found on the first address."""
    real = socket.create_server
    offers = iter([taken])

    def create_server(address: tuple[str, int], *, family: socket.AddressFamily) -> socket.socket:
        host, port = address
        return real((host, next(offers, 0) if (host, port) == (FIRST, 0) else port), family=family)

    monkeypatch.setattr(socket, "create_server", create_server)
    return taken


def no_services(server: grpc.aio.Server) -> None:
    pass


def answers(address: str, port: int) -> bool:
    with socket.create_connection((address, port), timeout=5):
        return True


def test_a_free_port_is_free_on_every_address(second: str, offered: int) -> None:
    sockets = listen("localhost", 0)
    assert [one.getsockname()[0] for one in sockets] == [FIRST, second]
    (port,) = {one.getsockname()[1] for one in sockets}
    for one in sockets:
        one.close()
    assert port != offered


def test_a_port_that_somebody_has_on_one_address_is_refused_and_given_back_on_the_other(taken: int) -> None:
    with pytest.raises(OSError, match="in use"):
        listen("localhost", taken)
    hold(FIRST, taken).close()


def test_an_address_that_this_machine_has_not_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_LOOPBACKS", ("192.0.2.1", FIRST))  # one that is for documents only (RFC 5737)
    (only,) = listen("localhost", 0)
    assert only.getsockname()[0] == FIRST
    only.close()
    with pytest.raises(OSError, match="assign requested address"):
        listen("192.0.2.1", 0)


async def test_a_grpc_server_is_at_one_port_of_every_address(second: str, offered: int) -> None:
    server, port = await start_server("localhost", 0, no_services, "JobManager")
    assert port != offered
    assert answers(FIRST, port)
    assert answers(second, port)
    await server.stop(None)


async def test_a_grpc_server_does_not_start_on_half_a_port(taken: int) -> None:
    with pytest.raises(
        ExternalError, match=f"cannot start the JobManager on localhost:{taken}: Address already in use; "
    ):
        await start_server("localhost", taken, no_services, "JobManager")


async def test_an_http_server_is_at_one_port_of_every_address(second: str, offered: int) -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    port = await serve_http(runner, "localhost", 0, "REST endpoint")
    assert port != offered
    assert answers(FIRST, port)
    assert answers(second, port)
    await runner.cleanup()


async def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(
        ExternalError, match=r"cannot start the JobManager on nowhere\.invalid:0: .*; choose another port"
    ):
        await start_server("nowhere.invalid", 0, no_services, "JobManager")


async def test_a_port_in_use_is_told_with_the_option_that_sets_it() -> None:
    async with running_job_manager() as listening:
        for option, port in (("rest.port", listening.rest_port), ("jobmanager.rpc.port", listening.rpc_port)):
            told = f"localhost:{port}: Address already in use; choose another port with -D {option}=PORT, or {option} in config.yaml"
            with pytest.raises(ExternalError) as raised:
                async with running_job_manager(**{option.replace(".", "_"): str(port)}):
                    pass
            assert told in raised.value.message
