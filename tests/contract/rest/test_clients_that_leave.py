"""A client that leaves while it sends its request is no failure of the JobManager: nothing of it is in the log but one line at most."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest

from tests.contract.rest.asking import endpoint_of
from tests.contract.rest.scene import recorded_scene

SAVEPOINT = f"/jobs/{'0' * 32}/savepoints"
PART = b'--x\r\nContent-Disposition: form-data; name="jarfile"; filename="a.zip"\r\n\r\n'


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "begin", "size_bytes"),
    [
        (SAVEPOINT, b"{", 100),
        (SAVEPOINT, b"{", 900_000),
        (SAVEPOINT, b"{", 3_000_000),
        ("/jars/upload", PART, 100),
        ("/jars/upload", PART, 3_000_000),
        ("/nothing/here", b"{", 3_000_000),
    ],
)
async def test_a_client_that_leaves_leaves_no_traceback(
    path: str, begin: bytes, size_bytes: int, is_chunked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoint = endpoint_of(recorded_scene())
    port = await endpoint.start("127.0.0.1", 0)
    kind = "multipart/form-data; boundary=x" if begin is PART else "application/json"
    length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 50000000"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()
    body = begin + b"a" * size_bytes
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets the connection
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, head)
        try:
            async with asyncio.timeout(2):
                await loop.sock_sendall(client, f"{len(body):x}\r\n".encode() + body if is_chunked else body)
        except (ConnectionError, TimeoutError):
            pass  # it was refused before it had sent all
    for _ in range(20):
        await asyncio.sleep(0.005)  # the endpoint sees it
    await endpoint.stop()
    assert [record for record in caplog.records if record.exc_info] == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
