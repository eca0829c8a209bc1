"""What the next JobManager shows of a job's earlier lives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.aio.jobmanager.cluster import (
    JOB,
    SOURCE,
    FakeTaskManager,
    client_of,
    is_running,
    run_job,
    running_job_manager,
    watch_until,
)
from tests.aio.jobmanager.test_high_availability import kept_in, leading_job_manager
from tidegate.model.errors import ErrorInfo
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert import error_to_pb


@pytest.mark.parametrize("is_remembered", [True, False], ids=["told-by-its-taskmanager", "its-slot-was-freed"])
async def test_figures_of_a_subtask_that_had_finished_are_shown_by_the_next_jobmanager(
    tmp_path: Path, is_remembered: bool
) -> None:
    """Its counters, accumulators, and when it began and ended: its TaskManager tells them, or they lie beside the job store."""
    adopts = {"tidegate_jobmanager_loss__grace": "60 s", "tidegate_jobmanager_adoption__timeout": "60 s"}
    task_managers = [FakeTaskManager(name, slots=1) for name in ("tm-1", "tm-2")]
    counted = common_pb2.Accumulator(type="IntCounter", value="7")
    last = common_pb2.TaskMetrics(records_out=5, accumulators={"lines": counted})
    try:
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                await task_manager.start(listening)
            await run_job(client)
            ending = task_managers[0]
            attempt = next(attempt for attempt in ending.deployments if SOURCE in attempt)
            deployment = ending.deployments.pop(attempt)
            await ending.report(attempt, "FINISHED", metrics=last)
            asked = client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
            await asyncio.wait_for(task_managers[1].triggered.wait(), 10)
            await ending.acknowledge(ending.deployments, task_managers[1].last_trigger)  # the barrier came by the other
            taken = await asked
            assert not taken.HasField("error"), taken.error
            before = await watch_until(client, JOB, _has_finished)
            generation = (await client.GetCluster(pb.GetClusterRequest())).generation
        for task_manager in task_managers:
            await task_manager.die()
        if is_remembered:
            (tmp_path / f"ha/default/pasts/{JOB}").unlink()
        async with running_job_manager(**kept_in(tmp_path, **adopts)) as listening, client_of(listening) as client:
            for task_manager in task_managers:
                reports = task_manager.reports(taken.checkpoint_id, generation)
                if is_remembered and task_manager is ending:
                    allocation = deployment.allocation_id
                    reports.append(
                        pb.AttemptReport(attempt=attempt, allocation_id=allocation, state="FINISHED", metrics=last)
                    )
                await task_manager.start(listening, reports)
            after = await watch_until(client, JOB, _has_finished)
    finally:
        for task_manager in task_managers:
            await task_manager.stop()
    [told], [shown] = _finished_of(before), _finished_of(after)
    assert shown.attempt == told.attempt
    assert shown.metrics.records_out == 5
    assert after.accumulators["lines"] == counted
    assert after.restarts == 0


def _finished_of(status: pb.JobStatus) -> list[pb.SubtaskStatus]:
    return [subtask for vertex in status.vertices for subtask in vertex.subtasks if subtask.state == "FINISHED"]


def _has_finished(status: pb.JobStatus) -> bool:
    return status.state == "RUNNING" and len(_finished_of(status)) == 1


async def test_what_a_job_has_lived_through_is_shown_by_the_next_jobmanager(tmp_path: Path) -> None:
    """Its beginning, failures, restarts and checkpoints."""
    retries = {"restart__strategy_type": "fixed-delay", "restart__strategy_fixed__delay_delay": "0 s"}
    async with leading_job_manager(tmp_path) as (client, task_managers):
        await run_job(client, **retries)
        for _ in range(2):
            taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000))
            assert not taken.HasField("error"), taken.error
        failing = next(one for one in task_managers if one.deployments)
        attempt = next(iter(failing.deployments))
        del failing.deployments[attempt]
        await failing.report(attempt, "FAILED", error_to_pb(ErrorInfo("user-code", "user", "division by zero")))
        before = await watch_until(client, JOB, lambda status: status.restarts == 1 and is_running(status))
        shown = await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))
    async with leading_job_manager(tmp_path) as (client, _):
        after = await watch_until(client, JOB, is_running)
        assert after.start_ms == before.start_ms
        assert after.restarts == 1
        assert "division by zero" in after.failure.message
        assert after.checkpoints_completed == 2
        again = await client.ListCheckpoints(pb.ListCheckpointsRequest(job_id=JOB))
        assert [one.checkpoint_id for one in again.checkpoints] == [one.checkpoint_id for one in shown.checkpoints]
        assert again.restored == shown.restored + 1
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
    async with running_job_manager(**kept_in(tmp_path)):
        assert list((tmp_path / "ha/default/pasts").iterdir()) == []
