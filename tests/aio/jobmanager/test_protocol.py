"""A real JobManager, its protocol, and no Spark."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    KEY,
    PROGRAM,
    FakeTaskManager,
    cluster,
    is_running,
    make_graph,
    put_blob,
    run_job,
    running_job_manager,
    start_job,
    submit,
    watch_until,
)
from tidegate.jobmanager.service.rpc import client_servicer
from tidegate.model.ids import OperatorId
from tidegate.pb import common_pb2, jobmanager_pb2
from tidegate.wire.manifest import METADATA_FILE


async def test_a_bounded_job_runs_through_its_final_checkpoint(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        assert await put_blob(client) == KEY
        graph = make_graph(execution_checkpointing_interval="10 min", execution_checkpointing_dir=str(tmp_path))
        assert not (await submit(client, graph)).HasField("error")
        running = await watch_until(client, JOB, is_running)
        assert [len(vertex.subtasks) for vertex in running.vertices] == [2, 2]
        assert {subtask.task_manager_id for v in running.vertices for subtask in v.subtasks} == {"tm-1"}
        await task_manager.end_of_data()
        finished = await watch_until(client, JOB, lambda status: status.state == "FINISHED")
        assert finished.checkpoints_completed >= 1
        assert finished.HasField("end_ms")
        story = task_manager.story
        first_trigger = next(i for i, step in enumerate(story) if step.startswith("trigger"))
        assert story.index("allocate") < story.index("submit") < first_trigger
        assert story.index("confirm 1") > first_trigger


async def test_checkpoints_are_written_listed_and_restored(tmp_path: Path) -> None:
    settings = {
        "execution_checkpointing_interval": "50 ms",
        "execution_checkpointing_dir": str(tmp_path),
        "execution_checkpointing_externalized__checkpoint__retention": "RETAIN_ON_CANCELLATION",
    }
    async with cluster("tm-1") as (client, [task_manager], _):
        task_manager.snapshot = common_pb2.SubtaskSnapshot(
            operators={OperatorId("1" * 32): common_pb2.OperatorSnapshot()}
        )
        await start_job(client, **settings)
        status = await watch_until(client, JOB, lambda status: status.last_completed.checkpoint_id >= 2)
        assert (Path(status.last_completed.path) / METADATA_FILE).exists() or status.last_completed.checkpoint_id >= 2
        listed = await client.ListCheckpoints(jobmanager_pb2.ListCheckpointsRequest(job_id=JOB))
        assert listed.completed >= 2
        done = next(checkpoint for checkpoint in listed.checkpoints if checkpoint.status == "COMPLETED")
        assert (done.acknowledged, done.expected) == (4, 4)
        await client.CancelJob(jobmanager_pb2.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
    # One that was being written when the job was cancelled may have become the newest.
    [retained] = [str(metadata.parent) for metadata in (tmp_path / JOB).glob(f"chk-*/{METADATA_FILE}")]
    async with cluster("tm-1") as (client, [task_manager], _):
        await put_blob(client)
        assert not (await submit(client, make_graph(), restore_path=retained)).HasField("error")
        await watch_until(client, JOB, is_running)
        assert len(task_manager.deployments) == 4
    async with cluster("tm-1") as (client, _, _):
        await put_blob(client)
        stranger = make_graph()
        vertices = tuple(
            replace(vertex, operators=(replace(vertex.operators[0], operator_id=OperatorId(str(9 - at) * 32)),))
            for at, vertex in enumerate(stranger.vertices)
        )
        refused = await submit(client, replace(stranger, vertices=vertices), restore_path=retained)
        assert refused.error.code == "invalid-job"
        assert "--allow-non-restored-state" in refused.error.message


async def test_a_lost_task_manager_is_seen_at_once_and_the_job_runs_on_a_spare(tmp_path: Path) -> None:
    settings = {
        "execution_checkpointing_interval": "10 min",
        "execution_checkpointing_dir": str(tmp_path),
        "restart__strategy_type": "fixed-delay",
        "restart__strategy_fixed__delay_delay": "10 ms",
    }
    async with cluster("tm-1") as (client, [task_manager], listening):
        await start_job(client, **settings)
        await watch_until(client, JOB, is_running)
        spare = FakeTaskManager("tm-2")
        await spare.start(listening)
        await task_manager.die()
        moved = await watch_until(
            client, JOB, lambda status: is_running(status) and status.vertices[0].subtasks[0].attempt == 1, timeout_s=5
        )
        assert moved.restarts == 1
        assert "tm-1" in moved.failure.message
        assert {subtask.task_manager_id for v in moved.vertices for subtask in v.subtasks} == {"tm-2"}
        await spare.stop()


def inline_snapshot(content: bytes) -> common_pb2.SubtaskSnapshot:
    handle = common_pb2.StateHandle(size_bytes=len(content), checksum="0123456789abcdef", data=content)
    segment = common_pb2.SegmentHandle(
        state_name="count", first_key_group=0, last_key_group=0, offsets=[0, 1], handle=handle
    )
    return common_pb2.SubtaskSnapshot(operators={OperatorId("2" * 32): common_pb2.OperatorSnapshot(keyed=[segment])})


@pytest.mark.parametrize("is_held", [True, False], ids=["from-memory", "from-metadata"])
async def test_inline_state_comes_back_when_tasks_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    """From the JobManager's memory, or from ``_metadata`` where it is more than is held there."""
    if not is_held:
        monkeypatch.setattr("tidegate.jobmanager.service.storage.inline_state.HELD_BYTES", 0)
    settings = {
        "execution_checkpointing_interval": "10 min",
        "execution_checkpointing_dir": str(tmp_path),
        "restart__strategy_type": "fixed-delay",
        "restart__strategy_fixed__delay_attempts": "2",
        "restart__strategy_fixed__delay_delay": "10 ms",
    }
    async with cluster("tm-1") as (client, [task_manager], _):
        task_manager.snapshot = inline_snapshot(b"all of it")
        await start_job(client, **settings)
        await watch_until(client, JOB, is_running)
        await client.TriggerCheckpoint(jobmanager_pb2.TriggerJobCheckpointRequest(job_id=JOB))
        completed = await watch_until(client, JOB, lambda status: status.checkpoints_completed == 1)

        task_manager.acknowledges = False  # no second checkpoint may take its place
        first = next(attempt for attempt in task_manager.deployments if "2" * 32 in attempt)
        del task_manager.deployments[first]
        await task_manager.report(first, "FAILED")
        await watch_until(client, JOB, lambda status: status.restarts == 1 and is_running(status))
        restored = [d.restore for d in task_manager.deployments.values() if not d.is_source]
        assert restored
        contents = [s.handle.data for restore in restored for o in restore.operators.values() for s in o.keyed]
        assert contents
        assert set(contents) == {b"all of it"}

        metadata = Path(completed.last_completed.path) / METADATA_FILE
        metadata.write_bytes(metadata.read_bytes().replace(b"count", b"counT"))
        second = next(attempt for attempt in task_manager.deployments if "2" * 32 in attempt)
        del task_manager.deployments[second]
        await task_manager.report(second, "FAILED")
        if is_held:
            await watch_until(client, JOB, lambda status: status.restarts == 2 and is_running(status))
            return
        failed = await watch_until(client, JOB, lambda status: status.state == "FAILED")
        assert f"{metadata} is damaged" in failed.failure.message


