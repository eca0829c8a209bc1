"""What a subtask asks its TaskManager for: blobs, and the watermark of a group of sources."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless, processless
from tests.aio.taskmanager.test_service import ATTEMPT, in_thread, submit
from tests.aio.taskmanager.test_service import fake as fake
from tests.aio.taskmanager.test_service import manager as manager
from tests.unit.taskmanager.harness.short_paths import short_directory
from tidegate.model.errors import TidegateError
from tidegate.model.states import ExecutionState
from tidegate.pb import subtask_pb2
from tidegate.wire import control_frames as frames


async def test_blobs_are_fetched_once_and_verified(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    content = bytes(range(256)) * 1000
    key = fake.put_blob(content)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    assert await in_thread(lambda: stream.fetch_blob(key)) == content
    del fake.blobs[key]
    assert await in_thread(lambda: stream.fetch_blob(key)) == content
    fake.blobs["0" * 64] = b"something else"
    for key_text, said in (
        ("0" * 64, "arrived with the checksum"),
        ("1" * 64, "no blob"),
        ("../x", "not the key of a blob"),
    ):
        with pytest.raises(TidegateError, match=said):
            await in_thread(partial(stream.fetch_blob, key_text))
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_source_asks_for_the_watermark_of_its_group(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    assert await in_thread(lambda: stream.align_watermark("known", 1000, 200)) == 800
    with pytest.raises(TidegateError, match="has no group other"):
        await in_thread(lambda: stream.align_watermark("other", 1000, 200))
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_blob_that_comes_in_parts_is_whole(fake: FakeJobManager, tmp_path: Path) -> None:
    """Also an empty one. Over a Unix socket, as where Spark is embedded."""
    async with processless(fake, tmp_path, listen=f"unix:{short_directory(fake)}/control") as manager:
        await fake.wait_for(lambda: fake.beats)
        await submit(fake)
        stream, _, _ = manager.dial(ATTEMPT)
        await in_thread(stream.attach)
        for content in (bytes(range(256)) * 10_000, b""):
            key = fake.put_blob(content)
            assert await in_thread(partial(stream.fetch_blob, key)) == content
        stream.state_changed(ExecutionState.CANCELED)
        await in_thread(stream.close)
        manager.subtasks.started[ATTEMPT].end()


async def test_a_question_that_waits_when_the_stream_breaks_is_answered(
    fake: FakeJobManager, manager: Processless, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def hang(key: str) -> bytes:
        asked.set()
        return await asyncio.Future()

    monkeypatch.setattr(manager.blobs, "get", hang)
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream._is_ending = True  # this process is to outlive the loss of its stream
    waiting = asyncio.ensure_future(in_thread(partial(stream.fetch_blob, "f" * 64)))
    await asyncio.wait_for(asked.wait(), 10)
    next(iter(manager.executor.streams().values())).close()
    for question in (waiting, in_thread(partial(stream.fetch_blob, "e" * 64))):
        with pytest.raises(TidegateError, match="closed the control stream"):
            await asyncio.wait_for(question, 10)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a control message of 1195725856 bytes"),
        (b"\0\0\0\3\xff\xff\xff", "a control message of 3 bytes cannot be read as a FromSubtask"),
        (frames.frame(subtask_pb2.FromSubtask()), "not an execution attempt id"),
    ],
)
async def test_a_stranger_is_told_to_say_hello(
    manager: Processless, caplog: pytest.LogCaptureFixture, said: bytes, told: str
) -> None:
    caplog.set_level(logging.WARNING)
    host, _, port = manager.control_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(said)
    answer = await asyncio.wait_for(reader.read(), 10)
    refused = frames.parse(subtask_pb2.ToSubtask, answer[frames.HEADER_BYTES :]).refused
    assert "must begin with Hello" in refused.error.message
    assert told in caplog.text
    writer.close()
