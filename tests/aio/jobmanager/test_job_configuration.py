"""What a JobManager takes over of a job's configuration, and hands on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.aio.jobmanager.cluster import JOB, cluster, is_running, put_blob, run_job, submit, watch_until
from tidegate.model.ids import JobId
from tidegate.model.masking import HIDDEN
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import graph_from_pb

STORE, TOKEN, SECRET = "of-the-keystore", "tgu_of_a_user", "of-the-bucket"
OF_THE_CLIENT = {
    "security_ssl_internal_keystore__password": STORE,
    "security_ssl_rest_enabled": "true",
    "tidegate_security_token": TOKEN,
    "tidegate_security_users_file": "/etc/users",
    "s3_secret__key": SECRET,
    "pipeline_name": "with secrets",
}
CARRIED = {"s3.secret-key": SECRET, "pipeline.name": "with secrets"}


async def graph_of(client: Any, job_id: str = JOB) -> pb.JobGraphAnswer:
    answer: pb.JobGraphAnswer = await client.GetJobGraph(pb.JobRequest(job_id=job_id))
    assert not answer.HasField("error"), answer.error
    return answer


async def test_what_processes_prove_themselves_with_does_not_go_with_a_job(tmp_path: Path) -> None:
    """An earlier client sends its whole configuration; that of the JobManager has secrets, too."""
    settings = {"security_ssl_rest_keystore__password": STORE, "metrics_reporter_dd_apikey": TOKEN}
    kept = {
        "high__availability_type": "filesystem",
        "high__availability_storageDir": str(tmp_path / "ha"),
        "heartbeat_timeout": "60 s",
    }
    async with cluster("tm-1", **settings, **kept) as (client, (task_manager,), _):
        await run_job(client, **OF_THE_CLIENT)
        deployed = next(iter(task_manager.deployments.values())).configuration
        stored = [path.read_bytes() for path in (tmp_path / "ha").rglob("*") if path.is_file()]
        assert any(SECRET.encode() in content for content in stored)
        assert not any(secret.encode() in content for content in stored for secret in (STORE, TOKEN))
        assert {key: deployed[key] for key in CARRIED} == CARRIED
        assert [key for key, text in deployed.items() if key.startswith("security.") or text in (STORE, TOKEN)] == []
        assert dict((await graph_of(client)).graph.configuration) == {**CARRIED, "s3.secret-key": HIDDEN}


async def test_a_job_that_is_submitted_as_it_was_shown_has_its_secrets() -> None:
    async with cluster("tm-1") as (client, (task_manager,), _):
        await run_job(client, **OF_THE_CLIENT)
        shown = graph_from_pb((await graph_of(client)).graph)
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        again = replace(shown, job_id=JobId("b" * 32))
        await put_blob(client)
        refused = await submit(client, again)
        assert (
            "the value of s3.secret-key is hidden, as in the output that it comes from; submit it with its value"
            in refused.error.message
        )
        refused = await submit(client, again, hidden_in="c" * 32)
        assert (
            f"the value of s3.secret-key is hidden, and job {'c' * 32} on this cluster has none"
            in refused.error.message
        )
        task_manager.deployments.clear()
        accepted = await submit(client, again, hidden_in=JOB)
        assert not accepted.HasField("error"), accepted.error
        await watch_until(client, "b" * 32, is_running)
        assert {one.configuration["s3.secret-key"] for one in task_manager.deployments.values()} == {SECRET}
        assert dict((await graph_of(client, "b" * 32)).graph.configuration) == {**CARRIED, "s3.secret-key": HIDDEN}
