"""Flink's rules of transport: paths, verbs, statuses, error bodies, operations, and who may change something."""

from __future__ import annotations

import base64
import io

import pytest

from tests.contract.rest.asking import Client, ask, operation, serving
from tests.contract.rest.scene import Scene, failed_job
from tests.unit.jobmanager.machines.cluster_kit import JOB, running_job, vertex_id
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.rest.http.bodies import MAX_BODY_BYTES
from tidegate.model.ids import hex_id
from tidegate.model.states import JobState

OTHER = hex_id("no such job")
SINK = vertex_id("sink")


# ---- paths and verbs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/x", 404, "Unable to load requested file /x."),
        ("GET", "/x%0Ay", 404, "Unable to load requested file /x"),
        ("GET", "/jobs/%0A", 400, "(jobid)"),
        ("GET", "/v2/overview", 404, "Unable to load requested file /v2/overview."),
        ("POST", "/overview", 404, "Not found: /overview"),
        ("PUT", "/v1/jobs", 404, "Not found: /v1/jobs"),
        ("OPTIONS", "/jobs/overview", 404, "Not found: /jobs/overview"),
        ("GET", "/jobs/nonsense", 400, "(jobid)"),
        ("GET", f"/jobs/{JOB}/vertices/7", 400, "(vertexid)"),
        ("GET", f"/jobs/{JOB}/checkpoints/details/-1", 404, "statistics for checkpoint -1"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/subtasks/0/attempts/-1", 404, "Attempt -1 not found"),
        ("GET", "/taskmanagers/nobody/logs", 404, "Could not find TaskExecutor nobody"),
        ("GET", "/taskmanagers/nobody/log", 404, "Could not find TaskExecutor nobody"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/subtasks/-1", 400, "(subtaskindex)"),
        ("GET", "/jobs/metrics?jobs=zz", 400, "(jobs)"),
        ("GET", "/jobs/metrics?agg=", 400, "(agg)"),
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
        ("PATCH", f"/jobs/{OTHER}?mode=stop", 308, '"stop" has been removed'),
        ("PATCH", f"/jobs/{JOB}?mode=kill", 400, "(mode)"),
        ("GET", f"/jobs/{JOB}/vertices/{SINK}/flamegraph?type=some", 400, "(type)"),
        ("PATCH", f"/jobs/{JOB}/rescaling?parallelism=3", 503, "Rescaling is temporarily disabled"),
        ("PATCH", f"/jobs/{JOB}/rescaling?parallelism=x", 400, "(parallelism)"),
        ("POST", "/jobs", 501, "tidegate run"),
        ("POST", f"/jobs/{JOB}/coordinators/{SINK}", 501, "the coordinators of sources accept none, as in Flink"),
        ("POST", f"/jobs/{OTHER}/coordinators/{SINK}", 404, f"Job {OTHER} not found"),
        ("GET", "/jobmanager/profiler/nothing.html", 404, "There is no profile"),
        ("GET", "/taskmanagers/tm-1/profiler/nothing.html", 404, "There is no profile"),
        ("GET", f"/datasets/delete/{OTHER}", 404, f"no operation with triggerId={OTHER}"),
        ("GET", f"/jobs/{JOB}/rescaling/zz", 400, "(triggerid)"),
        ("POST", "/jars/upload", 400, "Exactly 1 file must be sent, received 0"),
        ("POST", "/jars/nothing/run", 400, "does not exist"),
        ("POST", "/jars/..%2F..%2Fetc%2Fpasswd/run", 400, "does not exist"),
        ("DELETE", "/jars/nothing", 400, "does not exist"),
        ("GET", "/taskmanagers/tm-1/logs/nothing.log", 404, "There is no log file 'nothing.log' here."),
        ("GET", "/taskmanagers/tm-1/stdout", 404, "goes to its terminal"),
        ("GET", "/taskmanagers/nobody/thread-dump", 500, "Internal server error."),
    ],
)
async def test_errors(method: str, path: str, status: int, text: str, client: Client) -> None:
    body = await ask(client, method, path, status, allow_redirects=False)
    assert text in body["errors"][0]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("PATCH", f"/jobs/{JOB}", "[]", 400, "takes a JSON object"),
        ("PATCH", f"/jobs/{JOB}/clientHeartbeat", "{}", 400, "expiredTimestamp"),
        ("PATCH", f"/jobs/{JOB}/clientHeartbeat", '{"expiredTimestamp": "x"}', 400, "expiredTimestamp"),
        ("PUT", f"/jobs/{OTHER}/resource-requirements", "{}", 400, "does not specify resource requirements"),
        ("PUT", f"/jobs/{JOB}/resource-requirements", "{", 400, "takes a JSON object"),
        ("PUT", f"/jobs/{JOB}/resource-requirements", f'{{"{OTHER}": 1}}', 400, "missing job vertex"),
    ],
)
async def test_bodies_that_flink_refuses(
    method: str, path: str, body: str, status: int, text: str, client: Client
) -> None:
    assert text in (await ask(client, method, path, status, data=body))["errors"][0]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/jobs/{OTHER}/metrics", []),
        (f"/jobs/{OTHER}/vertices/{OTHER}/metrics?get=0.numRecordsIn", []),
        (f"/jobs/{JOB}/vertices/{OTHER}/subtasks/metrics", []),
        (f"/jobs/{JOB}/vertices/{SINK}/subtasks/7/metrics", []),
        (f"/jobs/{JOB}/vertices/{OTHER}/jm-operator-metrics", []),
        ("/taskmanagers/nobody/metrics", []),
        ("/jobmanager/metrics?get=", []),
        (f"/jobs/{OTHER}/vertices/{OTHER}/backpressure", {"status": "deprecated"}),
        (f"/jobs/{OTHER}/vertices/{OTHER}/flamegraph?type=ON_CPU", {"endTimestamp": -2}),
    ],
)
async def test_what_flink_says_of_jobs_that_are_not_there(path: str, expected: object, client: Client) -> None:
    """Where it looks into its store of metrics only, or nowhere at all, that is no error."""
    assert await ask(client, "GET", path, 200) == expected


