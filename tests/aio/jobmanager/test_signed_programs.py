"""A JobManager takes and takes over jobs alone whose programs a client has signed, and opens none to find out."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    client_of,
    cluster,
    is_running,
    make_graph,
    put_blob,
    run_job,
    running_job_manager,
    submit,
    watch_until,
)
from tests.aio.jobmanager.test_high_availability import jobs_in, kept_in, leading_job_manager, listed
from tests.own import own_signing, own_transport
from tidegate.cli.client import JobManagerClient
from tidegate.jobmanager.service.high_availability.job_store import JobStore, StoredPlan
from tidegate.model.errors import NotSigned
from tidegate.model.graph import JobGraph
from tidegate.model.ids import BlobKey, JobId
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.security.signing import Signing
from tidegate.wire.convert import graph_to_pb
from tidegate.wire.versions import JOB_FORMAT, VERSION


async def submit_as_it_is(client: Any, graph: JobGraph) -> pb.SubmitJobResponse:
    request = pb.SubmitJobRequest(graph=graph_to_pb(graph), client_version=VERSION, job_format=JOB_FORMAT)
    answer: pb.SubmitJobResponse = await client.SubmitJob(request)
    return answer


async def test_an_unsigned_and_an_altered_program_are_refused_and_a_signed_one_runs() -> None:
    async with cluster("tm-1", "tm-2") as (client, task_managers, _):
        forged = BlobKey(await put_blob(client, b"another program"))
        answer = await submit_as_it_is(client, make_graph())
        assert answer.error.code == "not-signed"
        assert f"job {JOB}, vertex 'numbers'" in answer.error.message
        assert "is not signed" in answer.error.message
        signed = own_signing()().signed(make_graph())
        first = replace(signed.vertices[0], program=forged)
        answer = await submit_as_it_is(client, replace(signed, vertices=(first, *signed.vertices[1:])))
        assert answer.error.code == "not-signed"
        assert "it was signed with another program" in answer.error.message
        assert await listed(client) == {}
        await run_job(client)
        deployed = [one for task_manager in task_managers for one in task_manager.deployments.values()]
        assert {one.signature for one in deployed} == {vertex.signature for vertex in signed.vertices}


async def test_a_cluster_that_signs_nothing_takes_what_is_not_signed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        running_job_manager(tidegate_security_signing_enabled="false") as listening,
        client_of(listening) as client,
    ):
        await put_blob(client)
        answer = await submit_as_it_is(client, make_graph())
        assert not answer.HasField("error"), answer.error
    assert "programs are not signed: tidegate.security.signing.enabled is false" in caplog.text


async def test_a_program_that_was_altered_in_the_job_store_is_not_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = JobStore.plan

    def altered(store: JobStore, job_id: JobId, request: pb.SubmitJobRequest) -> tuple[StoredPlan, bytes]:
        """As if another process had written the entry, with the digest of its content."""
        request.graph.vertices[0].program = "0" * 64
        return plan(store, job_id, request)

    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        with monkeypatch.context() as patched:
            patched.setattr(JobStore, "plan", altered)
            answer = await submit(client, make_graph())
        assert not answer.HasField("error"), answer.error
    kept = jobs_in(tmp_path)
    with caplog.at_level(logging.ERROR):
        async with leading_job_manager(tmp_path) as (client, _):
            assert await listed(client) == {}
    assert "the job is not recovered, and stays in" in caplog.text
    assert "it was signed with another program" in caplog.text
    assert jobs_in(tmp_path) == kept


async def test_a_signed_job_is_taken_over_with_its_signatures(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path) as (client, _):
        await run_job(client)
    async with leading_job_manager(tmp_path) as (client, task_managers):
        await watch_until(client, JOB, is_running)
        signed = own_signing()().signed(make_graph())
        deployed = [one for task_manager in task_managers for one in task_manager.deployments.values()]
        assert {one.signature for one in deployed} == {vertex.signature for vertex in signed.vertices}


async def test_what_a_jobmanager_shows_is_signed_anew_only_if_it_was_signed() -> None:
    """A roll-back starts the old program under another id, with the secrets that its job has."""
    async with cluster("tm-1", "tm-2") as (stub, _, listening):
        await run_job(stub, spark_hadoop_fs_s3a_secret_key="of-the-job")
        client = JobManagerClient(f"127.0.0.1:{listening.rpc_port}", transport=own_transport(), signing=own_signing())
        other = JobManagerClient(
            f"127.0.0.1:{listening.rpc_port}", transport=own_transport(), signing=lambda: Signing((b"another",))
        )
        try:
            graph, blobs = await asyncio.to_thread(client.program_of, JOB)
            again = replace(graph, job_id=JobId("b" * 32))
            assert await asyncio.to_thread(client.submit, again, blobs, hidden_in=JOB) == again.job_id
            with pytest.raises(NotSigned, match="not by a key of this cluster"):
                await asyncio.to_thread(other.program_of, JOB)
        finally:
            client.close()
            other.close()
