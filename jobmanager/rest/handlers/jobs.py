"""Paths below ``/jobs`` that concern a whole job, and ``/applications``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidegate.jobmanager.machines.events import JobCancelRequested
from tidegate.jobmanager.machines.views import JobView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.history import APPLICATIONS, OVERVIEW
from tidegate.jobmanager.rest.http.errors import RestError, bad_request, not_found, server_side
from tidegate.jobmanager.rest.http.request import RestRequest, bad_query, is_job_id
from tidegate.jobmanager.rest.responses import jobs as job_answers
from tidegate.jobmanager.rest.responses import metrics
from tidegate.jobmanager.rest.responses.cluster import (
    application_details,
    application_exceptions,
    application_item,
    configuration_entries,
    environment,
)
from tidegate.jobmanager.rest.responses.exceptions import exceptions, kept_failures
from tidegate.jobmanager.rest.responses.faults import fault_entries
from tidegate.jobmanager.rest.responses.tasks import user_accumulators
from tidegate.jobmanager.rest.routes import Handler, Kept, Route, reads, writes
from tidegate.model.configuration import Configuration
from tidegate.model.states import JobState
from tidegate.model.values import Json, JsonObject

DEFAULT_MAX_EXCEPTIONS = 20
"""How many exceptions are returned by default: as in Flink's ``JobExceptionsHandler``."""
_STOP_IS_GONE = (
    'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
    'For a graceful shutdown, please use "jobs/:jobid/stop" instead.'
)


