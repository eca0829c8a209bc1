"""A JobManager whose connection to a TaskManager breaks: one that lives has time to come back, one that is gone is lost at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.aio.jobmanager.cluster import JOB, FakeTaskManager, cluster, is_running, run_job, watch_until
from tidegate.pb import jobmanager_pb2

NEVER = "10 min"
"""For a time within which something must have happened by another cause."""
LIMIT_S = 20


def settings(directory: Path, **more: str) -> dict[str, str]:
    return {
        "execution_checkpointing_interval": NEVER,
        "execution_checkpointing_dir": str(directory),
        "restart__strategy_type": "fixed-delay",
        "restart__strategy_fixed__delay_delay": "10 ms",
        **more,
    }


async def until_noticed(caplog: pytest.LogCaptureFixture) -> None:
    """Until the JobManager says that a connection broke."""
    async with asyncio.timeout(LIMIT_S):
        while "ms to reconnect" not in caplog.text:  # noqa: ASYNC110  (a line of the log)
            await asyncio.sleep(0.01)


async def status_of(client: Any) -> jobmanager_pb2.JobStatus:
    return await watch_until(client, JOB, lambda status: True)


async def test_one_that_comes_back_has_lost_nothing_and_gets_what_waited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster("tm-1", tidegate_taskmanager_reconnect__timeout=NEVER) as (client, [task_manager], listening):
        before = await run_job(client, **settings(tmp_path))
        await task_manager.break_link()
        await until_noticed(caplog)
        asked = asyncio.ensure_future(client.TriggerCheckpoint(jobmanager_pb2.TriggerJobCheckpointRequest(job_id=JOB)))
        await status_of(client)
        assert not task_manager.triggered.is_set(), "its connection is broken"
        await task_manager.come_back(listening)
        answer = await asyncio.wait_for(asked, LIMIT_S)
        assert not answer.HasField("error"), answer.error
        after = await status_of(client)
        assert (after.state, after.restarts) == ("RUNNING", 0)
        assert task_manager.story.count("submit") == sum(len(vertex.subtasks) for vertex in before.vertices)


async def lost_by_its_port(task_manager: FakeTaskManager) -> None:
    await task_manager.break_link()
    await task_manager.stop_listening()


@pytest.mark.parametrize("end", [lost_by_its_port, FakeTaskManager.say_goodbye], ids=["closed-port", "goodbye"])
async def test_one_that_is_gone_is_lost_before_its_time_to_come_back(tmp_path: Path, end: Any) -> None:
    async with cluster("tm-1", tidegate_taskmanager_reconnect__timeout=NEVER) as (client, [task_manager], listening):
        await run_job(client, **settings(tmp_path))
        spare = FakeTaskManager("tm-2")
        await spare.start(listening)
        await end(task_manager)
        moved = await watch_until(client, JOB, lambda status: is_running(status) and status.restarts == 1, LIMIT_S)
        assert {subtask.task_manager_id for v in moved.vertices for subtask in v.subtasks} == {"tm-2"}
        await spare.stop()


async def test_one_that_is_gone_is_lost_while_it_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process ends a while after its connection broke."""
    async with cluster("tm-1", tidegate_taskmanager_reconnect__timeout=NEVER) as (client, [task_manager], _):
        await run_job(client, **settings(tmp_path))
        await task_manager.break_link()
        await until_noticed(caplog)
        assert (await status_of(client)).state == "RUNNING"
        await task_manager.stop_listening()
        lost = await watch_until(client, JOB, lambda status: status.restarts == 1, LIMIT_S)
        assert "its process is gone" in lost.failure.message


async def test_one_that_does_not_come_back_is_lost_after_its_time(tmp_path: Path) -> None:
    async with cluster("tm-1", tidegate_taskmanager_reconnect__timeout="300 ms") as (client, [task_manager], _):
        await run_job(client, **settings(tmp_path))
        await task_manager.break_link()
        lost = await watch_until(client, JOB, lambda status: status.restarts == 1, LIMIT_S)
        assert "it did not reconnect (tidegate.taskmanager.reconnect-timeout)" in lost.failure.message
