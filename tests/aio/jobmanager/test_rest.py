"""REST answers of a running job: every key and type that Flink's own clients require."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.aio.jobmanager.cluster import JOB, cluster, run_job, running_job_manager, start_job, watch_until
from tidegate.pb import jobmanager_pb2 as pb


async def get(port: int, path: str, status: int = 200, **options: Any) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://localhost:{port}{path}", **options) as answer,
    ):
        assert answer.status == status, await answer.text()
        assert answer.headers["content-type"] == "application/json; charset=UTF-8"
        assert "access-control-allow-origin" not in answer.headers
        return await answer.json()


async def test_what_flinks_clients_ask_first(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, listening):
        await start_job(client, execution_checkpointing_interval="50 ms", execution_checkpointing_dir=str(tmp_path))
        await watch_until(client, JOB, lambda status: status.checkpoints_completed >= 2)
        port = listening.rest_port
        overview = await get(port, "/v1/overview", data=b"{}")
        assert (overview["taskmanagers"], overview["slots-total"], overview["jobs-running"]) == (1, 2, 1)
        [item] = (await get(port, "/jobs/overview"))["jobs"]
        assert (item["jid"], item["state"], item["tasks"]["total"], item["tasks"]["running"]) == (JOB, "RUNNING", 4, 4)
        job = await get(port, f"/jobs/{JOB}")
        assert [vertex["status"] for vertex in job["vertices"]] == ["RUNNING", "RUNNING"]
        assert job["status-counts"]["RUNNING"] == 2
        assert job["plan"]["nodes"][0]["inputs"] == [
            {"num": 0, "id": "1" * 32, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
        ]
        assert "inputs" not in job["plan"]["nodes"][1]
        checkpoints = await get(port, f"/v1/jobs/{JOB}/checkpoints")
        assert checkpoints["counts"]["completed"] >= 2
        latest = checkpoints["latest"]["completed"]
        assert (latest["className"], latest["num_subtasks"], latest["num_acknowledged_subtasks"]) == ("completed", 4, 4)
        assert latest["external_path"].startswith(f"file:{tmp_path}/{JOB}/chk-")
        [view] = (await get(port, "/taskmanagers"))["taskmanagers"]
        assert (view["id"], view["slotsNumber"], view["freeSlots"], view["assignedTasks"]) == ("tm-1", 2, 0, 4)
        assert (await get(port, "/config"))["flink-version"].startswith("2.")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        (f"/jobs/{JOB}", 404, f"Job {JOB} not found"),
        (f"/jobs/{JOB}/checkpoints", 404, f"Job {JOB} not found"),
        ("/jobs/nonsense", 400, "not a job id"),
        ("/nothing", 404, "Unable to load requested file /nothing."),
    ],
)
async def test_errors_have_flinks_shape(path: str, status: int, text: str) -> None:
    async with running_job_manager() as listening:
        body = await get(listening.rest_port, path, status)
        assert list(body) == ["errors"]
        assert text in body["errors"][0]
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"http://localhost:{listening.rest_port}/overview")
            assert (answer.status, await answer.json()) == (404, {"errors": ["Not found: /overview"]})


async def send(port: int, method: str, path: str, status: int, **options: Any) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://localhost:{port}{path}", **options) as answer,
    ):
        assert answer.status == status, await answer.text()
        return await answer.json()


async def completed(port: int, path: str, trigger: str) -> Any:
    """The result of an operation, asked for as Flink's client does."""
    async with asyncio.timeout(20):
        while (body := await get(port, f"{path}/{trigger}"))["status"]["id"] != "COMPLETED":
            pass
    return body["operation"]


