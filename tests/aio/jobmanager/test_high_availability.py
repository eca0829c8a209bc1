"""A JobManager that starts where another one was goes on with its jobs, or says why not."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    KEY,
    PROGRAM,
    FakeTaskManager,
    client_of,
    is_running,
    make_graph,
    put_blob,
    run_job,
    running_job_manager,
    submit,
    watch_until,
)
from tests.ports import free_port
from tidegate.aio.process import Shutdown
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.service.clients.submission import Submission
from tidegate.jobmanager.service.high_availability.job_store import JobStore, StoredPlan
from tidegate.jobmanager.service.high_availability.services import StandbyEnded, open_high_availability
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, TidegateError
from tidegate.model.graph import Partitioner
from tidegate.model.ids import JobId
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import error_to_pb

OTHER = JobId("b" * 32)


def kept_in(directory: Path, **more: str) -> dict[str, str]:
    """Settings as ``cluster`` takes them. Nothing is adopted: TaskManagers of these tests end with their JobManager."""
    options = {
        "tidegate_jobmanager_loss__grace": "0 s",
        "high__availability_type": "filesystem",
        "high__availability_storageDir": str(directory / "ha"),
        "execution_checkpointing_dir": str(directory / "checkpoints"),
    }
    return {**options, **more}


def jobs_in(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "ha" / "default" / "execution-plans").iterdir())


@asynccontextmanager
async def leading_job_manager(directory: Path, **more: str) -> AsyncIterator[tuple[Any, list[FakeTaskManager]]]:
    """Runs a JobManager with two TaskManagers that outlive it: a job whose TaskManagers end before it may fail."""
    task_managers = [FakeTaskManager(name) for name in ("tm-1", "tm-2")]
    try:
        async with running_job_manager(**kept_in(directory, **more)) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                await task_manager.start(listening)
            yield client, task_managers
    finally:
        for task_manager in task_managers:
            await task_manager.stop()


async def listed(client: Any) -> dict[str, str]:
    answer = await client.ListJobs(pb.ListJobsRequest(include_terminal=True))
    return {job.job_id: job.state for job in answer.jobs}


async def start_second(client: Any) -> None:
    graph = make_graph()
    object.__setattr__(graph, "job_id", OTHER)
    answer = await submit(client, graph)
    assert not answer.HasField("error"), answer.error


async def test_a_job_goes_on_from_its_last_checkpoint_under_new_attempts(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path) as (client, _):
        status = await run_job(client)
        first = {subtask.attempt for vertex in status.vertices for subtask in vertex.subtasks}
        taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
        assert not taken.HasField("error"), taken.error
        generation = (await client.GetCluster(pb.GetClusterRequest())).generation
    async with leading_job_manager(tmp_path) as (client, [task_manager, _]):
        status = await watch_until(client, JOB, is_running)
        assert min(subtask.attempt for vertex in status.vertices for subtask in vertex.subtasks) > max(first)
        restored = (await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))).restored
        assert restored == 1
        assert (await client.GetCluster(pb.GetClusterRequest())).generation > generation
        chunks = [chunk.data async for chunk in task_manager.job_manager.GetBlob(common_pb2.BlobRef(key=KEY))]
        assert b"".join(chunks) == PROGRAM


async def test_a_job_goes_on_with_the_attempts_that_run(tmp_path: Path) -> None:
    """Nothing is deployed again; the newest checkpoint is confirmed once more, and the next one is taken by the same attempts."""
    adopts = {"tidegate_jobmanager_loss__grace": "60 s", "tidegate_jobmanager_adoption__timeout": "60 s"}
    task_managers = [FakeTaskManager(name, slots=1) for name in ("tm-1", "tm-2")]
    try:
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                await task_manager.start(listening)
            before = await run_job(client)
            taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
            assert not taken.HasField("error"), taken.error
            acknowledged_to = (await client.GetCluster(pb.GetClusterRequest())).generation
        for task_manager in task_managers:
            await task_manager.die()
            task_manager.story.clear()
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            assert await listed(client) == {JOB: "RECONCILING"}
            for task_manager in task_managers:
                await task_manager.start(listening, task_manager.reports(taken.checkpoint_id, acknowledged_to))
            after = await watch_until(client, JOB, is_running)
            assert _attempts_of(after) == _attempts_of(before)
            assert after.restarts == 0
            again = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
            assert not again.HasField("error"), again.error
            assert again.checkpoint_id > taken.checkpoint_id
            checkpoints = await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))
            assert checkpoints.restored == 0
        for task_manager in task_managers:
            assert "submit" not in task_manager.story
            assert task_manager.story[0] == f"confirm {taken.checkpoint_id}"
    finally:
        for task_manager in task_managers:
            await task_manager.stop()


async def test_a_job_whose_history_is_damaged_goes_on_without_it(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path) as (client, _):
        await run_job(client)
    (tmp_path / f"ha/default/pasts/{JOB}").write_bytes(b"\xc1")
    async with leading_job_manager(tmp_path) as (client, _):
        assert (await watch_until(client, JOB, is_running)).restarts == 0


async def test_a_job_of_which_only_a_part_is_reported_in_time_is_restarted(tmp_path: Path) -> None:
    """The job has one region, and one TaskManager does not come back: what runs on the other one is canceled first."""
    adopts = {"tidegate_jobmanager_loss__grace": "60 s", "tidegate_jobmanager_adoption__timeout": "300 ms"}
    survivor, other = FakeTaskManager("tm-1", slots=1), FakeTaskManager("tm-2", slots=1)
    newcomer = FakeTaskManager("tm-3", slots=1)
    try:
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            await survivor.start(listening)
            await other.start(listening)
            before = _attempts_of(await run_job(client))
        await survivor.die()
        await other.stop()
        survivor.story.clear()
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            await newcomer.start(listening)
            await survivor.start(listening, survivor.reports(0, ""))
            after = _attempts_of(await watch_until(client, JOB, is_running))
            assert min(after.values()) > max(before.values())
            assert survivor.story.count("cancel") == len(survivor.deployments) == 2
            assert survivor.story.index("cancel") < survivor.story.index("submit")
    finally:
        for task_manager in (survivor, other, newcomer):
            await task_manager.stop()


async def test_the_store_knows_the_last_attempt_of_each_region(tmp_path: Path) -> None:
    """A later JobManager adopts no other one."""
    retries = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    pipelines = make_graph()
    edges = tuple(replace(edge, partitioner=Partitioner.FORWARD) for edge in pipelines.edges)
    object.__setattr__(pipelines, "edges", edges)
    object.__setattr__(pipelines, "configuration", retries)
    noted = tmp_path / f"ha/default/jobs/{JOB}/attempt"
    async with leading_job_manager(tmp_path) as (client, task_managers):
        await put_blob(client)
        answer = await submit(client, pipelines)
        assert not answer.HasField("error"), answer.error
        await watch_until(client, JOB, is_running)
        assert noted.read_text() == "0"
        attempt = next(one for manager in task_managers for one in manager.deployments if one.endswith("_1_0"))
        [failing] = [manager for manager in task_managers if attempt in manager.deployments]
        del failing.deployments[attempt]
        await failing.report(attempt, "FAILED", error_to_pb(ErrorInfo("user-code", "user", "division by zero")))
        await watch_until(client, JOB, lambda status: status.restarts == 1 and is_running(status))
        assert noted.read_text() == "0 1:1"


def _attempts_of(status: pb.JobStatus) -> dict[tuple[str, int], int]:
    return {(vertex.name, subtask.index): subtask.attempt for vertex in status.vertices for subtask in vertex.subtasks}


async def test_a_job_that_has_ended_does_not_run_again(tmp_path: Path) -> None:
    async with leading_job_manager(tmp_path) as (client, _):
        await run_job(client)
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        assert jobs_in(tmp_path) == [] or (tmp_path / "ha/default/job-results" / JOB).exists()
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        assert await listed(client) == {JOB: "CANCELED"}, "as the archive has it"
        assert jobs_in(tmp_path) == []
        assert list((tmp_path / "ha/default/blobs").iterdir()) == []


async def test_the_result_of_a_job_is_kept_before_its_checkpoints_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JobManager that found neither would run the job from its start, and write its output a second time."""
    order = []

    def noted(name: str) -> None:
        method = getattr(JobStore, name)

        def note(self: JobStore, job_id: JobId, *given: object) -> object:
            order.append(name)
            return method(self, job_id, *given)

        monkeypatch.setattr(JobStore, name, note)

    async with leading_job_manager(tmp_path) as (client, _):
        await run_job(client)
        taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
        assert not taken.HasField("error"), taken.error
        for name in ("end", "unpoint", "remove"):
            noted(name)
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
    assert order == ["end", "unpoint", "remove"]