class JobHandlers:
    """Answers the paths about jobs that are not about a vertex, a checkpoint or an operation."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        job = self._of_job
        return [
            reads("/jobs", self._ids),
            reads("/jobs/overview", self._overview),
            reads("/jobs/metrics", self._aggregated),
            reads(
                "/jobs/:jobid", job(lambda j, now: job_answers.job_details(j, self._backend.measures, now)), Kept.GRAPH
            ),
            reads("/jobs/:jobid/config", job(lambda j, _: job_answers.job_config(j)), Kept.GRAPH),
            reads("/jobs/:jobid/plan", job(lambda j, _: {"plan": job_answers.plan(j.job_id, j.graph)}), Kept.GRAPH),
            reads("/jobs/:jobid/exceptions", self._exceptions, Kept.GRAPH),
            reads("/jobs/:jobid/kept-failures", job(lambda j, _: kept_failures(j))),
            reads("/jobs/:jobid/accumulators", self._accumulators, Kept.GRAPH),
            reads("/jobs/:jobid/execution-result", job(lambda j, _: job_answers.execution_result(j))),
            reads("/jobs/:jobid/status", self._status),
            reads("/jobs/:jobid/metrics", metrics.of_what_is_known(self._metrics)),
            reads("/jobs/:jobid/jobmanager/config", self._configuration_of),
            reads("/jobs/:jobid/jobmanager/environment", of_any_job(environment)),
            reads("/jobs/:jobid/jobmanager/log-url", self._log_url),
            writes("PATCH", "/jobs/:jobid", self._terminate),
            Route("GET", "/jobs/:jobid/yarn-cancel", self._cancel, 202, changes=True),
            Route("GET", "/jobs/:jobid/yarn-stop", self._stop_is_gone, 308, changes=True),
            writes("PATCH", "/jobs/:jobid/clientHeartbeat", self._client_heartbeat),
            reads("/applications/overview", self._applications),
            reads("/applications/:jobid", job(application_details)),
            reads("/applications/:jobid/exceptions", job(lambda j, _: application_exceptions(j))),
            reads("/applications/:jobid/jobmanager/config", job(lambda _, __: self._configuration())),
            writes("POST", "/applications/:jobid/cancel", self._cancel_application),
        ]

    def _of_job(self, answer: Callable[[JobView, int], Json]) -> Handler:
        return lambda request: answer(self._backend.job(request), self._backend.now_ms())

    def _ids(self, request: RestRequest) -> JsonObject:
        shown = [{"id": job.job_id, "status": job.state.value} for job in self._backend.views.jobs()]
        archived = [{"id": item["jid"], "status": item["state"]} for item in self._backend.archived(OVERVIEW)]
        return {"jobs": [*shown, *archived]}

    def _overview(self, request: RestRequest) -> JsonObject:
        now_ms = self._backend.now_ms()
        shown = [job_answers.job_item(job, now_ms) for job in self._backend.views.jobs()]
        return {"jobs": [*shown, *self._backend.archived(OVERVIEW)]}

    def _applications(self, request: RestRequest) -> JsonObject:
        now_ms = self._backend.now_ms()
        shown = [application_item(job, now_ms) for job in self._backend.views.jobs()]
        return {"applications": [*shown, *self._backend.archived(APPLICATIONS)]}

    def _status(self, request: RestRequest) -> JsonObject:
        """Answers the state of a job; an unknown job is 500 here, and 404 elsewhere, as in Flink."""
        job_id = request.job_id()
        job = self._backend.views.job(job_id)
        if job is None:
            raise server_side(f"Could not find Flink job ({job_id})")
        return {"status": job.state.value}

    def _exceptions(self, request: RestRequest) -> JsonObject:
        maximum = request.first_number("maxExceptions", DEFAULT_MAX_EXCEPTIONS)
        labels = request.listed("failureLabelFilter") or []
        for label in labels:
            if ":" not in label:
                raise bad_request(
                    f"Cannot resolve query parameter (failureLabelFilter) from value {label!r}: key:value."
                )
        job, faults = self._backend.job(request), self._backend.faults
        return exceptions(job, maximum, labels, self._backend.endpoints(), fault_entries(faults, job))

    def _accumulators(self, request: RestRequest) -> JsonObject:
        job = self._backend.job(request)
        attempts = [subtask.current.attempt for vertex in job.vertices for subtask in vertex.subtasks]
        return {
            "job-accumulators": [],
            "user-task-accumulators": user_accumulators(map(self._backend.measures.metrics_of, attempts)),
            "serialized-user-task-accumulators": {},
        }

    def _metrics(self, request: RestRequest) -> list[JsonObject]:
        return metrics.collection(metrics.job_metrics(self._backend.job(request), self._backend.now_ms()), request)

    def _aggregated(self, request: RestRequest) -> list[JsonObject]:
        wanted = request.listed("jobs")
        for text in wanted or ():
            if not is_job_id(text):
                raise bad_query("jobs", text, "ids of 32 hex digits")
        jobs = [job for job in self._backend.views.jobs() if wanted is None or job.job_id in wanted]
        return metrics.aggregation([metrics.job_metrics(job, self._backend.now_ms()) for job in jobs], request)

    def _configuration_of(self, request: RestRequest) -> list[JsonObject]:
        """Answers the cluster's configuration, overridden by that of the job if it is known."""
        job = self._backend.views.job(request.job_id())
        if job is None:
            return self._configuration()
        own = Configuration.from_strings(job.configuration)
        return configuration_entries(self._backend.configuration.merged(own))

    def _configuration(self) -> list[JsonObject]:
        return configuration_entries(self._backend.configuration)

    def _log_url(self, request: RestRequest) -> JsonObject:
        """Answers the URL of the JobManager's log for any job (``GeneratedLogUrlHandler.java``)."""
        return {"url": f"{request.base_url}/jobmanager/log"}

    def _terminate(self, request: RestRequest) -> Awaitable[JsonObject]:
        request.json_object()
        mode = request.query.get("mode", "cancel").lower()
        if mode == "stop":
            request.job_id()
            raise RestError(308, _STOP_IS_GONE)
        if mode != "cancel":
            raise bad_query("mode", mode, "cancel")
        return self._cancel(request)

    def _cancel(self, request: RestRequest) -> Awaitable[JsonObject]:
        """Cancels a job. For one that is canceled already it does nothing, without an error."""
        job = self._backend.job(request)
        if job.state.is_terminal and job.state is not JobState.CANCELED:
            raise RestError(
                409,
                "Job cancellation failed because the job has already reached another terminal state "
                f"({job.state.value}).",
            )

        async def ask() -> JsonObject:
            await self._backend.ask(JobCancelRequested(job.job_id))
            return {}

        return ask()

    def _cancel_application(self, request: RestRequest) -> Awaitable[JsonObject]:
        """Cancels a job. As in Flink, one that has ended is not found."""
        if self._backend.job(request).state.is_terminal:
            raise not_found("Application could not be found.")
        return self._cancel(request)

    def _stop_is_gone(self, request: RestRequest) -> JsonObject:
        self._backend.job(request)
        raise RestError(308, _STOP_IS_GONE)

    def _client_heartbeat(self, request: RestRequest) -> JsonObject:
        """Accepts a client heartbeat and ignores it: jobs do not end with their client here."""
        request.job_id()
        if type(request.json_object().get("expiredTimestamp")) is not int:
            raise bad_request("Request did not match expected format: expiredTimestamp has to be a number.")
        return {}


def of_any_job(answer: Callable[[], JsonObject | list[JsonObject]]) -> Handler:
    """Returns a handler with the same answer for every job, also for one that does not exist."""

    def answered(request: RestRequest) -> JsonObject | list[JsonObject]:
        request.job_id()
        return answer()

    return answered
