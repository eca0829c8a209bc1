"""GET paths below ``/jobs/:jobid/checkpoints``."""

from __future__ import annotations

from tidegate.jobmanager.machines.views import CheckpointView, JobView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import not_found
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.responses.checkpoints import (
    checkpoint_config,
    checkpoint_details,
    checkpoints_answer,
    find_checkpoint,
    vertex_details,
)
from tidegate.jobmanager.rest.responses.jobs import job_type
from tidegate.jobmanager.rest.routes import Kept, Route, reads
from tidegate.model.values import JsonObject

_C = "/jobs/:jobid/checkpoints"


class CheckpointHandlers:
    """Answers the paths below ``/jobs/:jobid/checkpoints`` that read statistics and the configuration of checkpoints."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        return [
            reads(_C, self._statistics, Kept.CHECKPOINTS),
            reads(f"{_C}/config", self._config, Kept.GRAPH),
            reads(f"{_C}/details/:checkpointid", self._details, Kept.CHECKPOINTS),
            reads(f"{_C}/details/:checkpointid/subtasks/:vertexid", self._subtasks, Kept.CHECKPOINTS),
        ]

    def _statistics(self, request: RestRequest) -> JsonObject:
        return checkpoints_answer(self._checkpointed(request).checkpoints)

    def _config(self, request: RestRequest) -> JsonObject:
        return checkpoint_config(self._checkpointed(request))

    def _details(self, request: RestRequest) -> JsonObject:
        job, checkpoint = self._checkpoint(request)
        return checkpoint_details(checkpoint, job.vertices)

    def _subtasks(self, request: RestRequest) -> JsonObject:
        vertex_id = request.vertex_id()
        job, checkpoint = self._checkpoint(request)
        for vertex in job.vertices:
            if vertex.vertex_id == vertex_id:
                return vertex_details(checkpoint, vertex)
        raise not_found(f"There is no checkpoint statistics for task {vertex_id}.")

    def _checkpoint(self, request: RestRequest) -> tuple[JobView, CheckpointView]:
        checkpoint_id = request.number("checkpointid")
        job = self._checkpointed(request)
        found = find_checkpoint(job.checkpoints, checkpoint_id)
        if found is None:
            raise not_found(f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
        return job, found

    def _checkpointed(self, request: RestRequest) -> JobView:
        """Returns the job of the path; 404 for one in BATCH mode, as the dashboard expects."""
        job = self._backend.job(request)
        if job_type(job.configuration) == "BATCH":
            raise not_found(f"Checkpointing was not enabled for job {job.job_id}.")
        return job
