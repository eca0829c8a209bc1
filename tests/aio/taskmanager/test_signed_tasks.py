"""A TaskManager fetches and opens nothing of a task whose program no client has signed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager, slot_request
from tests.aio.taskmanager.processless import Processless, processless
from tests.own import own_signing, sign
from tidegate.pb import common_pb2, taskmanager_pb2

JOB, VERTEX, ALLOCATION = "a" * 32, "b" * 32, "1" * 32
ATTEMPT = f"{JOB}_{VERTEX}_0_0"


@pytest.fixture
async def manager(fake: FakeJobManager, tmp_path: Path) -> AsyncIterator[Processless]:
    async with processless(fake, tmp_path, signing=own_signing()) as found:
        await fake.wait_for(lambda: fake.beats)
        await fake.task_manager().AllocateSlot(slot_request(JOB, ALLOCATION, 0, fake.generation))
        yield found
        assert not found.fatal


def signed_deployment(fake: FakeJobManager) -> common_pb2.TaskDeployment:
    deployment = common_pb2.TaskDeployment(
        attempt=ATTEMPT,
        generation=fake.generation,
        allocation_id=ALLOCATION,
        task_name="map",
        parallelism=2,
        max_parallelism=128,
        program="c" * 64,
        spark_query="d" * 64,
        blobs={"helper.py": "e" * 64},
    )
    sign(deployment)
    return deployment


async def submit(fake: FakeJobManager, deployment: common_pb2.TaskDeployment) -> common_pb2.Error:
    request = taskmanager_pb2.SubmitTaskRequest(
        generation=fake.generation, deployment=deployment.SerializeToString(deterministic=True)
    )
    answer = await fake.task_manager().SubmitTask(request)
    error: common_pb2.Error = answer.error
    return error


async def test_what_was_signed_runs_with_any_parallelism(fake: FakeJobManager, manager: Processless) -> None:
    deployment = signed_deployment(fake)
    deployment.parallelism = 1
    error = await submit(fake, deployment)
    assert not error.code, error
    assert list(manager.subtasks.started) == [ATTEMPT]


Forge = Callable[[common_pb2.TaskDeployment], None]
FORGED: dict[str, tuple[Forge, str]] = {
    "no signature": (lambda task: task.ClearField("signature"), "its program is not signed"),
    "any signature": (lambda task: setattr(task, "signature", "{}|0"), "not by a key of this cluster"),
    "a program": (lambda task: setattr(task, "program", "0" * 64), "it was signed with another program;"),
    "a query": (lambda task: setattr(task, "spark_query", "0" * 64), "it was signed with another query of Spark;"),
    "a file": (lambda task: task.blobs.update({"helper.py": "0" * 64}), "it was signed with other files of the job;"),
    "the job": (
        lambda task: setattr(task, "attempt", f"{'9' * 32}_{VERTEX}_0_0"),
        "it was signed with another id of the job;",
    ),
    "the vertex": (
        lambda task: setattr(task, "attempt", f"{JOB}_{'9' * 32}_0_0"),
        "it was signed with another vertex;",
    ),
}


@pytest.mark.parametrize("what", FORGED)
async def test_nothing_else_is_begun(fake: FakeJobManager, manager: Processless, what: str) -> None:
    forge, why = FORGED[what]
    deployment = signed_deployment(fake)
    forge(deployment)
    error = await submit(fake, deployment)
    assert (error.code, error.retriable) == ("not-signed", False)
    assert why in error.message
    assert "vertex 'map'" in error.message
    assert manager.subtasks.started == {}
