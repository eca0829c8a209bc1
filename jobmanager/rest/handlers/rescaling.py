"""The bounds of the parallelism of a running job: how to read and change them, and the rescale history.

    {<vertex id>: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}

A lower bound of -1 is 1, an upper one the max parallelism. This works for every job, where Flink
does it for those of its ``AdaptiveScheduler``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from tidegate.jobmanager.machines.events import RescaleRequested
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError, bad_request, not_found
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.responses import rescales
from tidegate.jobmanager.rest.responses.jobs import scheduler_type
from tidegate.jobmanager.rest.routes import Route
from tidegate.model.configuration import Configuration
from tidegate.model.ids import VertexId
from tidegate.model.options import AdaptiveSchedulerOptions, SchedulerType, SlotOptions
from tidegate.model.rescaling.bounds import NOT_SAID, Bounds, ParallelismBounds, completed, problems_of
from tidegate.model.rescaling.history import Rescales
from tidegate.model.values import Json, JsonObject


class RescalingHandlers:
    """Answers the paths that read or change the resource requirements of a job, and those about its rescales."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/jobs/:jobid/resource-requirements", self._requirements),
            Route("PUT", "/jobs/:jobid/resource-requirements", self._change_requirements, changes=True),
            Route("GET", "/jobs/:jobid/rescales/config", self._config),
            Route("GET", "/jobs/:jobid/rescales/overview", lambda request: rescales.overview(self._rescales(request))),
            Route("GET", "/jobs/:jobid/rescales/summary", lambda request: rescales.summary(self._rescales(request))),
            Route("GET", "/jobs/:jobid/rescales/history", self._history),
            Route("GET", "/jobs/:jobid/rescales/details/:rescaleuuid", self._details),
        ]

    def _requirements(self, request: RestRequest) -> JsonObject:
        return requirements(self._backend.job(request).bounds)

    def _change_requirements(self, request: RestRequest) -> Awaitable[JsonObject]:
        request.job_id()
        requested = request.json_object()
        if not requested:
            raise bad_request("Request body does not specify resource requirements.")
        job = self._backend.job(request)
        missing = [vertex.vertex_id for vertex in job.vertices if vertex.vertex_id not in requested]
        if missing:
            raise bad_request(f"The request is incomplete, missing job vertex [{missing[0]}] resource requirements.")
        bounds = completed(
            job.graph, {VertexId(vertex_id): _bounds(vertex_id, one) for vertex_id, one in requested.items()}
        )
        if problems := problems_of(job.graph, bounds):
            raise bad_request("\n".join(problems))
        event = RescaleRequested(job.job_id, bounds)
        if refusal := self._backend.views.refusal_of(event):
            raise RestError(409, refusal)

        async def ask() -> JsonObject:
            await self._backend.ask(event)
            return {}

        return ask()

    def _config(self, request: RestRequest) -> JsonObject:
        job = self._backend.job(request)
        if scheduler_type(job.configuration) != SchedulerType.ADAPTIVE.value:
            raise not_found(f"AdaptiveScheduler is not enabled for this job ({job.job_id}).")
        option, options = Configuration.from_strings(job.configuration).get, AdaptiveSchedulerOptions
        mode = option(options.MODE)
        return {
            "rescaleHistoryMax": option(options.HISTORY_SIZE),
            "schedulerExecutionMode": None if mode is None else mode.value,
            "submissionResourceWaitTimeoutInMillis": option(options.RESOURCE_WAIT_TIMEOUT),
            "submissionResourceStabilizationTimeoutInMillis": option(options.SUBMISSION_STABILIZATION),
            "slotIdleTimeoutInMillis": option(SlotOptions.IDLE_TIMEOUT),
            "executingCooldownTimeoutInMillis": option(options.COOLDOWN),
            "executingResourceStabilizationTimeoutInMillis": option(options.STABILIZATION),
            "maximumDelayForTriggeringRescaleInMillis": option(options.MAX_DELAY),
            "rescaleOnFailedCheckpointCount": option(options.MAX_CHECKPOINT_FAILURES),
        }

    def _history(self, request: RestRequest) -> list[JsonObject]:
        return [rescales.item(one) for one in self._rescales(request).history]

    def _details(self, request: RestRequest) -> JsonObject:
        rescale_id = request.hex_id("rescaleuuid")
        for one in self._rescales(request).history:
            if one.rescale_id == rescale_id:
                return rescales.details(one, self._backend.job(request).graph)
        raise not_found(f"Could not find rescale details of specified rescaleUuid {rescale_id}.")

    def _rescales(self, request: RestRequest) -> Rescales:
        """Returns the rescale history, also of a job without the adaptive scheduler, once another parallelism was requested. Raises
        ``RestError`` 404.
        """
        job = self._backend.job(request)
        if job.rescale_history is None:
            raise not_found(
                f"The job `{job.job_id}` has not enabled the `Adaptive` scheduler, or it has been enabled but the value of configuration "
                "option `web.adaptive-scheduler.rescale-history.size` has not been set to greater than `0`."
            )
        return job.rescale_history


def requirements(bounds: Bounds) -> JsonObject:
    """Returns the bounds in Flink's form (``JobResourceRequirementsBody``)."""
    return {
        vertex_id: {"parallelism": {"lowerBound": both.lower, "upperBound": both.upper}}
        for vertex_id, both in bounds.items()
    }


def _bounds(vertex_id: str, requested: Json) -> ParallelismBounds:
    found = requested.get("parallelism") if isinstance(requested, Mapping) else None
    ends = [found.get(name, NOT_SAID) for name in ("lowerBound", "upperBound")] if isinstance(found, Mapping) else []
    numbers = [end for end in ends if isinstance(end, int) and not isinstance(end, bool)]
    if len(numbers) != 2:
        raise bad_request(
            f"Request did not match expected format: [{vertex_id}] has to be "
            '{"parallelism": {"lowerBound": <number>, "upperBound": <number>}}.'
        )
    return ParallelismBounds(*numbers)
