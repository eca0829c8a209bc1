"""The parts of a view of the page, and their bytes, computed once for all viewers.

    view ─▶ names of parts ─▶ bytes of each, at most as old as a pause ─▶ digest ─▶ sent to clients with another digest

A part's bytes change only when what it shows does, so that a digest tells whether a client has it already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import xxhash

from tidegate.jobmanager.machines.views import JobView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.web.archived import Build, archived_items, found_parts, parts_of_view
from tidegate.jobmanager.web.checkpoint_causes import CheckpointCauses
from tidegate.jobmanager.web.checkpoint_parts import checkpoint_part, checkpoints_part
from tidegate.jobmanager.web.cluster_parts import cluster_part, jobs_part
from tidegate.jobmanager.web.job_parts import accumulators_part, exceptions_part, job_part, rates_part, subtasks_part
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId
from tidegate.model.masking import SECRETS
from tidegate.model.values import JsonObject

MAX_KEPT = 64
PAUSE_MS = 200
"""The least pause between two looks at a view, in ms. Chosen, not measured: pages with the same view share one computation."""
PAUSE_MS_PER_SUBTASK = 0.5
"""The pause in ms per subtask: a job of 1,000 subtasks is looked at twice a second at most; its parts take some 20 ms to build."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """The view of a page: the cluster, or a job, with one vertex and one checkpoint opened."""

    job_id: JobId | None = None
    vertex_id: str = ""
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class PagePart:
    """One part of a view. ``body``: JSON without a line break."""

    name: str
    body: bytes
    digest: str


class PageParts:
    """Builds the parts of views; those of a view that several pages show are built once."""

    def __init__(
        self, backend: Backend, causes: CheckpointCauses, findings: Callable[[JobView], list[JsonObject]]
    ) -> None:
        self._backend = backend
        self._findings = findings
        self._causes = causes
        self._kept: dict[Shown, tuple[float, list[PagePart]]] = {}

    async def of(self, shown: Shown) -> list[PagePart]:
        """Returns all current parts of a view. A job that neither runs here nor is in the archive has one
        part, ``gone``.
        """
        now_ms = time.monotonic() * 1000
        kept = self._kept.get(shown)
        if kept is not None and now_ms < kept[0]:
            return kept[1]
        if len(self._kept) >= MAX_KEPT:
            self._kept = {key: value for key, value in self._kept.items() if now_ms < value[0]}
        archived = await self._archived(shown)
        found = [_encoded(name, build()) for name, build in self._builds(shown)] if archived is None else archived
        self._kept[shown] = (now_ms + PAUSE_MS / 2, found)
        return found

    def drop(self) -> None:
        """Drops cached parts after a change by a user."""
        self._kept.clear()

    def pause_ms(self, shown: Shown) -> float:
        """Returns the pause between two looks at a view, in ms."""
        job = None if shown.job_id is None else self._backend.views.job(shown.job_id)
        jobs = self._backend.views.jobs() if shown.job_id is None else [job] if job is not None else []
        return max(PAUSE_MS, PAUSE_MS_PER_SUBTASK * sum(v.parallelism for j in jobs for v in j.vertices))

    def builds_of(self, job: JobView) -> list[tuple[str, Build]]:
        """Returns the parts that every view of a job has, by name."""
        measures = self._backend.measures
        return [
            ("job", lambda: job_part(job, self._backend)),
            ("rates", lambda: rates_part(job, measures)),
            ("checkpoints", lambda: checkpoints_part(job)),
            ("accumulators", lambda: accumulators_part(job, measures)),
            ("exceptions", lambda: exceptions_part(job, self._backend.faults)),
        ]

    async def _archived(self, shown: Shown) -> list[PagePart] | None:
        """Returns the parts of a job that is only in the archive; otherwise ``None``."""
        job_id, history = shown.job_id, self._backend.history
        if (
            job_id is None
            or history is None
            or not history.knows(job_id)
            or self._backend.views.job(job_id) is not None
        ):
            return None
        try:
            kept = await found_parts(history, job_id)
        except TidegateError as error:
            _log.warning("the archive of job %s cannot be shown: %s", job_id, error.message)
            return None
        if kept is None:
            return None
        return [
            _encoded(name, part) for name, part in parts_of_view(kept, shown.vertex_id, shown.checkpoint_id).items()
        ]

    def _builds(self, shown: Shown) -> list[tuple[str, Build]]:
        views = self._backend.views
        if shown.job_id is None:
            jobs = views.jobs()
            return [
                ("cluster", lambda: cluster_part(views.cluster(), jobs, self._backend)),
                ("jobs", lambda: jobs_part(jobs, archived_items(self._backend), self._backend.measures)),
            ]
        job = views.job(shown.job_id)
        return [("gone", lambda: {"id": shown.job_id})] if job is None else self._of_job(job, shown)

    def _of_job(self, job: JobView, shown: Shown) -> list[tuple[str, Build]]:
        builds, checkpoint_id = self.builds_of(job), shown.checkpoint_id
        builds.append(("findings", lambda: self._findings(job)))
        vertex = next((vertex for vertex in job.vertices if vertex.vertex_id == shown.vertex_id), None)
        if vertex is not None:
            builds.append(("subtasks", lambda: subtasks_part(vertex, self._backend.measures)))
        if checkpoint_id is not None:
            now_ms = self._backend.now_ms
            builds.append(("checkpoint", lambda: checkpoint_part(job, checkpoint_id, now_ms(), self._causes)))
        return builds


def _encoded(name: str, value: object) -> PagePart:
    body = SECRETS.encoded(value).encode()
    return PagePart(name, body, xxhash.xxh3_64_hexdigest(body))
