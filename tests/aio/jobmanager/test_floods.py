"""A JobManager that is flooded: with connections, with long messages, with files, with archives. It bounds each before it takes memory or descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import psutil
import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    PROGRAM,
    cluster,
    is_running,
    make_graph,
    put_blob,
    run_job,
    submit,
    watch_until,
)
from tests.own import own_transport
from tests.ports import free_port
from tidegate.aio.rpc import open_channel
from tidegate.jobmanager.programs.files import MAX_DIRECTORY_BYTES, ProgramFiles
from tidegate.model.errors import Misuse
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub

HALF_OPEN = b"GET /overview HTTP/1.1\r\nHost: localhost\r\n"


async def half_open(port: int, count: int, data: bytes, host: str = "127.0.0.1") -> list[socket.socket]:
    """Connections that begin a request and do not go on, from this address."""
    found = []
    loop = asyncio.get_running_loop()
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        one.bind((host, 0))
        await loop.sock_connect(one, ("127.0.0.1", port))
        with contextlib.suppress(ConnectionError):  # closed already
            await loop.sock_sendall(one, data)
        found.append(one)
    return found


async def closed_of(connections: list[socket.socket], at_least: int) -> int:
    """How many of them the server has closed, once there are so many."""
    while True:
        closed = sum(map(is_closed, connections))
        if closed >= at_least:
            return closed
        await asyncio.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def overview(port: int) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/overview") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_half_open_connections_take_the_places_of_each_other() -> None:
    async with cluster("tm-1", "tm-2", tidegate_rest_max__connections="8") as (client, _, listening):
        await run_job(client)
        async with asyncio.timeout(30):
            attack = await half_open(listening.rest_port, 50, HALF_OPEN)
            assert await closed_of(attack, 42) == 42
            assert not is_closed(attack[-1]), "the oldest went first"
            assert (await overview(listening.rest_port))["jobs-running"] == 1
            assert await closed_of(attack, 43) == 43
        for one in attack:
            one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
async def test_the_host_with_most_connections_gives_up_one() -> None:
    async with cluster("tm-1", tidegate_rest_max__connections="8") as (_, _, listening):
        async with asyncio.timeout(30):
            others = await half_open(listening.rest_port, 2, HALF_OPEN, "127.0.0.2")
            attack = await half_open(listening.rest_port, 30, HALF_OPEN)
            await closed_of(attack, 24)
            assert not any(map(is_closed, others)), "though they are the oldest"
        for one in (*others, *attack):
            one.close()


async def test_a_connection_whose_request_is_being_answered_stays() -> None:
    async with cluster("tm-1", "tm-2", tidegate_rest_max__connections="2") as (client, _, listening):
        await run_job(client)
        lines = (
            "POST /savepoint-disposal HTTP/1.1",
            "Host: localhost",
            "Expect: 100-continue",
            "Content-Length: 9",
            "",
            "{",
        )
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(30):
            busy = await half_open(listening.rest_port, 2, "\r\n".join(lines).encode())
            for one in busy:
                assert (await loop.sock_recv(one, 100)).startswith(b"HTTP/1.1 100")
            more = await half_open(listening.rest_port, 3, HALF_OPEN)
            await closed_of(more, 3)
            assert not any(map(is_closed, busy))
        for one in (*busy, *more):
            one.close()


@pytest.mark.parametrize("descriptors", [256])
async def test_a_process_with_few_descriptors_keeps_some_of_them(tmp_path: Path, descriptors: int) -> None:
    rest, rpc = free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        "tidegate.cli.main",
        "jobmanager",
        "--rpc-port",
        str(rpc),
        "--rest-port",
        str(rest),
        "--log-file",
        str(tmp_path / "log"),
    ]
    with (tmp_path / "out").open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220  (the server under attack)
            ["/bin/sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command],
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    attack: list[socket.socket] = []
    try:
        async with asyncio.timeout(120):
            while True:
                try:
                    await overview(rest)
                    break
                except aiohttp.ClientError:
                    assert process.poll() is None, (tmp_path / "out").read_text()
                    await asyncio.sleep(0.1)
            attack = await half_open(rest, descriptors + 100, HALF_OPEN)
            attack += await half_open(rpc, descriptors + 100, b"")
            await closed_of(attack, 2 * (descriptors + 100) - descriptors * 3 // 4)
            await overview(rest)
            assert psutil.Process(process.pid).num_fds() < descriptors - 20, "kept for checkpoints and TaskManagers"
            log = (tmp_path / "log").read_text() + (tmp_path / "out").read_text()
            assert "Too many open files" not in log
            assert len(log) < 100_000
    finally:
        for one in attack:
            one.close()
        process.terminate()
        process.wait(30)


async def test_a_message_is_as_long_as_its_method_may_take(tmp_path: Path) -> None:
    async with cluster("tm-1", tidegate_rpc_max__message__size="8 mb") as (client, _, _):
        for size_bytes, code in ((2 << 20, "INVALID_ARGUMENT"), (9 << 20, "RESOURCE_EXHAUSTED")):
            for call, request in (
                (client.CancelJob, pb.JobRequest(job_id="x" * size_bytes)),
                (client.DisposeSavepoint, pb.DisposeSavepointRequest(path="x" * size_bytes)),
                (client.ListCheckpoints, pb.ListCheckpointsRequest(job_id="x" * size_bytes)),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request)
                assert refused.value.code().name == code
                assert len(refused.value.details() or "") < 200
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async for _ in client.WatchJob(pb.JobRequest(job_id="x" * size_bytes)):
                    pass
            assert refused.value.code().name == code
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.PutBlob(chunks([b"x" * (5 << 20)]))
        assert refused.value.code().name == "INVALID_ARGUMENT"
        unknown = await client.CancelJob(pb.JobRequest(job_id="x" * (1 << 19)))
        assert len(unknown.error.message) < 300, "what was sent is not repeated"
        await put_blob(client)
        assert not (await submit(client, make_graph(pipeline_name="x" * (2 << 20)))).HasField("error"), (
            "graphs may be longer"
        )


async def chunks(parts: list[bytes]) -> AsyncIterator[common_pb2.BlobChunk]:
    for part in parts:
        yield common_pb2.BlobChunk(data=part)


async def test_files_of_jobs_are_bounded_one_by_one_and_in_all(tmp_path: Path) -> None:
    settings = {"tidegate_blob_max__size": "100 b", "blob_storage_directory": str(tmp_path)}
    async with cluster("tm-1", "tm-2", **settings) as (client, _, listening):
        with pytest.raises(grpc.aio.AioRpcError, match="tidegate.blob.max-size"):
            await client.PutBlob(chunks([b"x" * 60, b"x" * 60]))
        await run_job(client)
        async with open_channel(f"127.0.0.1:{listening.rpc_port}", own_transport()) as channel:
            other = JobManagerClientServiceStub(channel)
            for number in range(20):
                await other.PutBlob(chunks([bytes([number]) * 90]))
        sizes = sizes_of_blobs(tmp_path)
        assert sizes == [len(PROGRAM), 90, 90, 90, 90], (
            "the program of the job that runs, and the last that are unclaimed"
        )
        await watch_until(client, JOB, is_running)


def sizes_of_blobs(directory: Path) -> list[int]:
    return sorted(path.stat().st_size for path in directory.rglob("*") if path.is_file() and len(path.name) >= 64)


def zip_of(members: int) -> bytes:
    """The list of so many empty members, as a zip ends."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    size = len(entry) * members
    return entry * members + struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, members & 0xFFFF, members & 0xFFFF, size, 0, 0
    )


def test_a_zip_with_too_many_members_is_refused_before_they_are_read() -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = ProgramFiles(directory, directory, 100 << 20)
        for members, why in (
            (10_001, "has 10001 members"),
            (MAX_DIRECTORY_BYTES // 47 + 1, "the list of members of the zip file has"),
        ):
            incoming = files.begin()
            incoming.write_bytes(zip_of(members))
            with pytest.raises(Misuse, match=why):
                files.adopt(incoming, "many.zip")
            assert not [name for name in os.listdir(directory) if not name.startswith(".")]
