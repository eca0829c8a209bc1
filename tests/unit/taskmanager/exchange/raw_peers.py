"""Peers over plain sockets, to do what our own ends never would."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from tests.unit.taskmanager.exchange.harness import producer_id
from tidegate.model.deployment import ProducerAddress
from tidegate.wire.frames import OutgoingFrame, make_header


def raw_connection(address: ProducerAddress) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(address.address.removeprefix("unix:"))
    return sock


def send(sock: socket.socket, frames: list[OutgoingFrame]) -> None:
    sock.sendall(b"".join(make_header(frame, at) + bytes(frame.payload) for at, frame in enumerate(frames)))


def read_all(sock: socket.socket) -> bytes:
    """Until the peer closes."""
    data = b""
    try:
        while part := sock.recv(4096):
            data += part
    except ConnectionResetError:
        pass
    return data


@contextlib.contextmanager
def fake_producer(answer: Callable[[socket.socket], None], *, stay: bool = True) -> Iterator[ProducerAddress]:
    """A server that waits for the first bytes of one consumer, answers, and closes (at the end, if it is to stay)."""
    listener = socket.create_server(("127.0.0.1", 0))
    finished = threading.Event()

    def serve() -> None:
        sock, _ = listener.accept()
        with sock, contextlib.suppress(OSError):
            sock.recv(4096)
            answer(sock)
            if stay:
                finished.wait(20)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ProducerAddress(producer_id(0), f"127.0.0.1:{listener.getsockname()[1]}")
    finally:
        finished.set()
        thread.join(20)
        listener.close()
