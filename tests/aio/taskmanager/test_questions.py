"""What a subtask asks its TaskManager for: blobs, and the watermark of a group of sources."""

from __future__ import annotations

from functools import partial

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless
from tests.aio.taskmanager.test_service import ATTEMPT, in_thread, submit
from tests.aio.taskmanager.test_service import fake as fake
from tests.aio.taskmanager.test_service import manager as manager
from tidegate.model.errors import TidegateError
from tidegate.model.states import ExecutionState


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
    for key_text, said in (("0" * 64, "arrived with the content of"), ("1" * 64, "no blob"), ("../x", "no blob key")):
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
