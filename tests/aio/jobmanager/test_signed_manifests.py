"""A JobManager with signed manifests restores what it has signed, by a client's word and from its job store, and says why it restores nothing else."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import JOB, cluster, is_running, make_graph, run_job, submit, watch_until
from tests.aio.jobmanager.test_high_availability import jobs_in, leading_job_manager, listed
from tests.aio.jobmanager.test_snapshots import savepoint
from tidegate.model.ids import JobId
from tidegate.pb import jobmanager_pb2 as pb

OTHER, THIRD = JobId("b" * 32), JobId("c" * 32)
SIGNED = {"tidegate_security_signing_manifests": "true"}


async def test_a_signed_savepoint_is_restored_and_an_unsigned_one_is_not(tmp_path: Path) -> None:
    async with cluster("tm-1", "tm-2") as (client, _, _):
        await run_job(client)
        unsigned = (await savepoint(client, str(tmp_path))).path
        assert unsigned
    async with cluster("tm-1", "tm-2", **SIGNED) as (client, _, _):
        await run_job(client)
        signed = (await savepoint(client, str(tmp_path))).path
        assert signed
        refused = await submit(client, replace(make_graph(), job_id=OTHER), restore_path=unsigned)
        assert refused.error.code == "not-signed"
        assert f"{unsigned}/_metadata: it is not signed" in refused.error.message
        assert "tidegate.security.signing.manifests" in refused.error.message
        assert list(await listed(client)) == [JOB]
        answer = await submit(client, replace(make_graph(), job_id=THIRD), restore_path=signed)
        assert not answer.HasField("error"), answer.error
        await client.CancelJob(pb.JobRequest(job_id=JOB))  # for its slots
        await watch_until(client, THIRD, is_running)


async def test_a_job_goes_on_from_signed_checkpoints_and_from_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was completed before the option was set keeps its job in the store, until the option is off again."""

    async def checkpointed(**more: str) -> int:
        async with leading_job_manager(tmp_path, **more) as (client, _):
            if not await listed(client):
                await run_job(client)
            await watch_until(client, JOB, is_running)
            answer = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=20_000))
            assert not answer.HasField("error"), answer.error
            restored: int = (await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))).restored
            return restored

    assert await checkpointed() == 0
    kept = jobs_in(tmp_path)
    with caplog.at_level(logging.ERROR):
        async with leading_job_manager(tmp_path, **SIGNED) as (client, _):
            assert await listed(client) == {}
    assert "the job is not recovered, and stays in" in caplog.text
    assert "/_metadata: it is not signed" in caplog.text
    assert jobs_in(tmp_path) == kept
    assert await checkpointed() == 1


async def test_a_job_goes_on_from_signed_checkpoints(tmp_path: Path) -> None:
    for lives in range(2):
        async with leading_job_manager(tmp_path, **SIGNED) as (client, _):
            if not lives:
                await run_job(client)
            await watch_until(client, JOB, is_running)
            answer = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=20_000))
            assert not answer.HasField("error"), answer.error
            listing = await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))
            assert listing.restored == lives
