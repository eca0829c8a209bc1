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


def _held(listener: socket.socket, port: int) -> None:
    """Connections are taken at once, and answered after a while."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the test is over
            return
        threading.Event().wait(HELD_S)
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=_pump, args=(client, server), daemon=True).start()
        threading.Thread(target=_pump, args=(server, client), daemon=True).start()


def test_a_server_that_takes_half_a_second_to_answer_a_connection_is_no_missing_one(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_held, args=(listener, port), daemon=True).start()
        with JobManagerClient(f"127.0.0.1:{listener.getsockname()[1]}") as client, pytest.raises(TidegateError) as told:
            client.cluster()
    assert not isinstance(told.value, Unreachable), "this server has no services, and says so"