async def test_a_confirm_is_repeated_until_it_is_answered(tmp_path: Path) -> None:
    options = {"tidegate_checkpoint_confirm__retry__interval": "20 ms"}
    async with cluster("tm-1", **options) as (client, [task_manager], _):
        task_manager.confirms_to_drop = 3
        await put_blob(client)
        graph = make_graph(execution_checkpointing_interval="10 min", execution_checkpointing_dir=str(tmp_path))
        assert not (await submit(client, graph)).HasField("error")
        await watch_until(client, JOB, is_running)
        await task_manager.end_of_data()
        await watch_until(client, JOB, lambda status: status.state == "FINISHED")
        assert task_manager.story.count("confirm 1") >= 4


async def test_what_belongs_to_another_life_is_fenced() -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await start_job(client)
        await watch_until(client, JOB, is_running)
        attempt = next(iter(task_manager.deployments))
        assert (await task_manager.report(attempt[:-1] + "7", "FAILED")).error.code == "unknown-attempt"
        task_manager.generation = "0" * 32
        assert (await task_manager.report(attempt, "FAILED")).error.code == "fenced"
        status = await watch_until(client, JOB, lambda _: True)
        assert is_running(status)


async def test_of_a_batch_of_acknowledgements_the_good_ones_count() -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await put_blob(client)
        task_manager.acknowledges = False
        await submit(client, make_graph(execution_checkpointing_interval="10 min"))
        await watch_until(client, JOB, is_running)
        await client.TriggerCheckpoint(jobmanager_pb2.TriggerJobCheckpointRequest(job_id=JOB))
        await asyncio.wait_for(task_manager.triggered.wait(), 20)
        attempts = list(task_manager.deployments)
        stale = attempts[0][:-1] + "7"

        answer = await task_manager.acknowledge([attempts[0], stale, "not an attempt", *attempts[1:-1]])
        assert not answer.HasField("error")
        assert {attempt: error.code for attempt, error in answer.attempts.items()} == {
            stale: "unknown-attempt",
            "not an attempt": "internal",
        }
        (checkpoint,) = (await client.ListCheckpoints(jobmanager_pb2.ListCheckpointsRequest(job_id=JOB))).checkpoints
        assert (checkpoint.status, checkpoint.acknowledged) == ("IN_PROGRESS", 3)

        current, task_manager.generation = task_manager.generation, "0" * 32
        assert (await task_manager.acknowledge(attempts)).error.code == "fenced"
        task_manager.generation = current
        assert not (await task_manager.acknowledge(attempts)).attempts, "a repeated one is no error"
        await watch_until(client, JOB, lambda status: status.checkpoints_completed == 1)