async def test_a_result_that_was_written_last_is_cleaned_up(tmp_path: Path) -> None:
    """The process died between the result and the removal of the job."""
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        await submit(client, make_graph())
    results = tmp_path / "ha/default/job-results"
    results.mkdir(exist_ok=True)
    (results / JOB).write_text("FINISHED")
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        assert await listed(client) == {}
        assert jobs_in(tmp_path) == []


@pytest.mark.parametrize("damage", ["submissions/a*", f"execution-plans/{JOB}", f"jobs/{JOB}/attempt"])
async def test_one_damaged_job_keeps_no_other_from_going_on_and_is_left_alone(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading_job_manager(tmp_path) as (client, _):
        await run_job(client)
        await put_blob(client)
        await start_second(client)
    [place] = (tmp_path / "ha/default").glob(damage)
    content = place.read_bytes()
    place.write_bytes(content[:-1] + b"\xff")
    caplog.set_level(logging.ERROR)
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        assert list(await listed(client)) == [OTHER]
    assert f"{place} is damaged" in caplog.text
    assert jobs_in(tmp_path) == [JOB, OTHER]
    place.write_bytes(content)
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        assert set(await listed(client)) == {JOB, OTHER}


async def test_a_job_that_was_being_stopped_with_a_savepoint_goes_on_from_it_and_is_stopped(tmp_path: Path) -> None:
    """The savepoint is complete, and perhaps committed, but its tasks have not ended: an older checkpoint would double rows. The client asks
    the next JobManager for the same stop."""
    request = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(tmp_path / "savepoints"))
    request.request_id = "5" * 32
    async with leading_job_manager(tmp_path, execution_checkpointing_interval="1 h") as (client, [one, two]):
        await run_job(client)
        one.confirms_to_drop = two.confirms_to_drop = 1_000
        assert (await client.StopWithSavepoint(request)).in_progress
        await watch_until(client, JOB, lambda _: any((tmp_path / "savepoints").glob("*/_metadata")))
    async with leading_job_manager(tmp_path, execution_checkpointing_interval="1 h") as (client, _):
        request.wait_ms = 20_000
        stopped = await client.StopWithSavepoint(request)
        assert not stopped.HasField("error"), stopped.error
        assert (Path(stopped.path) / "_metadata").exists()
        assert (await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))).restored == 1
        await watch_until(client, JOB, lambda status: status.state == "FINISHED")
        assert (await client.StopWithSavepoint(request)).path == stopped.path, "asked again, it is the same one"