async def test_what_does_not_depend_on_the_job(client: Client) -> None:
    for path in ("jobmanager/config", "jobmanager/environment", "jobmanager/log-url", "taskmanagers/nobody/log-url"):
        assert await ask(client, "GET", f"/jobs/{OTHER}/{path}", 200)
    assert await ask(client, "PATCH", f"/jobs/{OTHER}/clientHeartbeat", 202, json={"expiredTimestamp": 1}) == {}
    await ask(client, "PATCH", f"/jobs/{OTHER}/rescaling?parallelism=3", 503)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("savepoints", {"target-directory": "/data", "cancel-job": "no"}),
        ("savepoints", {"target-directory": "/data", "cancel-job": 1}),
        ("stop", {"targetDirectory": "/data", "drain": "never"}),
    ],
)
async def test_a_field_that_is_not_understood_is_refused(path: str, body: dict[str, object], client: Client) -> None:
    """What was meant with it would not be done, or, worse, something else."""
    refused = await ask(client, "POST", f"/jobs/{JOB}/{path}", 400, json=body)
    assert "Request did not match expected format" in refused["errors"][0]


async def test_a_flag_as_a_text_is_what_it_says(scene: Scene, client: Client) -> None:
    path = f"/jobs/{JOB}/savepoints"
    await ask(client, "POST", path, 202, json={"target-directory": "/data", "cancel-job": "false"})
    assert scene.cluster.job_state() is JobState.RUNNING


async def test_a_savepoint_of_a_job_that_is_not_there(client: Client) -> None:
    """Without a directory it is refused at once; with one, its result tells it, and nothing else."""
    path = f"/jobs/{OTHER}/savepoints"
    await ask(client, "POST", path, 400)
    trigger = (await ask(client, "POST", path, 202, json={"target-directory": "/data"}))["request-id"]
    failed = await operation(client, path, trigger)
    assert list(failed) == ["failure-cause"]
    assert OTHER in failed["failure-cause"]["stack-trace"]
    path = f"/jobs/{OTHER}/checkpoints"
    trigger = (await ask(client, "POST", path, 202))["request-id"]
    assert list(await operation(client, path, trigger)) == ["failureCause"]


async def test_head_is_unknown(client: Client) -> None:
    assert (await client.head("/overview")).status == 404