async def test_subtasks_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, _):
        await put_blob(client)
        graph = make_graph(execution_checkpointing_interval="10 min", execution_checkpointing_dir=str(tmp_path))
        await submit(client, graph)
        await watch_until(client, JOB, is_running)
        for _ in range(2):
            await client.TriggerCheckpoint(jobmanager_pb2.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=20_000))
        status = await watch_until(client, JOB, lambda status: status.checkpoints_completed == 2)
        assert [dict(vertex.task_counts) for vertex in status.vertices] == [{"RUNNING": 2}, {"RUNNING": 2}]
        assert not status.last_completed.subtasks
        (listed,) = (await client.ListJobs(jobmanager_pb2.ListJobsRequest())).jobs
        assert [(v.name, dict(v.task_counts), len(v.subtasks)) for v in listed.vertices] == [
            ("numbers", {"RUNNING": 2}, 0),
            ("print", {"RUNNING": 2}, 0),
        ]
        assert (listed.state, listed.checkpoints_completed) == ("RUNNING", 2)
        for subtasks_of, told in ((None, [4, 4]), (0, [0, 0]), (1, [0, 4])):
            request = jobmanager_pb2.ListCheckpointsRequest(job_id=JOB, subtasks_of=subtasks_of)
            checkpoints = (await client.ListCheckpoints(request)).checkpoints
            assert [checkpoint.checkpoint_id for checkpoint in checkpoints] == [2, 1]
            assert [len(checkpoint.subtasks) for checkpoint in checkpoints] == told


async def test_counters_arrive_with_the_heartbeat() -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await start_job(client)
        await watch_until(client, JOB, is_running)
        attempt = next(iter(task_manager.deployments))
        await task_manager.beat({attempt: common_pb2.TaskMetrics(records_out=42)})
        await watch_until(
            client,
            JOB,
            lambda status: any(s.metrics.records_out == 42 for vertex in status.vertices for s in vertex.subtasks),
        )


async def test_sources_of_a_group_learn_of_the_lowest_watermark() -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await start_job(client)
        await watch_until(client, JOB, is_running)
        first, second = list(task_manager.deployments)[:2]

        async def told(attempt: str, watermark_ms: int) -> int:
            request = common_pb2.AlignWatermarkRequest(
                attempt=attempt, group="g", watermark_ms=watermark_ms, interval_ms=1000
            )
            return int((await task_manager.job_manager.AlignWatermark(request)).lowest_ms)

        assert [await told(first, 50), await told(second, 20), await told(first, 70)] == [50, 20, 20]
        with pytest.raises(Exception, match="is not the current attempt"):
            await told(first[:-1] + "9", 1)


