"""Builds the archive of an ended job: asks the REST routes themselves for the answers to keep."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

from tidegate.jobmanager.machines.views import JobView
from tidegate.jobmanager.rest.history import APPLICATIONS, OVERVIEW
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.routes import Router
from tidegate.model.masking import SECRETS
from tidegate.model.values import Json

MAX_SUBTASKS = 2_000
"""Larger jobs omit per-subtask data in their archives, except that of checkpoints."""

_OF_A_JOB = (
    "", "/config", "/plan", "/status", "/exceptions", "/accumulators", "/execution-result", "/jobmanager/config",
    "/checkpoints", "/checkpoints/config",
)  # fmt: skip
_OF_A_VERTEX = ("", "/accumulators", "/subtasktimes", "/taskmanagers", "/subtasks/accumulators")
_OF_AN_APPLICATION = ("", "/exceptions", "/jobmanager/config")


async def archived_answers(router: Router, job: JobView) -> dict[str, str]:
    """Returns the answers to archive, JSON by path. What a job does not have, such as checkpoints, is left out.

    The loop does other work between two answers.
    """
    answers = {}
    for path in _paths(job):
        answer = await _answer_of(router, path)
        if answer is not None:
            answers[path] = SECRETS.encoded(answer)
        await asyncio.sleep(0)
    for path, key, name in ((OVERVIEW, "jobs", "jid"), (APPLICATIONS, "applications", "id")):
        found = await _answer_of(router, path) or {key: []}
        own = [item for item in found[key] if item[name] == job.job_id]
        answers[path] = SECRETS.encoded({key: own})
    return answers


async def _answer_of(router: Router, path: str) -> Json:
    route, parameters = router.find("GET", path)
    try:
        answer = route.handler(RestRequest("GET", path, parameters))
        found: Json = await answer if inspect.isawaitable(answer) else answer
    except RestError:
        return None
    return found


def _paths(job: JobView) -> Iterator[str]:
    base = f"/jobs/{job.job_id}"
    yield from (base + path for path in _OF_A_JOB)
    yield from (f"/applications/{job.job_id}{path}" for path in _OF_AN_APPLICATION)
    has_few = sum(vertex.parallelism for vertex in job.vertices) <= MAX_SUBTASKS
    for vertex in job.vertices:
        place = f"{base}/vertices/{vertex.vertex_id}"
        yield from (place + path for path in _OF_A_VERTEX)
        for subtask in vertex.subtasks if has_few else ():
            yield f"{place}/subtasks/{subtask.index}"
            for attempt in (subtask.current, *subtask.earlier):
                yield f"{place}/subtasks/{subtask.index}/attempts/{attempt.attempt.attempt}"
                yield f"{place}/subtasks/{subtask.index}/attempts/{attempt.attempt.attempt}/accumulators"
    view = job.checkpoints
    shown = (*view.history, view.last_completed, view.last_savepoint, view.last_failed)
    for checkpoint_id in dict.fromkeys(checkpoint.checkpoint_id for checkpoint in shown if checkpoint is not None):
        yield f"{base}/checkpoints/details/{checkpoint_id}"
        yield from (f"{base}/checkpoints/details/{checkpoint_id}/subtasks/{v.vertex_id}" for v in job.vertices)