@pytest.mark.parametrize("path", ["/jobs/", "/v1/jobs", f"/jobs/{JOB.upper()}", "/overview?what=ever"])
async def test_paths_that_work_too(path: str, client: Client) -> None:
    await ask(client, "GET", path, 200, data=b"{}")


async def test_a_job_without_periodic_checkpoints_may_still_be_asked_for_some() -> None:
    async with serving(Scene(running_job())) as client:
        counts = (await ask(client, "GET", f"/jobs/{JOB}/checkpoints", 200))["counts"]
        assert set(counts.values()) == {0}
        told = await ask(client, "GET", f"/jobs/{JOB}/checkpoints/config", 200)
        assert (told["mode"], told["interval"]) == ("at_least_once", 2**63 - 1)


async def test_a_job_in_batch_mode_has_no_checkpoints() -> None:
    async with serving(Scene(running_job(configuration={"execution.runtime-mode": "BATCH"}))) as client:
        for path in ("checkpoints", "checkpoints/config"):
            body = await ask(client, "GET", f"/jobs/{JOB}/{path}", 404)
            assert "Checkpointing was not enabled" in body["errors"][0]
        assert (await ask(client, "GET", f"/jobs/{JOB}", 200))["job-type"] == "BATCH"


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
    if path.startswith("/applications/"):
        assert "could not be found" in (await ask(client, method, path, 404))["errors"][0]
    else:
        assert await ask(client, method, path, 202) == {}, "again is no error"
    pressure = await ask(client, "GET", f"/jobs/{JOB}/vertices/{SINK}/backpressure", 200)
    assert pressure == {"status": "deprecated"}, "nothing is measured any more"
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
        {"Origin": "http://[x"},
        {"Host": "[::1"},
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
    await ask(client, "GET", "/overview", 403 if "Host" in headers else 200, headers=headers)


IMAGE = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "Accept": "image/avif,image/webp,*/*;q=0.8",
}
"""What a browser sends for an image of a page that forbids the referrer, over http to an address that is not loopback."""


@pytest.mark.parametrize("more", [{}, {"Referer": "http://evil.example/"}, {"Accept": "application/json"}], ids=str)
@pytest.mark.parametrize("path", [f"/jobs/{JOB}/yarn-cancel", f"/jobs/{JOB}/yarn-stop", "/jars/x_job.py/plan"])
async def test_an_image_on_a_foreign_page_changes_nothing(
    path: str, more: dict[str, str], scene: Scene, client: Client
) -> None:
    sent = len(scene.cluster.sent)
    refused = await ask(client, "GET", path, 403, headers={**IMAGE, **more})
    assert "no foreign page" in refused["errors"][0]
    assert len(scene.cluster.sent) == sent
    await ask(client, "GET", "/overview", 200, headers={**IMAGE, **more})


@pytest.mark.parametrize("agent", ["curl/8.5.0", "", IMAGE["User-Agent"]])
async def test_tools_and_the_dashboard_cancel_by_get(agent: str, scene: Scene, client: Client) -> None:
    """Flink's dashboard sends its referrer, its Java client no name of an agent."""
    page = {"Referer": f"http://127.0.0.1:{client.port}/"} if agent == IMAGE["User-Agent"] else {}
    await ask(client, "GET", f"/jobs/{JOB}/yarn-cancel", 202, headers={"User-Agent": agent, **page})
    assert scene.cluster.job_state() is JobState.CANCELLING


async def test_a_page_of_another_origin_may_read_where_it_is_allowed() -> None:
    scene = Scene(failed_job(), {"web.access-control-allow-origin": "*"})
    async with serving(scene) as client, client.get("/overview") as answer:
        assert answer.headers["access-control-allow-origin"] == "*"


async def test_a_name_of_a_proxy_is_ours_when_it_is_configured() -> None:
    async with serving(Scene(failed_job(), {"tidegate.rest.host-names": "jobs.example;other.example"})) as client:
        await ask(client, "GET", "/overview", 200, headers={"Host": "jobs.example:80"})
        refused = await ask(client, "GET", "/overview", 403, headers={"Host": "evil.example"})
        assert "tidegate.rest.host-names" in refused["errors"][0]


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
