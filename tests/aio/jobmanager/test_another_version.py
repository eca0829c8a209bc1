"""A cluster changes its version: what the next one goes on with, and what it refuses."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    KEY,
    client_of,
    is_running,
    make_graph,
    put_blob,
    run_job,
    running_job_manager,
    submit,
    watch_until,
)
from tests.aio.jobmanager.test_high_availability import jobs_in, kept_in, leading_job_manager, listed
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.versions import JOB_FORMAT

OF_A_CLUSTER = (
    "tidegate.jobmanager.service.clients.submission",
    "tidegate.jobmanager.service.rpc.task_manager_servicer",
    "tests.aio.jobmanager.cluster",
)
"""Modules that hold the version of the JobManager, and that of TaskManagers and clients."""


async def test_the_next_version_takes_a_job_over_without_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its newest checkpoint, under new attempts: a TaskManager of the version before is refused, and ends."""
    async with leading_job_manager(tmp_path) as (client, _):
        before = await run_job(client)
        taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
        assert not taken.HasField("error"), taken.error
    for place in OF_A_CLUSTER:
        monkeypatch.setattr(f"{place}.VERSION", "9.9.9")
    async with leading_job_manager(tmp_path) as (client, [task_manager, _]):
        after = await watch_until(client, JOB, is_running)
        assert after.start_ms == before.start_ms
        assert after.checkpoints_completed >= 1
        assert (await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))).restored == 1
        old = task_manager.registration("127.0.0.1:1", task_manager_id="tm-3", session="s", version="0.1.0")
        refused = await task_manager.job_manager.RegisterTaskManager(old)
        assert "tidegate 0.1.0" in refused.error.message
        assert "tidegate 9.9.9" in refused.error.message
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")


async def test_a_job_in_another_form_is_refused_in_words_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        await submit(client, make_graph())
    monkeypatch.setattr("tidegate.jobmanager.service.clients.submission.VERSION", "9.9.9")
    monkeypatch.setattr("tidegate.jobmanager.service.clients.submission.JOB_FORMAT", JOB_FORMAT + 1)
    caplog.set_level(logging.ERROR)
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        assert await listed(client) == {}
    assert "the job is not recovered" in caplog.text
    assert (
        f"the job was submitted to tidegate 0.1.0 in job format {JOB_FORMAT}, and this JobManager, tidegate 9.9.9, reads "
        f"format {JOB_FORMAT + 1}; start tidegate 0.1.0 again" in caplog.text
    )
    assert jobs_in(tmp_path) == [JOB]
    assert [path.name for path in (tmp_path / "ha/default/blobs").iterdir()] == [f"{KEY}-1"]


async def test_a_cluster_changes_its_version_by_a_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JobManager, TaskManagers and client of the next version go on from what the version before has written."""
    async with leading_job_manager(tmp_path, execution_checkpointing_interval="1 h") as (client, _):
        await run_job(client)
        request = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(tmp_path / "savepoints"), wait_ms=20_000)
        stopped = await client.StopWithSavepoint(request)
        assert not stopped.HasField("error"), stopped.error
        await watch_until(client, JOB, lambda status: status.state == "FINISHED")
    [metadata] = (tmp_path / "savepoints").glob("*/_metadata")
    for place in OF_A_CLUSTER:
        monkeypatch.setattr(f"{place}.VERSION", "9.9.9")
    async with leading_job_manager(tmp_path, execution_checkpointing_interval="1 h") as (client, _):
        await put_blob(client)
        answer = await submit(client, make_graph(), restore_path=str(metadata.parent))
        assert not answer.HasField("error"), answer.error
        await watch_until(client, JOB, is_running)
