"""Paths about the cluster: overview, configuration, the JobManager's own process, TaskManagers."""

from __future__ import annotations

from tidegate.jobmanager.machines.views import TaskManagerView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.history import OVERVIEW
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.jobmanager.rest.responses import cluster as cluster_answers
from tidegate.jobmanager.rest.responses import metrics
from tidegate.jobmanager.rest.routes import Route, reads, writes
from tidegate.model.values import JsonObject


class ClusterHandlers:
    """Answers the paths about the cluster and the JobManager's process."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        return [
            reads("/config", self._config),
            reads("/overview", self._overview),
            writes("DELETE", "/cluster", self._shut_down, 200),
            reads("/datasets", lambda _: {"dataSets": []}),
            reads("/jobmanager/config", lambda _: cluster_answers.configuration_entries(self._backend.configuration)),
            reads("/jobmanager/environment", lambda _: cluster_answers.environment()),
            reads("/jobmanager/metrics", self._metrics),
            reads("/jobmanager/profiler", lambda _: {"profilingList": []}),
            reads("/taskmanagers", self._task_managers),
            reads("/workers", self._workers),
            reads("/taskmanagers/metrics", self._task_manager_aggregation),
            reads("/taskmanagers/:taskmanagerid", self._task_manager),
            reads("/taskmanagers/:taskmanagerid/metrics", metrics.of_what_is_known(self._task_manager_metrics)),
            reads("/taskmanagers/:taskmanagerid/profiler", self._task_manager_profiler),
        ]

    def _config(self, request: RestRequest) -> JsonObject:
        return cluster_answers.dashboard_config(self._backend.configuration, self._backend.now_ms())

    def _overview(self, request: RestRequest) -> JsonObject:
        return cluster_answers.overview(
            self._backend.views.cluster(), self._backend.views.jobs(), self._backend.archived(OVERVIEW)
        )

    def _metrics(self, request: RestRequest) -> list[JsonObject]:
        views = self._backend.views
        found = {**self._backend.process.look(), **metrics.cluster_metrics(views.cluster(), views.jobs())}
        return metrics.collection(found, request)

    def _task_managers(self, request: RestRequest) -> JsonObject:
        tasks = cluster_answers.assigned_tasks(self._backend.views.jobs())
        views = self._backend.views.cluster().task_managers
        return {
            "taskmanagers": [
                cluster_answers.task_manager_item(view, tasks, self._process_metrics(view)) for view in views
            ]
        }

    def _workers(self, request: RestRequest) -> JsonObject:
        return cluster_answers.workers(self._backend.views.cluster(), self._backend.views.jobs())

    def _task_manager(self, request: RestRequest) -> JsonObject:
        view = self._backend.task_manager(request)
        return cluster_answers.task_manager_details(
            view, cluster_answers.assigned_tasks(self._backend.views.jobs()), self._process_metrics(view)
        )

    def _process_metrics(self, view: TaskManagerView) -> cluster_answers.ProcessMetrics:
        return self._backend.measures.process_metrics_of(view.task_manager_id)

    def _task_manager_metrics(self, request: RestRequest) -> list[JsonObject]:
        view = self._backend.task_manager(request)
        return metrics.collection(self._backend.measures.process_metrics_of(view.task_manager_id), request)

    def _task_manager_aggregation(self, request: RestRequest) -> list[JsonObject]:
        """Aggregates metrics of all TaskManagers, or of those that ``taskmanagers`` names."""
        wanted = request.listed("taskmanagers")
        ids = [view.task_manager_id for view in self._backend.views.cluster().task_managers]
        chosen = [found for found in ids if wanted is None or found in wanted]
        return metrics.aggregation([self._backend.measures.process_metrics_of(found) for found in chosen], request)

    def _task_manager_profiler(self, request: RestRequest) -> JsonObject:
        self._backend.task_manager(request)
        return {"profilingList": []}

    def _shut_down(self, request: RestRequest) -> JsonObject:
        self._backend.shutdown("a client asked for it (DELETE /cluster)")
        return {}