def files_of(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_checkpoint_savepoint_disposal_and_cancel_by_rest(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, listening):
        await run_job(client, execution_checkpointing_dir=str(tmp_path))
        port, job = listening.rest_port, f"/v1/jobs/{JOB}"
        trigger = (await send(port, "POST", f"{job}/checkpoints", 202, json={"checkpointType": "FULL"}))["request-id"]
        assert await completed(port, f"{job}/checkpoints", trigger) == {"checkpointId": 1}
        body = {"target-directory": f"file://{tmp_path}/sp", "cancel-job": False, "triggerId": "f" * 32}
        for _ in range(2):
            assert await send(port, "POST", f"{job}/savepoints", 202, json=body) == {"request-id": "f" * 32}
        location = (await completed(port, f"{job}/savepoints", "f" * 32))["location"]
        assert location.startswith(f"file:{tmp_path}/sp/savepoint-{JOB[:6]}-"), location
        directory = Path(location.removeprefix("file:"))
        assert directory / "_metadata" in files_of(directory)
        assert files_of(directory.parent) == [directory], "the second trigger was the same one"
        disposal = await send(port, "POST", "/v1/savepoint-disposal", 200, json={"savepoint-path": location})
        assert await completed(port, "/v1/savepoint-disposal", disposal["request-id"]) == {}
        assert files_of(directory.parent) == []
        assert await send(port, "PATCH", f"{job}?mode=cancel", 202, data=b"{}") == {}
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        result = (await get(port, f"{job}/execution-result"))["job-execution-result"]
        assert result["application-status"] == "CANCELED"


@pytest.mark.parametrize("drain", [False, True])
async def test_stop_with_a_savepoint_by_rest(drain: bool, tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, listening):
        await start_job(client, execution_checkpointing_interval="100 ms")
        await watch_until(client, JOB, lambda status: status.checkpoints_completed >= 1)
        port, job = listening.rest_port, f"/v1/jobs/{JOB}"
        nowhere = await send(port, "POST", f"{job}/stop", 400, json={"targetDirectory": None, "drain": drain})
        assert "execution.checkpointing.savepoint-dir" in nowhere["errors"][0]
        body = {"targetDirectory": str(tmp_path), "drain": drain, "formatType": "CANONICAL", "triggerId": None}
        trigger = (await send(port, "POST", f"{job}/stop", 202, json=body))["request-id"]
        location = (await completed(port, f"{job}/savepoints", trigger))["location"]
        assert Path(location.removeprefix("file:")) in files_of(tmp_path)
        assert (await get(port, f"{job}/status")) == {"status": "FINISHED"}


async def test_what_a_client_of_the_other_protocol_changed_is_told_at_once() -> None:
    """Answers are repeated for three seconds, but not over a change."""
    async with cluster("tm-1") as (client, _, listening):
        await run_job(client)
        job = f"/jobs/{JOB}"
        assert (await get(listening.rest_port, job))["state"] == "RUNNING"
        assert not (await client.CancelJob(pb.JobRequest(job_id=JOB))).HasField("error")
        assert (await get(listening.rest_port, job))["state"] in ("CANCELLING", "CANCELED")
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        assert (await get(listening.rest_port, job))["state"] == "CANCELED"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /overview HTTP/1.1\r\nHost: localhost\r\nbad header\x00: 1\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
    ],
    ids=["a header with a null", "an unknown version", "TLS"],
)
async def test_what_is_no_http_leaves_no_stack_trace(request_bytes: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with running_job_manager() as listening:
        reader, writer = await asyncio.open_connection("localhost", listening.rest_port)
        writer.write(request_bytes)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), answer
    assert b"Traceback" not in answer
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]


async def test_a_body_that_is_not_what_its_encoding_says_leaves_no_stack_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Refused for its host, so that the server reads the body only to be rid of it."""
    lines = (b"PATCH /jobs/aa HTTP/1.1", b"Host: x", b"Content-Encoding: gzip", b"Content-Length: 3", b"", b"abc")
    async with running_job_manager() as listening:
        reader, writer = await asyncio.open_connection("localhost", listening.rest_port)
        writer.write(b"\r\n".join(lines))
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 403"), answer
    (told,) = (record for record in caplog.records if record.name == "tidegate.jobmanager.rest.http")
    assert (told.levelname, told.exc_info) == ("INFO", None)
    assert "Can not decode content-encoding: gzip" in told.getMessage()


async def test_no_answer_says_which_library_serves_it() -> None:
    async with running_job_manager() as listening, aiohttp.ClientSession() as session:
        for path in ("/overview", "/nothing", "/"):
            async with session.get(f"http://localhost:{listening.rest_port}{path}") as answer:
                assert "Server" not in answer.headers
