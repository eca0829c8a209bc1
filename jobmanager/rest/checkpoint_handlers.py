"""Paths below ``/jobs/:jobid/checkpoints`` that read."""

from __future__ import annotations

from jobmanager.machines.views import CheckpointView, JobView
from jobmanager.rest.asked import Asked
from jobmanager.rest.backend import Backend
from jobmanager.rest.checkpoint_answers import (
    checkpoint_config,
    checkpoint_details,
    checkpoints_answer,
    find_checkpoint,
    vertex_details,
)
from jobmanager.rest.errors import not_found
from jobmanager.rest.figures import Json
from jobmanager.rest.job_answers import job_type
from jobmanager.rest.routes import Kept, Route, reads

_C = "/jobs/:jobid/checkpoints"


class CheckpointHandlers:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        return [
            reads(_C, self._statistics, Kept.CHECKPOINTS),
            reads(f"{_C}/config", self._config, Kept.GRAPH),
            reads(f"{_C}/details/:checkpointid", self._details, Kept.CHECKPOINTS),
            reads(f"{_C}/details/:checkpointid/subtasks/:vertexid", self._subtasks, Kept.CHECKPOINTS),
        ]

    def _statistics(self, asked: Asked) -> Json:
        return checkpoints_answer(self._checkpointed(asked).checkpoints)

    def _config(self, asked: Asked) -> Json:
        return checkpoint_config(self._checkpointed(asked))

    def _details(self, asked: Asked) -> Json:
        job, checkpoint = self._checkpoint(asked)
        return checkpoint_details(checkpoint, job.vertices)

    def _subtasks(self, asked: Asked) -> Json:
        vertex_id = asked.vertex_id()
        job, checkpoint = self._checkpoint(asked)
        for vertex in job.vertices:
            if vertex.vertex_id == vertex_id:
                return vertex_details(checkpoint, vertex)
        raise not_found(f"There is no checkpoint statistics for task {vertex_id}.")

    def _checkpoint(self, asked: Asked) -> tuple[JobView, CheckpointView]:
        checkpoint_id = asked.number("checkpointid")
        job = self._checkpointed(asked)
        found = find_checkpoint(job.checkpoints, checkpoint_id)
        if found is None:
            raise not_found(f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
        return job, found

    def _checkpointed(self, asked: Asked) -> JobView:
        """404 for a job in BATCH mode, which the dashboard passes over; others may be asked for checkpoints at any time."""
        job = self._backend.job(asked)
        if job_type(job.configuration) == "BATCH":
            raise not_found(f"Checkpointing was not enabled for job {job.job_id}.")
        return job