async def test_a_store_that_cannot_be_written_refuses_jobs(tmp_path: Path) -> None:
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        (tmp_path / "ha/default/execution-plans").write_text("a file has the name of the directory")
        answer = await submit(client, make_graph())
        assert "cannot keep" in answer.error.message
        assert "high-availability.storageDir" in answer.error.message
        assert await listed(client) == {}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"high__availability_storageDir": "relative"}, "must be an absolute path"),
        ({"high__availability_storageDir": "s3://bucket/ha"}, "not on a local disk"),
        ({"high__availability_cluster__id": "a/b"}, "cannot be the name of a directory"),
        ({"high__availability_cluster__id": "/"}, "cannot be the name of a directory"),
        ({"high__availability_type": "kubernetes"}, "kubernetes"),
        ({"high__availability_type": "etcd"}, "etcd"),
        ({"high__availability_storageDir": "/proc/nothing"}, "cannot keep jobs in /proc/nothing/default"),
    ],
)
async def test_bad_settings_are_refused_at_the_start(tmp_path: Path, setting: dict[str, str], told: str) -> None:
    with pytest.raises(TidegateError, match=told):
        async with running_job_manager(**{**kept_in(tmp_path), **setting}):
            pass


async def test_one_leads_and_the_next_takes_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    leads = asyncio.Event()

    async def second() -> None:
        async with running_job_manager(**kept_in(tmp_path)):
            leads.set()

    async with running_job_manager(**kept_in(tmp_path)):
        standby = asyncio.create_task(second())
        async with running_job_manager(**kept_in(tmp_path, high__availability_cluster__id="other")):
            """Another cluster in the same directory has a leader of its own."""
        for _ in range(2_000):
            if "standby: " in caplog.text:
                break
            await asyncio.sleep(0.01)
        assert not leads.is_set()
    await asyncio.wait_for(standby, 20)
    assert leads.is_set()
    assert (
        f"standby: the JobManager with pid {os.getpid()} leads the cluster in {tmp_path / 'ha' / 'default'}"
        in caplog.text
    )


