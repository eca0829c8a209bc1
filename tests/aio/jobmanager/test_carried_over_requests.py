"""A client asks one JobManager for something, and the next one, which knows it from the job store, does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.aio.jobmanager.cluster import (
    JOB,
    FakeTaskManager,
    client_of,
    run_job,
    running_job_manager,
    watch_until,
)
from tests.aio.jobmanager.test_high_availability import jobs_in, kept_in
from tests.aio.jobmanager.test_rest import completed, send
from tidegate.jobmanager.service.app import Listening
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb

REQUEST = "5" * 32


class Deaf(FakeTaskManager):
    """Hears no cancellation, and acknowledges no checkpoint."""

    def __init__(self, name: str) -> None:
        super().__init__(name, slots=4)
        self.acknowledges = False

    async def CancelTask(self, request: Any, context: Any) -> common_pb2.Ack:
        return common_pb2.Ack()


@asynccontextmanager
async def leading_job_manager(directory: Path, task_manager: FakeTaskManager) -> AsyncIterator[tuple[Any, Listening]]:
    """The TaskManager outlives the JobManager."""
    settings = kept_in(directory, execution_checkpointing_interval="1 h")
    try:
        async with running_job_manager(**settings) as listening, client_of(listening) as client:
            await task_manager.start(listening)
            yield client, listening
    finally:
        await task_manager.stop()


def asked_in(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "ha/default/jobs" / JOB / "asked").glob("*"))


def savepoints(directory: Path) -> list[Path]:
    return list((directory / "savepoints").glob("*/_metadata"))


async def test_a_job_that_was_being_canceled_is_canceled(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path, Deaf("tm-1")) as (client, _):
        await run_job(client)
        assert not (await client.CancelJob(pb.JobRequest(job_id=JOB))).HasField("error")
        assert asked_in(tmp_path) == ["cancel"], "before the client is answered"
        await watch_until(client, JOB, lambda status: status.state == "CANCELLING")
    task_manager = FakeTaskManager("tm-2", slots=4)
    async with leading_job_manager(tmp_path, task_manager) as (client, _):
        [job] = (await client.ListJobs(pb.ListJobsRequest(include_terminal=True))).jobs
        assert job.state == "CANCELED"
        assert "submit" not in task_manager.story
    assert jobs_in(tmp_path) == []


async def test_a_savepoint_that_was_under_way_is_taken_and_told_under_its_old_ids(tmp_path: Path) -> None:
    """That of a gRPC client, and that of a REST client, which asks for it as Flink's does."""
    request = pb.TriggerSavepointRequest(job_id=JOB, target_directory=str(tmp_path / "savepoints"), request_id=REQUEST)
    path = f"/v1/jobs/{JOB}/savepoints"
    async with leading_job_manager(tmp_path, Deaf("tm-1")) as (client, listening):
        await run_job(client)
        assert (await client.TriggerSavepoint(request)).in_progress
        body = {"target-directory": str(tmp_path / "savepoints"), "triggerId": "f" * 32}
        await send(listening.rest_port, "POST", path, 202, json=body)
        await watch_until(client, JOB, lambda _: len(asked_in(tmp_path)) == 2)
        assert savepoints(tmp_path) == []
    async with leading_job_manager(tmp_path, FakeTaskManager("tm-2", slots=4)) as (client, listening):
        request.wait_ms = 20_000
        taken = await client.TriggerSavepoint(request)
        assert not taken.HasField("error"), taken.error
        by_rest = (await completed(listening.rest_port, path, "f" * 32))["location"]
        told = {taken.path, by_rest.removeprefix("file:")}
        assert told == {str(metadata.parent) for metadata in savepoints(tmp_path)}
        assert len(told) == 2
        await watch_until(client, JOB, lambda _: asked_in(tmp_path) == [])


async def test_a_stop_that_has_failed_is_not_done_by_the_next_jobmanager(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("no directory")
    async with leading_job_manager(tmp_path, FakeTaskManager("tm-1", slots=4)) as (client, _):
        await run_job(client)
        request = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(tmp_path / "a-file"), wait_ms=20_000)
        failed = await client.StopWithSavepoint(request)
        assert failed.HasField("error")
        await watch_until(client, JOB, lambda _: asked_in(tmp_path) == [])


async def test_the_id_of_a_request_is_one(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path, FakeTaskManager("tm-1", slots=4)) as (client, _):
        await run_job(client)
        request = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(tmp_path), request_id="../../store")
        refused = await client.StopWithSavepoint(request)
        assert "32 hex digits" in refused.error.message
