"""The JobManager that tests of a TaskManager's services share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager


@pytest.fixture
async def fake() -> AsyncIterator[FakeJobManager]:
    """One that loses no TaskManager during a test; `test_service.py`, whose tests are about losses, has another one."""
    job_manager = FakeJobManager(heartbeat_timeout_ms=60_000, reconnect_ms=60_000)
    await job_manager.start()
    yield job_manager
    await job_manager.stop()
