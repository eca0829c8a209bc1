"""The messages between the client and the collecting sink on one connection: the client sends requests, the sink answers.

    hello:    token (32 bytes), once
    request:  version (16 bytes) · offset (of the next result wanted: everything before it was received)
    answer:   version · offset of the first result that follows · offset that a confirmed checkpoint covers · batches

``version`` is drawn anew by every attempt of the sink. A request of another version is answered without results: the client
goes back to the covered offset first. Offsets count results from 0 (Flink: ``CollectCoordinationRequest`` and ``-Response``).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

TOKEN_BYTES = 32
"""The bytes of a token: 256 bits cannot be guessed."""
NO_VERSION = b"\0" * 16
_REQUEST = struct.Struct("!16sq")
_ANSWER = struct.Struct("!16sqqI")
_BATCH = struct.Struct("!II")


@dataclass(frozen=True, slots=True)
class Request:
    """A request for results from ``offset`` on; ``version`` identifies the sink's attempt that the client knows."""

    version: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """A batch of ``rows`` results; ``content`` is an Arrow IPC stream."""

    rows: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ResultsResponse:
    """Batches of results from ``offset`` on, and the offset that the last completed checkpoint covers."""

    version: bytes
    offset: int
    checkpointed: int
    batches: tuple[ResultBatch, ...] = ()


def send_request(sock: socket.socket, request: Request) -> None:
    """Writes a request to a connection."""
    sock.sendall(_REQUEST.pack(request.version, request.offset))


def receive_request(sock: socket.socket) -> Request:
    """Reads a request from a connection."""
    return Request(*_REQUEST.unpack(receive(sock, _REQUEST.size)))


def send_answer(sock: socket.socket, answer: ResultsResponse) -> None:
    """Writes an answer to a connection."""
    parts = [_ANSWER.pack(answer.version, answer.offset, answer.checkpointed, len(answer.batches))]
    for batch in answer.batches:
        parts += [_BATCH.pack(batch.rows, len(batch.content)), batch.content]
    sock.sendall(b"".join(parts))


def receive_answer(sock: socket.socket) -> ResultsResponse:
    """Reads an answer from a connection."""
    version, offset, checkpointed, count = _ANSWER.unpack(receive(sock, _ANSWER.size))
    batches = []
    for _ in range(count):
        rows, size = _BATCH.unpack(receive(sock, _BATCH.size))
        batches.append(ResultBatch(rows, receive(sock, size)))
    return ResultsResponse(version, offset, checkpointed, tuple(batches))


def receive(sock: socket.socket, size: int) -> bytes:
    """Reads exactly ``size`` bytes. Raises ``OSError``, also when the peer closes the connection before."""
    content = bytearray()
    while len(content) < size:
        part = sock.recv(min(size - len(content), 1 << 20))
        if not part:
            raise ConnectionResetError(
                "the other process closed the connection over which the results of a job are collected"
            )
        content += part
    return bytes(content)
