"""What answers say beyond their shape: failures, figures, and the process itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.contract.rest.asking import Client, ask, serving
from tests.contract.rest.scene import Scene, failed_job, waiting_for_three
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, FAULT, JOB, running_job, vertex_id
from tidegate.jobmanager.machines.commands import StartWorker
from tidegate.jobmanager.machines.events import TaskStateChanged
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.states import ExecutionState
from tidegate.pb.common_pb2 import Accumulator

SINK = vertex_id("sink")


# ---- failures ------------------------------------------------------------------------------------------------------------


async def test_a_failure_is_told_in_flinks_words() -> None:
    async with serving(Scene(failed_job())) as client:
        history = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]
        [entry] = history["entries"]
        assert history["truncated"] is False
        assert entry["exceptionName"] == "org.apache.flink.runtime.JobException"
        assert "Recovery is suppressed by NoRestartBackoffTimeStrategy\nCaused by: " in entry["stacktrace"]
        assert FAULT.message in entry["stacktrace"]
        assert "taskName" not in entry
        [cause] = entry["concurrentExceptions"]
        assert cause["stacktrace"].startswith(f"{cause['exceptionName']}: {FAULT.message}")
        assert (cause["taskName"], cause["taskManagerId"]) == ("sink (2/2) - execution #0", "tm-1")
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
        [lived_through] = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]["entries"]
        assert lived_through["taskName"] == "sink (1/2) - execution #0"
        assert lived_through["concurrentExceptions"] == []
        path = f"/jobs/{JOB}/vertices/{SINK}/subtasks/0"
        assert (await ask(client, "GET", path, 200))["attempt"] == 1
        assert (await ask(client, "GET", f"{path}/attempts/0", 200))["status"] == "FAILED"


async def test_a_task_that_was_killed_since_it_did_not_end_says_why() -> None:
    cluster = running_job(configuration={"restart-strategy.type": "fixed-delay"})
    cluster.fail(cluster.attempt("sink"))
    stubborn = cluster.attempt("sink", 1)
    cluster.now_ms += 5_000
    why = ErrorInfo.of(SubtaskLost("it goes on although it was interrupted", details="it stood at\n  in spins"))
    cluster.tell(TaskStateChanged(stubborn, ExecutionState.CANCELED, why))
    cluster.cancel_tasks()
    cluster.pass_time(2_000)
    async with serving(Scene(cluster)) as client:
        killed, failed = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]["entries"]
        assert failed["taskName"] == "sink (1/2) - execution #0"
        assert (killed["taskName"], killed["concurrentExceptions"]) == ("sink (2/2) - execution #0", [])
        assert killed["timestamp"] == failed["timestamp"] + 5_000
        assert killed["stacktrace"].endswith("it goes on although it was interrupted\nit stood at\n  in spins")
        path = f"/jobs/{JOB}/vertices/{SINK}/subtasks/1/attempts/0"
        assert (await ask(client, "GET", path, 200))["status"] == "CANCELED"


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


async def test_accumulators_are_merged_over_subtasks(scene: Scene, client: Client) -> None:
    scene.attempts.accumulators = {
        "seen": Accumulator(type="IntCounter", value="3"),
        "mean": Accumulator(type="AverageAccumulator", value="[3.0, 2]"),
    }
    one = [
        {"name": "mean", "type": "AverageAccumulator", "value": "1.5"},
        {"name": "seen", "type": "IntCounter", "value": "3"},
    ]
    path = f"/jobs/{JOB}/vertices/{SINK}"
    subtasks = (await ask(client, "GET", f"{path}/subtasks/accumulators", 200))["subtasks"]
    assert [subtask["user-accumulators"] for subtask in subtasks] == [one] * len(subtasks)
    assert (await ask(client, "GET", f"{path}/subtasks/0/attempts/0/accumulators", 200))["user-accumulators"] == one
    of_vertex = (await ask(client, "GET", f"{path}/accumulators", 200))["user-accumulators"]
    assert [found["value"] for found in of_vertex] == ["1.5", str(3 * len(subtasks))]
    tasks = sum(vertex["parallelism"] for vertex in (await ask(client, "GET", f"/jobs/{JOB}", 200))["vertices"])
    of_job = (await ask(client, "GET", f"/jobs/{JOB}/accumulators", 200))["user-task-accumulators"]
    assert [found["value"] for found in of_job] == ["1.5", str(3 * tasks)]


async def test_before_the_first_report_nothing_is_made_up(scene: Scene, client: Client) -> None:
    scene.attempts.is_silent = True
    path = f"/jobs/{JOB}/vertices/{SINK}"
    assert await ask(client, "GET", f"{path}/watermarks", 200) == []
    assert await ask(client, "GET", f"{path}/metrics", 200) == []
    assert await ask(client, "GET", f"{path}/subtasks/metrics?get=numRecordsIn", 200) == []
    assert await ask(client, "GET", f"{path}/backpressure", 200) == {"status": "deprecated"}
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


async def test_task_managers_that_are_on_their_way_and_the_jobs_that_wait_for_them() -> None:
    cluster = waiting_for_three()
    async with serving(Scene(cluster)) as client:
        found = await ask(client, "GET", "/workers", 200)
    ids = [command.worker_id for command in cluster.of(StartWorker)]
    since_ms = cluster.START_MS + 50  # slotmanager.requirement-check.delay
    assert found["workers"] == [
        {"id": worker, "state": "STARTING", "since": since_ms, "reason": "slots: job lacks 9"} for worker in ids
    ]
    (waits,) = found["waiting"]
    waiting = {"waiting-for": "9 of 9 slots; 3 TaskManagers starting", "starting-since": since_ms}
    assert waits == {"jid": JOB, "name": "job", **waiting}


async def test_failures_that_were_kept_have_the_command_that_replays_them() -> None:
    cluster = running_job()
    attempt = cluster.attempts(ExecutionState.RUNNING)[0]
    async with serving(Scene(cluster)) as client:
        assert await ask(client, "GET", f"/jobs/{JOB}/kept-failures", 200) == {"failures": []}
        at_ms = cluster.now_ms
        cluster.fail(attempt, ErrorInfo("user-function", "user", "ValueError: bad", kept_failure="20261129-a1b2c3"))
        found = await ask(client, "GET", f"/jobs/{JOB}/kept-failures", 200)
    (kept,) = found["failures"]
    assert kept.pop("taskName").endswith(" - execution #0")
    assert kept.pop("taskManagerId")
    assert kept.pop("message").startswith("ValueError: bad")
    assert kept == {
        "id": "20261129-a1b2c3",
        "timestamp": at_ms,
        "command": "tidegate replay 20261129-a1b2c3",
    }


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


async def test_the_summary_is_over_all_completed_checkpoints_not_only_over_those_that_are_kept() -> None:
    cluster = running_job(configuration={**CHECKPOINTED, "web.checkpoints.history": "2"})
    for checkpoint_id in range(1, 6):
        cluster.pass_time(1_000)
        cluster.now_ms += 10 * checkpoint_id
        cluster.complete_checkpoint(checkpoint_id)
    async with serving(Scene(cluster)) as client:
        answer = await ask(client, "GET", f"/jobs/{JOB}/checkpoints", 200)
    assert len(answer["history"]) == 2
    durations = [view["end_to_end_duration"] for view in answer["history"]]
    summary = answer["summary"]["end_to_end_duration"]
    assert summary["min"] < min(durations)
    assert summary["max"] == max(durations)
    assert summary["p50"] < min(durations)


async def test_a_taskmanager_tells_what_it_has_measured_of_itself(client: Client, scene: Scene) -> None:
    details = await ask(client, "GET", "/taskmanagers/tm-1", 200)
    assert details["hardware"] == {
        "cpuCores": 2,
        "physicalMemory": 8 << 30,
        "freeMemory": 4 << 30,
        "managedMemory": 64 << 20,
    }
    assert details["totalResource"]["managedMemory"] == 64
    assert details["metrics"]["heapUsed"] == 1024
    assert details["metrics"]["garbageCollectors"] == [{"name": "G1_Young_Generation", "count": 3, "time": 12}]
    memory = details["memoryConfiguration"]
    assert (memory["frameworkHeap"], memory["managedMemory"]) == (4 << 30, 64 << 20)
    shares = memory["managedMemory"], memory["networkMemory"], memory["taskHeap"]
    assert sum(shares) == memory["totalFlinkMemory"] == memory["totalProcessMemory"]
    scene.attempts.is_silent = True
    before = await ask(client, "GET", "/taskmanagers/tm-1", 200)
    assert (before["hardware"]["physicalMemory"], before["metrics"]["heapUsed"]) == (None, -1)


async def test_a_failure_names_where_its_task_was() -> None:
    async with serving(Scene(failed_job())) as client:
        history = (await ask(client, "GET", f"/jobs/{JOB}/exceptions", 200))["exceptionHistory"]
    placed = [cause for entry in history["entries"] for cause in entry["concurrentExceptions"]]
    assert placed
    assert all(isinstance(entry["endpoint"], str) and entry["endpoint"] for entry in placed)
