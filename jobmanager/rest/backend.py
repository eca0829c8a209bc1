"""The part of the JobManager that REST handlers use: views, metrics, and requests that change something."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.aio.driver import wall_clock_ms
from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import ClientRequest, RescaleRequested, SnapshotRequested
from tidegate.jobmanager.machines.views import (
    AttemptView,
    ClusterView,
    JobView,
    SubtaskView,
    TaskManagerView,
    VertexView,
)
from tidegate.jobmanager.rest.fault_service import FaultService
from tidegate.jobmanager.rest.history import History
from tidegate.jobmanager.rest.http.errors import bad_request, not_found, server_side
from tidegate.jobmanager.rest.http.request import RestRequest
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.values import JsonObject
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.store.client_places import ClientPlace
from tidegate.wire.task_metrics import ReadingSpan


class Views(Protocol):
    """The views of the JobManager's machine."""

    def job(self, job_id: JobId) -> JobView | None: ...
    def jobs(self) -> list[JobView]: ...
    def cluster(self) -> ClusterView: ...
    def refusal_of(self, event: RescaleRequested) -> str: ...


class Snapshots(Protocol):
    """The snapshots that users requested."""

    def begin(
        self,
        job_id: JobId,
        snapshot_type: SnapshotType,
        target_directory: ClientPlace | None = None,
        *,
        is_full: bool = False,
        request_id: str = "",
    ) -> SnapshotRequested: ...
    def is_known(self, job_id: JobId, request_id: str) -> bool: ...
    async def end_of(self, job_id: JobId, request_id: str, wait_ms: int) -> ReportSnapshot | None: ...


class Changes(Protocol):
    """Notifies watchers of changes."""

    def watch(self, job_id: JobId | None) -> AbstractContextManager[asyncio.Event]: ...


class Core(Protocol):
    """The core of the JobManager, as far as this package needs it."""

    @property
    def is_deposed(self) -> bool: ...
    @property
    def machine(self) -> Views: ...
    @property
    def attempts(self) -> MetricStore: ...
    @property
    def process(self) -> Process: ...
    @property
    def configuration(self) -> Configuration: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def watchers(self) -> Changes: ...
    async def ask(self, request: ClientRequest) -> None: ...
    async def place_of_client(self, location: str) -> ClientPlace: ...
    def has_savepoint_directory(self, job_id: JobId) -> bool: ...


class Process(Protocol):
    """The metrics of the JobManager's own process."""

    def look(self) -> Mapping[str, float]: ...


class MetricStore(Protocol):
    """Metrics of attempts as their TaskManagers last reported them; ``None`` before the first report."""

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None: ...
    def span_of(self, attempt: AttemptId) -> ReadingSpan | None: ...
    def process_metrics_of(self, task_manager_id: TaskManagerId) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class Backend:
    """What the REST handlers need from the JobManager.

    ``watch``: yields an event that is set at every change of a job (``None``: of any job) while the block runs. ``dispose``: deletes a
    savepoint; ``shutdown``: ends the process for a reason.
    """

    views: Views
    measures: MetricStore
    process: Process
    configuration: Configuration
    snapshots: Snapshots
    ask: Callable[[ClientRequest], Awaitable[None]]
    place_of_client: Callable[[str], Awaitable[ClientPlace]]
    has_savepoint_directory: Callable[[JobId], bool]
    watch: Callable[[JobId | None], AbstractContextManager[asyncio.Event]]
    dispose: Callable[[str], Awaitable[None]]
    shutdown: Callable[[str], None]
    now_ms: Callable[[], int] = field(default=wall_clock_ms)
    history: History | None = None
    faults: FaultService | None = None
    """Injects faults; ``None`` when the configuration does not allow them."""

    def archived(self, path: str) -> list[JsonObject]:
        """Returns the items of a list of jobs that are only in the archive."""
        if self.history is None:
            return []
        return self.history.items(path, [job.job_id for job in self.views.jobs()])

    def job(self, request: RestRequest) -> JobView:
        """Returns the job of the path. Raises ``RestError`` 400 or 404."""
        job_id = request.job_id()
        job = self.views.job(job_id)
        if job is None:
            raise not_found(f"Job {job_id} not found")
        return job

    def vertex(self, request: RestRequest) -> tuple[JobView, VertexView]:
        vertex_id = request.vertex_id()
        job = self.job(request)
        for vertex in job.vertices:
            if vertex.vertex_id == vertex_id:
                return job, vertex
        raise not_found(f"JobVertex {vertex_id} not found")

    def subtask(self, request: RestRequest) -> tuple[JobView, VertexView, SubtaskView]:
        index = request.number("subtaskindex")
        if index < 0:
            raise bad_request(f"Cannot resolve path parameter (subtaskindex) from value {index}: it must be positive.")
        job, vertex = self.vertex(request)
        if index >= len(vertex.subtasks):
            raise not_found(f"Invalid subtask index for vertex {vertex.vertex_id}")
        return job, vertex, vertex.subtasks[index]

    def attempt(self, request: RestRequest) -> tuple[SubtaskView, AttemptView]:
        number = request.number("attempt")
        _, _, subtask = self.subtask(request)
        for attempt in (subtask.current, *subtask.earlier):
            if attempt.attempt.attempt == number:
                return subtask, attempt
        raise not_found(f"Attempt {number} not found in subtask {subtask.index}")

    def task_manager(self, request: RestRequest) -> TaskManagerView:
        """Returns the TaskManager of the path. Raises ``RestError`` 500 when it is unknown, as Flink does."""
        wanted = request.parameters["taskmanagerid"]
        for task_manager in self.views.cluster().task_managers:
            if task_manager.task_manager_id == wanted:
                return task_manager
        raise server_side(f"No TaskExecutor registered under {wanted}.")

    def endpoints(self) -> dict[TaskManagerId, str]:
        """Returns the addresses of the registered TaskManagers."""
        return {tm.task_manager_id: tm.address for tm in self.views.cluster().task_managers}
