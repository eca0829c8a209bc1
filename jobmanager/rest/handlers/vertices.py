"""Paths below ``/jobs/:jobid/vertices``."""

from __future__ import annotations

from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.request import RestRequest, subtask_ranges
from tidegate.jobmanager.rest.responses import metrics
from tidegate.jobmanager.rest.responses import vertices as vertex_answers
from tidegate.jobmanager.rest.responses.tasks import endpoint, user_accumulators
from tidegate.jobmanager.rest.routes import Kept, Route, reads
from tidegate.model.values import JsonObject

_V = "/jobs/:jobid/vertices/:vertexid"
_S = f"{_V}/subtasks/:subtaskindex"


class VertexHandlers:
    """Answers the paths below ``/jobs/:jobid/vertices/:vertexid``, except for flame graphs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        known = metrics.of_what_is_known
        return [
            reads(_V, self._details, Kept.GRAPH),
            reads(f"{_V}/accumulators", self._accumulators, Kept.GRAPH),
            reads(f"{_V}/backpressure", self._backpressure),
            reads(f"{_V}/jm-operator-metrics", known(self._coordinator_metrics)),
            reads(f"{_V}/metrics", known(self._metrics)),
            reads(f"{_V}/subtasktimes", self._times, Kept.GRAPH),
            reads(f"{_V}/taskmanagers", self._by_task_manager, Kept.GRAPH),
            reads(f"{_V}/watermarks", self._watermarks),
            reads(f"{_V}/subtasks/accumulators", self._subtask_accumulators, Kept.GRAPH),
            reads(f"{_V}/subtasks/metrics", known(self._aggregated)),
            reads(_S, self._subtask, Kept.GRAPH),
            reads(f"{_S}/metrics", known(self._subtask_metrics)),
            reads(f"{_S}/attempts/:attempt", self._attempt, Kept.GRAPH),
            reads(f"{_S}/attempts/:attempt/accumulators", self._attempt_accumulators, Kept.GRAPH),
        ]

    def _details(self, request: RestRequest) -> JsonObject:
        _, vertex = self._backend.vertex(request)
        return vertex_answers.vertex_details(
            vertex, self._backend.measures, self._backend.endpoints(), self._backend.now_ms()
        )

    def _times(self, request: RestRequest) -> JsonObject:
        _, vertex = self._backend.vertex(request)
        return vertex_answers.subtask_times(vertex, self._backend.endpoints(), self._backend.now_ms())

    def _by_task_manager(self, request: RestRequest) -> JsonObject:
        _, vertex = self._backend.vertex(request)
        return vertex_answers.by_task_manager(
            vertex, self._backend.measures, self._backend.endpoints(), self._backend.now_ms()
        )

    def _backpressure(self, request: RestRequest) -> JsonObject:
        """Answers the backpressure of a vertex; "not measured", which is no error, for an ended or unknown job or vertex
        (``JobVertexBackPressureHandler.java``).
        """
        try:
            job, vertex = self._backend.vertex(request)
            return (
                vertex_answers.NOT_MEASURED
                if job.state.is_terminal
                else vertex_answers.backpressure(vertex, self._backend)
            )
        except RestError as error:
            if error.status == 400:
                raise
            return vertex_answers.NOT_MEASURED

    def _watermarks(self, request: RestRequest) -> list[JsonObject]:
        return vertex_answers.watermarks(self._backend.vertex(request)[1], self._backend.measures)

    # ---- metrics -----------------------------------------------------------------------------------------------------

    def _metrics(self, request: RestRequest) -> list[JsonObject]:
        return metrics.collection(metrics.vertex_metrics(self._backend.vertex(request)[1], self._backend), request)

    def _coordinator_metrics(self, request: RestRequest) -> list[JsonObject]:
        """Answers an empty list: operator coordinators have no metrics here."""
        self._backend.vertex(request)
        return []

    def _subtask_metrics(self, request: RestRequest) -> list[JsonObject]:
        _, _, subtask = self._backend.subtask(request)
        return metrics.collection(metrics.subtask_metrics(subtask.current, self._backend), request)

    def _aggregated(self, request: RestRequest) -> list[JsonObject]:
        _, vertex = self._backend.vertex(request)
        indices = subtask_ranges(request, "subtasks", vertex.parallelism)
        parts = [metrics.subtask_metrics(vertex.subtasks[index].current, self._backend) for index in indices]
        return metrics.aggregation(parts, request)

    # ---- subtasks ----------------------------------------------------------------------------------------------------

    def _subtask(self, request: RestRequest) -> JsonObject:
        _, _, subtask = self._backend.subtask(request)
        return vertex_answers.subtask_details(
            subtask.current, self._backend.measures, self._backend.endpoints(), self._backend.now_ms()
        )

    def _attempt(self, request: RestRequest) -> JsonObject:
        _, attempt = self._backend.attempt(request)
        return vertex_answers.subtask_details(
            attempt, self._backend.measures, self._backend.endpoints(), self._backend.now_ms()
        )

    # ---- accumulators of user functions ------------------------------------------------------------------------------

    def _accumulators(self, request: RestRequest) -> JsonObject:
        _, vertex = self._backend.vertex(request)
        attempts = [subtask.current.attempt for subtask in vertex.subtasks]
        return {
            "id": vertex.vertex_id,
            "user-accumulators": user_accumulators(map(self._backend.measures.metrics_of, attempts)),
        }

    def _subtask_accumulators(self, request: RestRequest) -> JsonObject:
        _, vertex = self._backend.vertex(request)
        endpoints, metrics_of = self._backend.endpoints(), self._backend.measures.metrics_of
        return {
            "id": vertex.vertex_id,
            "parallelism": vertex.parallelism,
            "subtasks": [
                {
                    "subtask": subtask.index,
                    "attempt": subtask.current.attempt.attempt,
                    "endpoint": endpoint(subtask.current, endpoints),
                    "user-accumulators": user_accumulators([metrics_of(subtask.current.attempt)]),
                }
                for subtask in vertex.subtasks
            ],
        }

    def _attempt_accumulators(self, request: RestRequest) -> JsonObject:
        subtask, attempt = self._backend.attempt(request)
        return {
            "subtask": subtask.index,
            "attempt": attempt.attempt.attempt,
            "id": str(attempt.attempt),
            "user-accumulators": user_accumulators([self._backend.measures.metrics_of(attempt.attempt)]),
        }
