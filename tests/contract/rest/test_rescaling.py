"""``/jobs/:jobid/resource-requirements`` in the form of Flink's OpenAPI: bounds of each vertex, also for jobs of the default scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.rest.asking import ask, serving
from tests.contract.rest.scene import Scene
from tests.unit.jobmanager.machines.cluster_kit import CHECKPOINTED, JOB, running_job, two_stage, vertex_id
from tests.unit.jobmanager.machines.job.test_adaptive import checkpointed
from tests.unit.jobmanager.machines.job.test_rescale_history import adaptive, rescaled
from tests.unit.jobmanager.machines.job.test_rescaling import wanted
from tidegate.jobmanager.machines import commands as c

PATH = f"/jobs/{JOB}/resource-requirements"
SOURCE, SINK = vertex_id("source"), vertex_id("sink")


def scene(slots: int = 4, **settings: str) -> Scene:
    return Scene(running_job(two_stage(), {**CHECKPOINTED, **settings}, slots=slots))


def both(lower: int, upper: int) -> dict[str, Any]:
    bounds = {"parallelism": {"lowerBound": lower, "upperBound": upper}}
    return {SOURCE: bounds, SINK: bounds}


async def test_bounds_are_told_and_changed() -> None:
    found = scene()
    async with serving(found) as client:
        assert await ask(client, "GET", PATH, 200) == both(1, 2)
        assert await ask(client, "PUT", PATH, 200, json=both(2, 3)) == {}
        assert await ask(client, "GET", PATH, 200) == both(2, 3)
        assert [t.checkpoint_id for t in found.cluster.of(c.TriggerCheckpoint)] == [1]


async def test_bounds_that_are_not_said_are_one_and_the_max_parallelism() -> None:
    async with serving(scene(slots=128)) as client:
        assert await ask(client, "PUT", PATH, 200, json=both(-1, -1)) == {}
        assert await ask(client, "GET", PATH, 200) == both(1, 128)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (both(0, 2), "must be greater than zero"),
        (both(3, 2), f"The requested lower bound [3] for job vertex [{SOURCE}] is higher than the upper bound [2]."),
        (
            both(1, 129),
            f"The newly requested parallelism 129 for the job vertex {SOURCE} exceeds its maximum parallelism 128.",
        ),
        ({**both(1, 2), "a" * 32: both(1, 2)[SINK]}, "was not found in the JobGraph"),
        (
            {SOURCE: both(1, 2)[SOURCE]},
            f"The request is incomplete, missing job vertex [{SINK}] resource requirements.",
        ),
        ({SOURCE: 1, SINK: {"parallelism": {"lowerBound": True, "upperBound": 2}}}, "did not match expected format"),
    ],
)
async def test_what_flink_refuses(body: Any, text: str) -> None:
    async with serving(scene()) as client:
        assert text in (await ask(client, "PUT", PATH, 400, json=body))["errors"][0]


async def test_a_job_that_keeps_its_parallelism_says_why() -> None:
    async with serving(scene()) as client:
        assert (
            "needs 5 slots, and the job can have 4"
            in (await ask(client, "PUT", PATH, 409, json=both(1, 5)))["errors"][0]
        )
    async with serving(Scene(running_job(two_stage(), {}, slots=4))) as client:
        assert "takes no checkpoints" in (await ask(client, "PUT", PATH, 409, json=both(1, 3)))["errors"][0]


async def test_a_job_that_is_not_there() -> None:
    async with serving(scene()) as client:
        await ask(client, "GET", f"/jobs/{'e' * 32}/resource-requirements", 404)
        await ask(client, "PUT", f"/jobs/{'e' * 32}/resource-requirements", 404, json=both(1, 2))


async def test_an_adaptive_job_tells_its_timeouts() -> None:
    adaptive = running_job(two_stage(), {**CHECKPOINTED, "jobmanager.scheduler": "adaptive"}, slots=4)
    async with serving(Scene(adaptive)) as client:
        assert (await ask(client, "GET", f"/jobs/{JOB}", 200))["schedulerType"] == "Adaptive"
        told = await ask(client, "GET", f"/jobs/{JOB}/rescales/config", 200)
        assert told["executingCooldownTimeoutInMillis"] == 30_000
        assert told["submissionResourceWaitTimeoutInMillis"] == 300_000
        assert told["schedulerExecutionMode"] is None
    async with serving(scene()) as client:
        assert (await ask(client, "GET", f"/jobs/{JOB}", 200))["schedulerType"] == "Default"
        await ask(client, "GET", f"/jobs/{JOB}/rescales/config", 404)


RESCALES = Path(__file__).parent / "recordings" / "rescales"
"""Recorded from Flink 2.3.0: a job of one vertex with parallelism 2 that starts in four slots, is asked for at most 3 subtasks, for 8, and for 2."""
LISTS = ("overview", "summary", "history")


def shape(answer: Any) -> Any:
    """Names and kinds of values. Ids that are keys are left out, and of a list all but the first."""
    if isinstance(answer, list):
        return [shape(one) for one in answer[:1]]
    if not isinstance(answer, dict):
        return type(answer).__name__
    by_id = answer and all(len(key) == len(JOB) for key in answer)
    return [shape(one) for one in answer.values()][:1] if by_id else {key: shape(one) for key, one in answer.items()}


def fields(answer: Any, *names: str) -> list[Any]:
    return [answer[name] for name in names]


async def rescales_of(found: Scene) -> dict[str, Any]:
    async with serving(found) as client:
        answers = {name: await ask(client, "GET", f"/jobs/{JOB}/rescales/{name}", 200) for name in LISTS}
        newest = answers["history"][0]["rescaleUuid"]
        return {**answers, "details": await ask(client, "GET", f"/jobs/{JOB}/rescales/details/{newest}", 200)}


async def recorded_and_here(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    cluster = adaptive(4)
    if name != "started":
        rescaled(rescaled(cluster, 3), 8)
    if name == "under-way":
        cluster.tell(wanted(2))
        checkpointed(cluster)
    return json.loads((RESCALES / f"{name}.json").read_text()), await rescales_of(Scene(cluster))


@pytest.mark.parametrize("name", ["started", "partly", "under-way"])
async def test_answers_about_rescales_have_the_form_of_flinks(name: str) -> None:
    recorded, here = await recorded_and_here(name)
    assert {part: shape(one) for part, one in here.items()} == {part: shape(one) for part, one in recorded.items()}


@pytest.mark.parametrize("name", ["started", "partly", "under-way"])
async def test_rescales_are_what_flink_makes_of_the_same_requests(name: str) -> None:
    recorded, here = await recorded_and_here(name)
    said = ("rescaleAttemptId", "triggerCause", "terminalState", "terminatedReason")
    assert fields(here["history"][0], *said) == fields(recorded["history"][0], *said)
    numbers = ("desiredParallelism", "sufficientParallelism", "preRescaleParallelism", "postRescaleParallelism")
    (vertex,) = recorded["details"]["vertices"].values()
    assert [fields(one, *numbers) for one in here["details"]["vertices"].values()] == [fields(vertex, *numbers)] * 2
    slots = ("desiredSlots", "minimalRequiredSlots", "preRescaleSlots", "postRescaleSlots", "requestResourceProfile")
    (group,), (own,) = recorded["details"]["slots"].values(), here["details"]["slots"].values()
    assert fields(own, *slots) == fields(group, *slots)


async def test_a_rescale_that_is_not_remembered_is_not_found() -> None:
    async with serving(Scene(adaptive(4))) as client:
        found = await ask(client, "GET", f"/jobs/{JOB}/rescales/details/{'0' * 32}", 404)
        assert f"Could not find rescale details of specified rescaleUuid {'0' * 32}." in found["errors"][0]
        await ask(client, "GET", f"/jobs/{JOB}/rescales/details/xyz", 400)
