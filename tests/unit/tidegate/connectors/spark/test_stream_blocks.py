"""Who connects to the port of Spark's workers has proven nothing: what it says first is short, and anything else ends its connection alone."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tidegate.connectors.spark.stream_blocks import BlockServer
from tidegate.connectors.spark.stream_link import (
    WORKER_HELLO_MAX_BYTES,
    PartitionEnded,
    RequestDone,
    SparkLink,
    WorkerHello,
)
from tidegate.model.errors import CorruptFrame

LENGTHS = struct.Struct("!II")


def framed(content: bytes) -> bytes:
    return LENGTHS.pack(len(content), 0) + content


HOSTILE = {
    "a long message": LENGTHS.pack(2**32 - 1, 0),
    "much behind it": LENGTHS.pack(10, 2**32 - 1),
    "nested too deeply": framed(b"\x91" * 4000),
    "no message": framed(b"\xc1"),
    "a secret that is no ASCII": framed(msgspec.msgpack.encode(WorkerHello("\u00e4", 0, 0))),
    "a wrong secret": framed(msgspec.msgpack.encode(WorkerHello("x", 0, 0))),
    "another message": framed(msgspec.msgpack.encode(PartitionEnded(0, 0))),
}


@pytest.fixture
def server() -> Iterator[BlockServer]:
    made = BlockServer("127.0.0.1", range(1))
    yield made
    made.close()


def connect(server: BlockServer) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_connection_that_begins_otherwise_is_closed(server: BlockServer, case: str) -> None:
    with connect(server) as hostile:
        hostile.sendall(HOSTILE[case])
        assert hostile.recv(1) == b""
    for thread in threading.enumerate():
        if thread.name == "spark partition":
            thread.join(30)
    server.begin(0)
    link = SparkLink(connect(server))
    link.send(WorkerHello(server.secret, 0, 3))
    assert link.ask(PartitionEnded(3, 0)) == RequestDone()
    assert server.take()[0] == PartitionEnded(3, 0)
    link.close()


def test_a_long_first_message_is_refused_before_it_is_received() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(LENGTHS.pack(WORKER_HELLO_MAX_BYTES + 1, 0))
        with pytest.raises(CorruptFrame, match="has 4097 bytes and 0 bytes of rows, and may have 4096 and none"):
            SparkLink(ours).receive_first(WORKER_HELLO_MAX_BYTES)
