"""A peer whose machine is gone is noticed; one that only takes nothing is not taken for it."""

from __future__ import annotations

import socket
import sys

import pytest

from tidegate.taskmanager.exchange.addresses import give_up_in_time, make_client


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
