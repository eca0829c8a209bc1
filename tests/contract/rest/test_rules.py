"""Flink's rules of transport: paths, verbs, statuses, error bodies, operations, and who may change something."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from jobmanager.machines import commands as c
from jobmanager.rest.app import MAX_BODY_BYTES, RestEndpoint
from tests.contract.rest.scene import Scene, recorded_scene
from tests.unit.jobmanager.machines.cluster_kit import FAULT, JOB, Cluster, running_job, two_stage, vertex_id
from tidegate.model.ids import hex_id
from tidegate.model.states import ExecutionState, JobState

Client = TestClient[Any, Any]
OTHER = hex_id("no such job")
SINK = vertex_id("sink")


@pytest.fixture
def scene() -> Scene:
    return recorded_scene()


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    async with serving(scene) as client:
        yield client


def serving(scene: Scene) -> Client:
    endpoint = RestEndpoint(scene, scene.shut_down, scene.dispose, scene.now_ms)
    return TestClient(TestServer(endpoint.application()))


async def ask(client: Client, method: str, path: str, status: int, **options: Any) -> Any:
    answer = await client.request(method, path, **options)
    assert answer.status == status, await answer.text()
    body = await answer.json()
    if status >= 400 or status == 308:
        assert list(body) == ["errors"]
        assert all(isinstance(error, str) for error in body["errors"])
    return body


async def operation(client: Client, path: str, trigger: str) -> Any:
    for _ in range(100):
        body = await ask(client, "GET", f"{path}/{trigger}", 200)
        if body["status"]["id"] == "COMPLETED":
            return body["operation"]
    raise AssertionError(f"{path}/{trigger} goes on")


# ---- paths and verbs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/x", 404, "Unable to load requested file /x."),
        ("GET", "/v2/overview", 404, "Unable to load requested file /v2/overview."),
        ("POST", "/overview", 404, "Not found: /overview"),
        ("PUT", "/v1/jobs", 404, "Not found: /v1/jobs"),
        ("OPTIONS", "/jobs/overview", 404, "Not found: /jobs/overview"),
        ("GET", "/jobs/nonsense", 400, "(jobid)"),
        ("GET", f"/jobs/{JOB}/vertices/7", 400, "(vertexid)"),
        ("GET", f"/jobs/{JOB}/checkpoints/details/-1", 400, "(checkpointid)"),
        ("GET", f"/jobs/{JOB}/checkpoints/details/{'9' * 40}", 400, "(checkpointid)"),
        ("GET", f"/jobs/{OTHER}", 404, f"Job {OTHER} not found"),
        ("GET", f"/jobs/{OTHER}/checkpoints", 404, f"Job {OTHER} not found"),
        ("GET", f"/jobs/{OTHER}/execution-result", 404, f"Job {OTHER} not found"),
        ("GET", f"/jobs/{OTHER}/status", 500, "Internal server error."),
        ("GET", "/taskmanagers/nobody", 500, "Internal server error."),
        ("GET", f"/jobs/{JOB}/vertices/{OTHER}", 404, f"JobVertex {OTHER} not found"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/subtasks/2", 404, "Invalid subtask index"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/subtasks/0/attempts/7", 404, "Attempt 7 not found"),
        ("GET", f"/jobs/{JOB}/checkpoints/details/77", 404, "statistics for checkpoint 77"),
        ("GET", f"/jobs/{JOB}/checkpoints/details/2/subtasks/{OTHER}", 404, "statistics for task"),
        ("GET", f"/jobs/{JOB}/checkpoints/{OTHER}", 404, f"no checkpoint operation with triggerId={OTHER}"),
        ("GET", f"/jobs/{JOB}/savepoints/{OTHER}", 404, f"no savepoint operation with triggerId={OTHER}"),
        ("GET", f"/jobs/{JOB}/exceptions?maxExceptions=many", 400, "(maxExceptions)"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/subtasks/metrics?subtasks=1-x", 400, "(subtasks)"),
        ("GET", "/jobs/metrics?agg=median", 400, "(agg)"),
        ("PATCH", f"/jobs/{JOB}?mode=stop", 308, '"stop" has been removed'),
        ("PATCH", f"/jobs/{JOB}?mode=kill", 400, "(mode)"),
        ("PATCH", f"/jobs/{JOB}/rescaling?parallelism=3", 503, "Rescaling is temporarily disabled"),
        ("POST", "/jobs", 501, "tidegate run"),
        ("POST", "/jars/upload", 501, "tidegate run"),
        ("GET", "/taskmanagers/tm-1/thread-dump", 501, "log files of that process"),
        ("GET", "/taskmanagers/nobody/thread-dump", 500, "Internal server error."),
    ],
)
async def test_errors(method: str, path: str, status: int, text: str, client: Client) -> None:
    body = await ask(client, method, path, status, allow_redirects=False)
    assert text in body["errors"][0]


async def test_head_is_unknown(client: Client) -> None:
    assert (await client.head("/overview")).status == 404


@pytest.mark.parametrize("path", ["/jobs/", "/v1/jobs", f"/jobs/{JOB.upper()}", "/overview?what=ever"])
async def test_paths_that_work_too(path: str, client: Client) -> None:
    await ask(client, "GET", path, 200, data=b"{}")


async def test_a_job_without_checkpoints_says_so() -> None:
    async with serving(Scene(running_job())) as client:
        for path in ("checkpoints", "checkpoints/config"):
            body = await ask(client, "GET", f"/jobs/{JOB}/{path}", 404)
            assert "Checkpointing was not enabled" in body["errors"][0]


# ---- changes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"/v1/jobs/{JOB}?mode=cancel"),
        ("PATCH", f"/jobs/{JOB}"),
        ("GET", f"/jobs/{JOB}/yarn-cancel"),
        ("POST", f"/applications/{JOB}/cancel"),
    ],
)
async def test_cancel(method: str, path: str, scene: Scene, client: Client) -> None:
    assert await ask(client, method, path, 202, data=b"{}") == {}
    assert scene.cluster.job_state() is JobState.CANCELLING
    assert (await ask(client, "GET", f"/jobs/{JOB}", 200))["state"] == "CANCELLING"
    scene.cluster.cancel_tasks()
    assert scene.cluster.job_state() is JobState.CANCELED
    assert await ask(client, method, path, 202) == {}, "again is no error"
    result = await ask(client, "GET", f"/jobs/{JOB}/execution-result", 200)
    assert result["status"] == {"id": "COMPLETED"}
    assert result["job-execution-result"]["application-status"] == "CANCELED"


async def test_a_job_that_ended_otherwise_cannot_be_canceled() -> None:
    cluster = failed_job()
    async with serving(Scene(cluster)) as client:
        body = await ask(client, "PATCH", f"/jobs/{JOB}?mode=cancel", 409)
        assert "already reached another terminal state (FAILED)" in body["errors"][0]
        overview = await ask(client, "GET", "/overview", 200)
        assert (overview["jobs-failed"], overview["jobs-running"]) == (1, 0)


async def test_shut_down(scene: Scene, client: Client) -> None:
    assert await ask(client, "DELETE", "/v1/cluster", 200) == {}
    assert scene.shut_down_for == ["a client asked for it (DELETE /cluster)"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"/jobs/{JOB}?mode=cancel"),
        ("GET", f"/v1/jobs/{JOB}/yarn-cancel"),
        ("POST", f"/jobs/{JOB}/savepoints"),
        ("DELETE", "/cluster"),
        ("POST", "/jars/upload"),
    ],
)
async def test_foreign_pages_change_nothing(
    headers: dict[str, str], method: str, path: str, scene: Scene, client: Client
) -> None:
    sent = len(scene.cluster.sent)
    await ask(client, method, path, 403, headers=headers)
    assert (len(scene.cluster.sent), scene.shut_down_for) == (sent, [])
    await ask(client, "GET", "/overview", 200, headers=headers)


async def test_our_own_pages_may(scene: Scene, client: Client) -> None:
    own = f"127.0.0.1:{client.port}"
    headers = {"Host": own, "Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"}
    await ask(client, "PATCH", f"/jobs/{JOB}", 202, headers=headers)
    assert scene.cluster.job_state() is JobState.CANCELLING


# ---- operations ----------------------------------------------------------------------------------------------------------


async def test_a_checkpoint_by_trigger(scene: Scene, client: Client) -> None:
    path = f"/v1/jobs/{JOB}/checkpoints"
    mine = hex_id("trigger")
    body = {"checkpointType": "FULL", "triggerId": mine}
    assert await ask(client, "POST", path, 202, json=body) == {"request-id": mine}
    status = await ask(client, "GET", f"{path}/{mine}", 200)
    assert status == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    assert await ask(client, "POST", path, 202, json=body) == {"request-id": mine}, "the same operation"
    triggered = scene.cluster.of(c.TriggerCheckpoint)[-1]
    assert (triggered.checkpoint_id, triggered.options.is_full) == (3, True)
    scene.cluster.complete_checkpoint(3)
    assert await operation(client, path, mine) == {"checkpointId": 3}
    assert scene.cluster.checkpoints().completed == 3, "one trigger, one checkpoint"


async def test_a_checkpoint_that_fails_is_completed_with_its_cause(scene: Scene, client: Client) -> None:
    path = f"/jobs/{JOB}/checkpoints"
    trigger = (await ask(client, "POST", path, 202))["request-id"]
    scene.cluster.decline(scene.cluster.attempt("sink"), 3)
    cause = (await operation(client, path, trigger))["failureCause"]
    assert "Checkpoint was declined" in cause["stack-trace"]
    assert b"Checkpoint was declined" in base64.b64decode(cause["serialized-throwable"])


async def test_a_savepoint_by_trigger(scene: Scene, client: Client) -> None:
    path = f"/jobs/{JOB}/savepoints"
    nowhere = await ask(client, "POST", path, 400, json={"target-directory": None, "cancel-job": False})
    assert "execution.checkpointing.savepoint-dir" in nowhere["errors"][0]
    body = {"target-directory": "/sp", "cancel-job": False, "formatType": "CANONICAL", "triggerId": None}
    trigger = (await ask(client, "POST", path, 202, json=body))["request-id"]
    assert scene.cluster.of(c.CreateLocation)[-1].target_directory == "/sp"
    scene.cluster.complete_checkpoint(3)
    assert await operation(client, path, trigger) == {"location": "file:/cp/chk-3"}
    checkpoints = await ask(client, "GET", f"/jobs/{JOB}/checkpoints", 200)
    assert checkpoints["latest"]["savepoint"]["checkpoint_type"] == "SAVEPOINT"
    assert checkpoints["latest"]["completed"]["id"] == 2


async def test_a_savepoint_of_a_job_that_is_not_there_fails_in_its_status(client: Client) -> None:
    path = f"/jobs/{OTHER}/savepoints"
    trigger = (await ask(client, "POST", path, 202, json={}))["request-id"]
    assert OTHER in (await operation(client, path, trigger))["failure-cause"]["stack-trace"]


async def test_disposal(scene: Scene, client: Client) -> None:
    body = await ask(client, "POST", "/savepoint-disposal", 200, json={"savepoint-path": "file:/sp/savepoint-1"})
    assert await operation(client, "/savepoint-disposal", body["request-id"]) == {}
    assert scene.disposed == ["/sp/savepoint-1"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'{"triggerId": "x"}', b'{"triggerId": 7}', b'{"checkpointType": "HALF"}', b"[" * 100_000, b"\xff"],
)
async def test_bad_bodies(body: bytes, client: Client) -> None:
    answer = await ask(client, "POST", f"/jobs/{JOB}/checkpoints", 400, data=body)
    assert "Request did not match expected format" in answer["errors"][0]


async def test_a_body_that_is_too_large(client: Client) -> None:
    await ask(client, "POST", f"/jobs/{JOB}/checkpoints", 413, data=io.BytesIO(b" " * (MAX_BODY_BYTES + 1)))


# ---- failures ------------------------------------------------------------------------------------------------------------


def failed_job() -> Cluster:
    cluster = running_job(two_stage(), {"restart-strategy.type": "none"})
    cluster.fail(cluster.attempt("sink", 1))
    cluster.cancel_tasks()
    assert cluster.job_state() is JobState.FAILED
    return cluster


async def test_a_failure_is_told_in_flinks_words() -> None:
    async with serving(Scene(failed_job())) as client:
        history = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]
        [entry] = history["entries"]
        assert history["truncated"] is False
        assert FAULT.message in entry["stacktrace"]
        assert (entry["taskName"], entry["taskManagerId"]) == ("sink (2/2) - execution #0", "tm-1")
        assert entry["concurrentExceptions"] == []
        none = await ask(client, "GET", f"/jobs/{JOB}/exceptions?maxExceptions=0", 200)
        assert none == {"exceptionHistory": {"entries": [], "truncated": True}}
        result = (await ask(client, "GET", f"/jobs/{JOB}/execution-result", 200))["job-execution-result"]
        assert result["application-status"] == "FAILED"
        assert FAULT.message in result["failure-cause"]["stack-trace"]
        application = await ask(client, "GET", f"/applications/{JOB}", 200)
        assert (application["status"], application["jobs"][0]["state"]) == ("FAILED", "FAILED")


async def test_attempts_that_are_over_stay_visible() -> None:
    cluster = running_job(configuration={"restart-strategy.type": "fixed-delay"})
    cluster.fail(cluster.attempt("sink"))
    cluster.cancel_tasks()
    cluster.pass_time(2_000)
    assert cluster.states() == {ExecutionState.DEPLOYING}
    async with serving(Scene(cluster)) as client:
        path = f"/jobs/{JOB}/vertices/{SINK}/subtasks/0"
        assert (await ask(client, "GET", path, 200))["attempt"] == 1
        assert (await ask(client, "GET", f"{path}/attempts/0", 200))["status"] == "FAILED"


# ---- figures -------------------------------------------------------------------------------------------------------------


async def test_metrics_of_subtasks(scene: Scene, client: Client) -> None:
    path = f"/jobs/{JOB}/vertices/{SINK}"
    asked = "get=numRecordsInPerSecond,busyTimeMsPerSecond,nothing"
    assert await ask(client, "GET", f"{path}/subtasks/metrics?{asked}&agg=max,skew", 200) == [
        {"id": "numRecordsInPerSecond", "max": 100.0, "skew": pytest.approx(4.77, abs=0.01)},
        {"id": "busyTimeMsPerSecond", "max": 250.0, "skew": 0.0},
    ]
    only = await ask(client, "GET", f"{path}/subtasks/metrics?{asked}&agg=sum&subtasks=1-9", 200)
    assert only[0] == {"id": "numRecordsInPerSecond", "sum": 90.9}
    assert await ask(client, "GET", f"{path}/metrics?get=1.numRecordsIn,9.numRecordsIn", 200) == [
        {"id": "1.numRecordsIn", "value": "909"}
    ]
    pressure = await ask(client, "GET", f"{path}/backpressure", 200)
    assert (pressure["status"], pressure["backpressureLevel"], pressure["subtasks"][0]["ratio"]) == ("ok", "low", 0.5)


async def test_before_the_first_report_nothing_is_made_up(scene: Scene, client: Client) -> None:
    scene.attempts.is_silent = True
    path = f"/jobs/{JOB}/vertices/{SINK}"
    assert await ask(client, "GET", f"{path}/watermarks", 200) == []
    assert await ask(client, "GET", f"{path}/metrics", 200) == []
    assert await ask(client, "GET", f"{path}/subtasks/metrics?get=numRecordsIn", 200) == []
    assert (await ask(client, "GET", f"{path}/backpressure", 200))["status"] == "deprecated"
    metrics = (await ask(client, "GET", path, 200))["subtasks"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (0, False)


async def test_a_pending_checkpoint_has_every_vertex_and_subtask(scene: Scene, client: Client) -> None:
    scene.cluster.pass_time(1_000)
    scene.cluster.acknowledge(scene.cluster.attempt("source"), 3)
    details = await ask(client, "GET", f"/jobs/{JOB}/checkpoints/details/3", 200)
    assert (details["className"], details["num_acknowledged_subtasks"]) == ("in_progress", 1)
    assert {v: part["num_acknowledged_subtasks"] for v, part in details["tasks"].items()} == {
        vertex_id("source"): 1,
        SINK: 0,
    }
    path = f"/jobs/{JOB}/checkpoints/details/3/subtasks"
    source = await ask(client, "GET", f"{path}/{vertex_id('source')}", 200)
    assert [subtask["className"] for subtask in source["subtasks"]] == ["completed", "pending"]
    assert source["subtasks"][1] == {"className": "pending", "index": 1, "status": "pending_or_failed"}
    assert source["summary"]["start_delay"]["p50"] == "NaN"


async def test_slots_and_the_tasks_in_them(client: Client) -> None:
    view = await ask(client, "GET", "/taskmanagers/tm-1", 200)
    assert (view["slotsNumber"], view["freeSlots"], view["assignedTasks"]) == (2, 0, 4)
    assert [slot["assignedTasks"] for slot in view["allocatedSlots"]] == [2, 2]


# ---- the process ---------------------------------------------------------------------------------------------------------


async def test_secrets_are_hidden() -> None:
    scene = Scene(running_job(), {"spark.hadoop.fs.s3a.secret.key": "s3cret", "parallelism.default": "2"})
    async with serving(scene) as client:
        for path in ("/jobmanager/config", f"/jobs/{JOB}/jobmanager/config"):
            entries = {entry["key"]: entry["value"] for entry in await ask(client, "GET", path, 200)}
            assert (entries["spark.hadoop.fs.s3a.secret.key"], entries["parallelism.default"]) == ("******", "2")


async def test_log_files_are_those_of_the_log_directory_only(tmp_path: Path, client: Client) -> None:
    assert await ask(client, "GET", "/jobmanager/logs", 200) == {"logs": []}
    await ask(client, "GET", "/jobmanager/log", 404)
    (tmp_path / "secret.txt").write_text("secret")
    logs = tmp_path / "log"
    logs.mkdir()
    (logs / "link.log").symlink_to(tmp_path / "secret.txt")
    handler = logging.FileHandler(logs / "jobmanager.log")
    logging.getLogger().addHandler(handler)
    try:
        logging.getLogger("test").warning("a line")
        listed = (await ask(client, "GET", "/jobmanager/logs", 200))["logs"]
        assert [log["name"] for log in listed] == ["jobmanager.log"]
        for path in ("/jobmanager/log", "/v1/jobmanager/logs/jobmanager.log"):
            answer = await client.get(path)
            assert (answer.status, answer.content_type) == (200, "text/plain")
            assert "a line" in await answer.text()
        for name in ("..%2Fsecret.txt", "%2e%2e%2fsecret.txt", "link.log", "..", "%00"):
            assert (await client.get(f"/jobmanager/logs/{name}")).status == 404
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


async def test_threads(client: Client) -> None:
    threads = (await ask(client, "GET", "/jobmanager/thread-dump", 200))["threadInfos"]
    assert any(
        info["threadName"] == "MainThread" and "thread_dump" in info["stringifiedThreadInfo"] for info in threads
    )


async def test_answers_are_repeated_for_a_while() -> None:
    scene = Scene(running_job(), {"rest.cache.execution-graph.timeout": "3 s"})
    async with serving(scene) as client:
        first = await ask(client, "GET", f"/jobs/{JOB}", 200)
        scene.cluster.now_ms += 2_999
        assert (await ask(client, "GET", f"/v1/jobs/{JOB}", 200))["now"] == first["now"]
        scene.cluster.now_ms += 1
        later = await ask(client, "GET", f"/jobs/{JOB}", 200)
        assert later["now"] == first["now"] + 3_000
        await ask(client, "PATCH", f"/jobs/{JOB}", 202)
        assert (await ask(client, "GET", f"/jobs/{JOB}", 200))["state"] == "CANCELLING", "who changes it sees it"
