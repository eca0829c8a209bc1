"""A JobManager that is busy answers a new connection late: it is there all the same."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest

from tidegate.cli.client import JobManagerClient
from tidegate.model.errors import TidegateError, Unreachable

HELD_S = 0.5


@pytest.fixture
def port() -> Iterator[int]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    found = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found
    server.stop(None)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other end is gone: the test is over
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _relay(client: socket.socket, port: int) -> None:
    """Answers the connection after a while, and ends with it."""
    threading.Event().wait(HELD_S)
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_pump, args=(server, client))
        back.start()
        _pump(client, server)
        back.join()


def _held(listener: socket.socket, port: int) -> None:
    """Connections are taken at once, and answered after a while."""
    relays = []
    with contextlib.suppress(OSError):  # the test is over
        while True:
            relays.append(threading.Thread(target=_relay, args=(listener.accept()[0], port)))
            relays[-1].start()
    for relay in relays:
        relay.join()


def test_a_server_that_takes_half_a_second_to_answer_a_connection_is_no_missing_one(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        holding = threading.Thread(target=_held, args=(listener, port))
        holding.start()
        with JobManagerClient(f"127.0.0.1:{listener.getsockname()[1]}") as client, pytest.raises(TidegateError) as told:
            client.cluster()
        listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        holding.join()
    assert not isinstance(told.value, Unreachable), "this server has no services, and says so"
