"""Accumulators that TaskManagers tell, merged for clients: while the job runs, and with its end."""

from __future__ import annotations

from pathlib import Path

from tests.aio.jobmanager.cluster import JOB, cluster, run_job, watch_until
from tidegate.model.accumulators import IntCounter, ListAccumulator, merged, results, serialized
from tidegate.pb import common_pb2, jobmanager_pb2
from tidegate.wire.accumulators import accumulators_from_pb, accumulators_to_pb


def metrics(count: int, *words: str) -> common_pb2.TaskMetrics:
    counter, listed = IntCounter(), ListAccumulator()
    counter.add(count)
    for word in words:
        listed.add(word)
    found = accumulators_to_pb(serialized({"seen": counter, "words": listed}))
    return common_pb2.TaskMetrics(records_in=count, accumulators=found)


def seen(status: jobmanager_pb2.JobStatus) -> int | None:
    found = results(merged([accumulators_from_pb(status.accumulators)]))
    return found.get("seen")


async def test_the_last_values_are_there_when_the_job_is_over(tmp_path: Path) -> None:
    settings = {"execution_checkpointing_interval": "10 min", "execution_checkpointing_dir": str(tmp_path)}
    async with cluster("tm-1") as (client, [task_manager], _):
        await run_job(client, **settings)
        attempts = sorted(task_manager.deployments)
        await task_manager.beat({attempt: metrics(1) for attempt in attempts})
        running = await watch_until(client, JOB, lambda status: seen(status) == 4)
        subtasks = [subtask for vertex in running.vertices for subtask in vertex.subtasks]
        assert [subtask.metrics.records_in for subtask in subtasks] == [1, 1, 1, 1]
        assert not any(subtask.metrics.accumulators for subtask in subtasks), "told once, merged"
        for number, attempt in enumerate(attempts):
            answer = await task_manager.report(attempt, "FINISHED", metrics=metrics(10 ** (number + 1), str(number)))
            assert not answer.HasField("error"), answer.error
        finished = await watch_until(client, JOB, lambda status: status.state == "FINISHED")
        found = results(merged([accumulators_from_pb(finished.accumulators)]))
        assert found["seen"] == 11_110
        assert sorted(found["words"]) == ["0", "1", "2", "3"]