async def test_blobs_come_back_whole_and_unknown_ones_are_named() -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await put_blob(client)
        chunks = [chunk.data async for chunk in task_manager.job_manager.GetBlob(common_pb2.BlobRef(key=KEY))]
        assert b"".join(chunks) == PROGRAM
        with pytest.raises(Exception, match="does not have the program"):
            _ = [chunk async for chunk in task_manager.job_manager.GetBlob(common_pb2.BlobRef(key="../etc/passwd"))]


@pytest.mark.parametrize(
    ("change", "fields", "code", "message"),
    [
        ({}, {"client_version": "0.0.1"}, "version-mismatch", "this client is tidegate 0.0.1"),
        ({"rest_prot": "1"}, {}, "configuration", "unknown option 'rest.prot'; did you mean 'rest.port'"),
        ({"execution_checkpointing_interval": "soon"}, {}, "configuration", "'soon' is not a duration"),
        ({}, {"restore_path": "/nowhere/chk-1"}, "storage", "no checkpoint at /nowhere/chk-1"),
        (
            {"execution_checkpointing_interval": "1 s", "execution_checkpointing_dir": "/proc/x"},
            {},
            "storage",
            "checkpoint directory /proc/x is not writable",
        ),
    ],
)
async def test_a_bad_submission_is_refused_before_the_job_exists(
    change: dict[str, str], fields: dict[str, str], code: str, message: str
) -> None:
    async with cluster() as (client, _, _):
        await put_blob(client)
        answer = await submit(client, make_graph(**change), **fields)
        assert answer.error.code == code
        assert message in answer.error.message
        assert len((await client.ListJobs(jobmanager_pb2.ListJobsRequest(include_terminal=True))).jobs) == 0


async def test_a_job_without_its_blob_or_of_another_python_is_refused() -> None:
    async with cluster() as (client, _, _):
        assert "which was not uploaded" in (await submit(client, make_graph())).error.message
        await put_blob(client)
        graph = make_graph()
        object.__setattr__(graph, "python_version", "2.7")
        assert "built with Python 2.7" in (await submit(client, graph)).error.message


async def test_a_task_manager_of_another_version_is_refused() -> None:
    async with cluster("tm-1") as (_, [task_manager], _):
        answer = await task_manager.job_manager.RegisterTaskManager(task_manager.registration("h:1", version="9"))
        assert answer.error.code == "version-mismatch"
        assert not answer.error.retriable


async def test_watchers_hear_of_a_new_state_at_once_however_long_they_wait_for_counters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster("tm-1") as (client, _, _):
        await run_job(client)
        monkeypatch.setattr(client_servicer, "WATCH_PAUSE_MS", 60_000)
        monkeypatch.setattr(client_servicer, "WATCH_INTERVAL_MS", 120_000)
        request = jobmanager_pb2.JobRequest(job_id=JOB)
        states = []
        async with asyncio.timeout(20):
            async for status in client.WatchJob(request):
                states.append(status.state)
                if len(states) == 1:
                    await client.CancelJob(request)
        assert (states[0], states[-1]) == ("RUNNING", "CANCELED")


async def test_unknown_jobs_are_named() -> None:
    async with cluster() as (client, _, _):
        request = jobmanager_pb2.JobRequest(job_id="f" * 32)
        assert (await client.CancelJob(request)).error.code == "unknown-job"
        listed = await client.ListCheckpoints(jobmanager_pb2.ListCheckpointsRequest(job_id="f" * 32))
        assert listed.error.code == "unknown-job"
        assert [status.error.code async for status in client.WatchJob(request)] == ["unknown-job"]
        assert (await client.CancelJob(jobmanager_pb2.JobRequest(job_id="x"))).error.code == "misuse"


async def test_a_port_in_use_is_one_clear_line() -> None:
    async with running_job_manager() as listening:
        for option, what in (("jobmanager_rpc_port", "JobManager"), ("rest_port", "REST endpoint")):
            port = listening.rpc_port if option == "jobmanager_rpc_port" else listening.rest_port
            with pytest.raises(Exception, match=f"cannot start the {what} on localhost:{port}: Address already in use"):
                async with running_job_manager(**{option: str(port)}):
                    raise AssertionError("it started")


async def test_closing_ends_the_heartbeat_streams() -> None:
    task_manager = FakeTaskManager("tm-1")
    async with running_job_manager() as listening:
        await task_manager.start(listening)
    assert await task_manager.heartbeats_ended()
    await task_manager.stop()
