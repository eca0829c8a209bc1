"""The page of an archived job: its parts are written into the job's archive, besides the REST responses, and read from there.

job is over ─▶ every part, also of each vertex and checkpoint ─▶ archive ─▶ History ─▶ the parts of a view
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable

from tidegate.jobmanager.machines.views import JobView
from tidegate.jobmanager.rest.archiver import MAX_SUBTASKS
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.history import OVERVIEW, PAGE_ITEMS, History
from tidegate.jobmanager.web.checkpoint_causes import CheckpointCauses
from tidegate.jobmanager.web.checkpoint_parts import checkpoint_part
from tidegate.jobmanager.web.cluster_parts import job_item, settings
from tidegate.jobmanager.web.job_parts import subtasks_part
from tidegate.model.ids import JobId
from tidegate.model.masking import SECRETS
from tidegate.model.values import JsonObject

Build = Callable[[], JsonObject | list[JsonObject] | None]


def path_of(job_id: JobId) -> str:
    """Returns the path of a job's page parts in its archive."""
    return f"/web/jobs/{job_id}"


async def archived_parts(
    job: JobView, builds: Iterable[tuple[str, Build]], backend: Backend, causes: CheckpointCauses
) -> dict[str, str]:
    """Builds the page parts of an ended job for its archive: JSON by path.

    ``builds``: the parts that every view of the job has. The loop does other work between two of them.
    """
    kept: dict[str, dict[str, JsonObject | list[JsonObject] | None]] = {"parts": {}, "subtasks": {}, "checkpoint": {}}
    for name, build in builds:
        kept["parts"][name] = build()
        await asyncio.sleep(0)
    if sum(vertex.parallelism for vertex in job.vertices) <= MAX_SUBTASKS:
        for vertex in job.vertices:
            kept["subtasks"][vertex.vertex_id] = subtasks_part(vertex, backend.measures)
            await asyncio.sleep(0)
    for checkpoint in (*job.checkpoints.history, *job.checkpoints.beyond):
        number = checkpoint.checkpoint_id
        kept["checkpoint"][str(number)] = checkpoint_part(job, number, backend.now_ms(), causes)
        await asyncio.sleep(0)
    whole = {**kept, "settings": settings(backend.configuration, job)}
    return {path_of(job.job_id): _encoded(whole), PAGE_ITEMS: _encoded({"jobs": [job_item(job)]})}


async def found_parts(history: History, job_id: JobId) -> JsonObject | None:
    """Returns what ``archived_parts`` wrote; ``None`` for an archive of another version, or of Flink."""
    body = await history.answer(job_id, path_of(job_id))
    if body is None:
        return None
    found: JsonObject = json.loads(body)
    return found


def parts_of_view(kept: JsonObject, vertex_id: str, checkpoint_id: int | None) -> dict[str, object]:
    """Returns the parts of a view, by name."""
    parts: dict[str, object] = dict(kept["parts"])
    if vertex_id in kept["subtasks"]:
        parts["subtasks"] = kept["subtasks"][vertex_id]
    if checkpoint_id is not None:
        parts["checkpoint"] = kept["checkpoint"].get(str(checkpoint_id))
    return parts


def archived_items(backend: Backend) -> list[JsonObject]:
    """Returns archived jobs that this JobManager does not know, for the list of jobs."""
    if backend.history is None:
        return []
    return items_of(backend.history, [job.job_id for job in backend.views.jobs()])


def items_of(history: History, but: Iterable[JobId]) -> list[JsonObject]:
    """Returns archived jobs except ``but``, the one that ended last first. Values that an archive does not have are ``None``."""
    left_out = frozenset(but)
    own = {item["id"]: item for item in history.items(PAGE_ITEMS, left_out)}
    return [own.get(item["jid"]) or _of_overview(item) for item in history.items(OVERVIEW, left_out)]


def _of_overview(item: JsonObject) -> JsonObject:
    return {
        "id": item["jid"],
        "name": item["name"],
        "state": item["state"],
        "start_ms": item["start-time"],
        "end_ms": item["end-time"],
        "restarts": None,
        "waiting_for": None,
        "starting_since_ms": None,
        "failure": None,
        "tasks": {state.upper(): count for state, count in item["tasks"].items() if state != "total"},
        "checkpoints": None,
        "last_checkpoint": None,
    }


def _encoded(value: object) -> str:
    return SECRETS.encoded(value)
