"""Savepoints and checkpoints that users ask for: a real JobManager, its protocol, and no Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.aio.jobmanager.cluster import JOB, cluster, is_running, make_graph, run_job, submit, watch_until
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.manifest import METADATA_FILE

WAIT_MS = 20_000


async def savepoint(client: Any, directory: str = "", wait_ms: int = WAIT_MS) -> pb.SnapshotResponse:
    request = pb.TriggerSavepointRequest(job_id=JOB, target_directory=directory, wait_ms=wait_ms)
    answer: pb.SnapshotResponse = await client.TriggerSavepoint(request)
    return answer


async def test_a_savepoint_is_never_confirmed_can_be_moved_restored_and_disposed(tmp_path: Path) -> None:
    async with cluster("tm-1", "tm-2") as (client, [task_manager, _], _):
        await run_job(client)
        taken = await savepoint(client, str(tmp_path))
        assert not taken.HasField("error"), taken.error
        assert Path(taken.path).name.startswith(f"savepoint-{JOB[:6]}-")
        assert not any(said.startswith("confirm") for said in task_manager.story)
        moved = tmp_path / "elsewhere"
        shutil.move(taken.path, moved)
        (moved / "notes.txt").write_text("mine")

        graph = make_graph()
        object.__setattr__(graph, "job_id", "b" * 32)
        assert not (await submit(client, graph, restore_path=str(moved))).HasField("error")
        await watch_until(client, "b" * 32, is_running)
        in_use = await client.DisposeSavepoint(pb.DisposeSavepointRequest(path=str(moved)))
        assert in_use.error.code == "misuse"
        await client.CancelJob(pb.JobRequest(job_id="b" * 32))
        await watch_until(client, "b" * 32, lambda status: status.state == "CANCELED")
        disposed = await client.DisposeSavepoint(pb.DisposeSavepointRequest(path=f"{moved}/{METADATA_FILE}"))
        assert not disposed.HasField("error"), disposed.error
        assert [path.name for path in moved.iterdir()] == ["notes.txt"], "what is not ours stays"
        again = await client.DisposeSavepoint(pb.DisposeSavepointRequest(path=str(moved)))
        assert "no checkpoint at" in again.error.message


async def test_a_savepoint_without_a_place_is_refused_and_a_configured_one_is_used(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, _):
        await run_job(client)
        assert "No savepoint directory configured" in (await savepoint(client)).error.message
    async with cluster("tm-1") as (client, _, _):
        await run_job(client, execution_checkpointing_savepoint__dir=str(tmp_path))
        assert Path((await savepoint(client)).path).parent == tmp_path


async def test_a_place_that_cannot_be_written_is_told_and_the_job_goes_on(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, _, _):
        await run_job(client)
        (tmp_path / "file").write_text("in the way")
        failed = await savepoint(client, str(tmp_path / "file"))
        assert f"{tmp_path / 'file'} is a file" in failed.error.message
        await watch_until(client, JOB, is_running)


async def test_a_users_checkpoint_is_confirmed(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await run_job(client, execution_checkpointing_dir=str(tmp_path))
        task_manager.snapshot = common_pb2.SubtaskSnapshot()
        taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, full=True, wait_ms=WAIT_MS))
        assert (taken.checkpoint_id, Path(taken.path).name) == (1, "chk-1")
        unknown = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id="c" * 32))
        assert unknown.error.code == "unknown-job"


async def test_a_job_is_stopped_with_a_savepoint(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await run_job(client, execution_checkpointing_interval="10 min")
        request = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(tmp_path), drain=True, wait_ms=WAIT_MS)
        stopped = await client.StopWithSavepoint(request)
        assert not stopped.HasField("error"), stopped.error
        assert (Path(stopped.path) / METADATA_FILE).exists()
        await watch_until(client, JOB, lambda status: status.state == "FINISHED")
        assert "confirm 1" in task_manager.story
        again = await client.StopWithSavepoint(request)
        assert "the job is FINISHED" in again.error.message
