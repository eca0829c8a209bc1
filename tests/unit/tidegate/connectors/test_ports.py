"""A port of ``taskmanager.data.port`` that is in use is named with the option and what to do, whichever listener needs it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import pytest

from tidegate.connectors.ports import listening, why_not_listening
from tidegate.connectors.spark.stream_blocks import BlockServer
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.taskmanager.exchange.addresses import listen_on, make_listener
from tidegate.taskmanager.spark.executors.check import Meeting

HOST = "127.0.0.1"
LISTENERS: dict[str, Callable[[range], object]] = {
    "listener for data connections": lambda ports: make_listener(listen_on(HOST, ports), "attempt", ""),
    "listener for rows of Spark's workers": lambda ports: BlockServer(HOST, ports),
    "listener for the check of executors": lambda ports: Meeting(HOST, ports, 1),
    "listener for Spark's rows": lambda ports: listening(HOST, ports, "listener for Spark's rows"),
}


@pytest.mark.parametrize("what", LISTENERS)
def test_a_port_in_use_is_named_with_its_option(what: str) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises((ConfigurationError, ExternalError)) as refused:
            LISTENERS[what](range(port, port + 1))
    assert refused.value.message == (
        f"cannot start the {what} on {HOST}:{port}: Address already in use; "
        "set taskmanager.data.port to other ports, or to a wider range such as 50100-50200; 0 takes any that are free"
    )


def test_of_a_range_all_are_named() -> None:
    why = why_not_listening(HOST, range(5, 8), "listener", OSError(errno.EADDRINUSE, "in use"))
    assert why.startswith(
        f"cannot start the listener on {HOST}:5-7: Address already in use; set taskmanager.data.port to "
    )


def test_a_host_that_is_not_here_is_no_matter_of_the_port() -> None:
    with pytest.raises(ExternalError, match=r"on 192\.0\.2\.1:any port: .*; see taskmanager\.bind-host"):
        listening("192.0.2.1", range(1), "listener")