async def test_a_standby_that_is_told_to_end_ends(tmp_path: Path) -> None:
    async with running_job_manager(**kept_in(tmp_path)):
        shutdown = Shutdown()
        shutdown.ask("SIGTERM")
        options = {key.replace("__", "-").replace("_", "."): text for key, text in kept_in(tmp_path).items()}
        with pytest.raises(StandbyEnded):
            await open_high_availability(Configuration.from_strings(options), shutdown)


async def test_a_blob_that_two_jobs_need_stays_for_the_second(tmp_path: Path) -> None:
    """A recovered job gave its blob no upload of this process: the next one that needs it must not lose it when the first ends."""
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        await submit(client, make_graph())
    async with leading_job_manager(tmp_path) as (client, _):
        await watch_until(client, JOB, is_running)
        await put_blob(client)
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        await start_second(client)
        await watch_until(client, OTHER, is_running)


async def test_a_job_that_another_leader_may_have_accepted_keeps_its_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was stopped behind the acceptance hears afterwards that it was deposed, and refuses the job; the next one runs it."""
    add = JobStore.add

    def accepted_and_deposed(store: JobStore, job_id: JobId, plan: StoredPlan, content: bytes) -> bool:
        add(store, job_id, plan, content)
        raise Deposed("another JobManager leads")

    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        with monkeypatch.context() as patched:
            patched.setattr(JobStore, "add", accepted_and_deposed)
            answer = await submit(client, make_graph())
        assert "leads no more" in answer.error.message
    async with leading_job_manager(tmp_path) as (client, _):
        await watch_until(client, JOB, is_running)


async def test_no_page_is_served_before_the_jobs_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list without them would say that they are gone."""
    port = free_port()
    async with running_job_manager(**kept_in(tmp_path)) as listening, client_of(listening) as client:
        await put_blob(client)
        await submit(client, make_graph())
    looks = []
    check_again = Submission.check_again

    async def looked_at(*arguments: Any) -> Any:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://127.0.0.1:{port}/jobs") as answer:
                    looks.append(await answer.json())
            except aiohttp.ClientConnectionError:
                looks.append(None)
        return await check_again(*arguments)

    monkeypatch.setattr(Submission, "check_again", looked_at)
    async with (
        running_job_manager(**kept_in(tmp_path, rest_port=str(port))),
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/jobs") as answer,
    ):
        assert [job["id"] for job in (await answer.json())["jobs"]] == [JOB]
    assert looks == [None]
