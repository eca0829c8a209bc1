"""A peer whose machine is gone is noticed; one that only takes nothing is not taken for it."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.ports import free_port
from tidegate.model.errors import ConfigurationError
from tidegate.taskmanager.exchange.addresses import (
    ANY_PORT,
    OWN_HOST,
    give_up_in_time,
    host_of,
    listen_at,
    listen_on,
    make_client,
    make_listener,
    ports_of,
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="options of Linux")
def test_a_silent_peer_is_asked_several_times_and_a_slow_one_is_waited_for() -> None:
    sock, _ = make_client("127.0.0.1:1")

    def option(name: int) -> int:
        return sock.getsockopt(socket.IPPROTO_TCP, name)

    with sock:
        asked = option(socket.TCP_KEEPCNT)
        assert asked >= 3, "one lost packet is no lost peer"
        assert option(socket.TCP_KEEPIDLE) + asked * option(socket.TCP_KEEPINTVL) <= 15
        assert option(socket.TCP_USER_TIMEOUT) == 0
        give_up_in_time(sock)
        assert option(socket.TCP_USER_TIMEOUT) == 15_000


def listening(listen: str) -> tuple[socket.socket, str]:
    return make_listener(listen, "attempt", "")


def test_subtasks_of_a_machine_share_a_range_of_ports_until_none_is_free() -> None:
    free = free_port()
    ports = range(free, free + 1)
    listen = listen_at(listen_on(OWN_HOST, ports), "127.0.0.1")
    first, address = listening(listen)
    with first:
        assert address == f"127.0.0.1:{free}"
        with pytest.raises(
            ConfigurationError, match=rf"on 127.0.0.1:{free}: Address already in use; set taskmanager.data.port to "
        ):
            listening(listen)
    again, address = listening(listen)
    again.close()
    assert address == f"127.0.0.1:{free}"


def test_executors_listen_by_the_address_that_leads_to_their_task_manager() -> None:
    assert listen_at(OWN_HOST, "127.0.0.7") == "127.0.0.7"
    assert listen_at("10.0.0.7", "127.0.0.7") == "10.0.0.7"
    assert listen_at("unix:/tmp/s", "") == "unix:/tmp/s"
    sock, address = listening(listen_at(OWN_HOST, "127.0.0.7"))
    sock.close()
    assert address.startswith("127.0.0.7:")


@pytest.mark.parametrize("host", ["10.0.0.7", "executor-3.pods", "fe80::1", OWN_HOST])
@pytest.mark.parametrize("ports", [ANY_PORT, range(50_100, 50_201), range(7, 8)])
def test_what_is_listened_on_is_read_back(host: str, ports: range) -> None:
    listen = listen_on(host, ports)
    assert (host_of(listen), ports_of(listen)) == (host, ports)
