"""Which parts a view of the page consists of, and their bytes, computed once for all who look at the same.

    view ─▶ names of parts ─▶ bytes of each, at most as old as a pause ─▶ digest ─▶ sent to whom has another one

A part's bytes change only when what it shows does, so that a digest tells whether somebody has it already.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import xxhash

from jobmanager.machines.views import JobView
from jobmanager.rest.backend import Backend
from jobmanager.rest.figures import Json
from jobmanager.web.checkpoint_parts import checkpoint_part, checkpoints_part
from jobmanager.web.cluster_parts import cluster_part, jobs_part
from jobmanager.web.job_parts import exceptions_part, job_part, rates_part, subtasks_part
from tidegate.model.ids import JobId

MAX_KEPT = 64
PAUSE_MS = 200
PAUSE_MS_PER_SUBTASK = 0.5
"""A job of 1,000 subtasks is looked at twice a second at most: its parts take some 20 ms to build."""

Build = Callable[[], Json | list[Json] | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows: the cluster, or a job, with one vertex and one checkpoint opened."""

    job_id: JobId | None = None
    vertex_id: str = ""
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """``body``: JSON without a line break."""

    name: str
    body: bytes
    digest: str


class Parts:
    """Parts by view; those of one view that several pages look at are built once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[Shown, tuple[float, list[Part]]] = {}

    def of(self, shown: Shown) -> list[Part]:
        """All parts of a view, now. A job that is not there (any more) has one part, ``gone``."""
        now_ms = time.monotonic() * 1000
        kept = self._kept.get(shown)
        if kept is not None and now_ms < kept[0]:
            return kept[1]
        if len(self._kept) >= MAX_KEPT:
            self._kept = {key: value for key, value in self._kept.items() if now_ms < value[0]}
        found = [_encoded(name, build()) for name, build in self._builds(shown)]
        self._kept[shown] = (now_ms + PAUSE_MS / 2, found)
        return found

    def drop(self) -> None:
        """Something was changed by a user, who wants to see it."""
        self._kept.clear()

    def pause_ms(self, shown: Shown) -> float:
        """Between two looks at the same view."""
        job = None if shown.job_id is None else self._backend.views.job(shown.job_id)
        jobs = self._backend.views.jobs() if shown.job_id is None else [job] if job is not None else []
        return max(PAUSE_MS, PAUSE_MS_PER_SUBTASK * sum(v.parallelism for j in jobs for v in j.vertices))

    def _builds(self, shown: Shown) -> list[tuple[str, Build]]:
        views = self._backend.views
        if shown.job_id is None:
            jobs = views.jobs()
            return [
                ("cluster", lambda: cluster_part(views.cluster(), jobs, self._backend)),
                ("jobs", lambda: jobs_part(jobs)),
            ]
        job = views.job(shown.job_id)
        return [("gone", lambda: {"id": shown.job_id})] if job is None else self._of_job(job, shown)

    def _of_job(self, job: JobView, shown: Shown) -> list[tuple[str, Build]]:
        measures, checkpoint_id = self._backend.measures, shown.checkpoint_id
        builds: list[tuple[str, Build]] = [
            ("job", lambda: job_part(job, self._backend)),
            ("rates", lambda: rates_part(job, measures)),
            ("checkpoints", lambda: checkpoints_part(job)),
            ("exceptions", lambda: exceptions_part(job)),
        ]
        vertex = next((vertex for vertex in job.vertices if vertex.vertex_id == shown.vertex_id), None)
        if vertex is not None:
            builds.append(("subtasks", lambda: subtasks_part(vertex, measures)))
        if checkpoint_id is not None:
            builds.append(("checkpoint", lambda: checkpoint_part(job, checkpoint_id, self._backend.now_ms())))
        return builds


def _encoded(name: str, value: Json | list[Json] | None) -> Part:
    body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return Part(name, body, xxhash.xxh3_64_hexdigest(body))
