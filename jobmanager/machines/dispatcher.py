"""The entry point of the JobManager's machines: every event enters here, one at a time, and is turned into commands.

    machine = Dispatcher(cluster_configuration)
    commands = machine.on(event, now_ms)  # raises for programming errors alone

It routes events of TaskManagers and slots to the ResourceManager, those of a job to its JobMaster, answers of calls by the open
call, and timers by their name. Deterministic: ids come from (generation, counters), random numbers from the seed of ``GenerationStarted``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from tidegate.jobmanager.machines import view_builder as show
from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import AnnounceWatermark, CancelTask, CloseTaskManager, Command
from tidegate.jobmanager.machines.events import (
    CallAnswered,
    CheckpointDiscarded,
    CheckpointsInspected,
    EndOfDataReached,
    Event,
    GenerationStarted,
    JobCancelRequested,
    JobRecovered,
    JobSubmitted,
    LocationCreated,
    ManifestWriteFailed,
    ManifestWritten,
    OperatorEventReceived,
    RescaleRequested,
    ShapeWritten,
    SharedFilesDiscarded,
    SlotFreed,
    SnapshotRequested,
    SubtaskAcknowledged,
    SubtaskDeclined,
    TaskManagerConnectionLost,
    TaskManagerHeartbeat,
    TaskManagerRegistered,
    TaskManagerStoodStill,
    TaskStateChanged,
    TimerFired,
    WatermarkReported,
    WorkerEnded,
    WorkersFound,
)
from tidegate.jobmanager.machines.job.job_master import JobMaster
from tidegate.jobmanager.machines.job.rescale_refusal import refusal_of
from tidegate.jobmanager.machines.job.watermark_groups import WatermarkGroups
from tidegate.jobmanager.machines.resources.slots import AllocationGone
from tidegate.jobmanager.machines.resources.task_managers import HEARTBEAT_TIMER, ResourceManager
from tidegate.jobmanager.machines.resources.workers import WORKERS_TIMER
from tidegate.jobmanager.machines.settings import cluster_settings, job_settings
from tidegate.jobmanager.machines.views import CheckpointsView, ClusterView, JobHistory, JobSummary, JobView
from tidegate.jobmanager.machines.worker_supply import WorkerSupply
from tidegate.model.graph import JobGraph
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.states import JobState

_AttemptEvent = TaskStateChanged | EndOfDataReached | SubtaskAcknowledged | SubtaskDeclined | OperatorEventReceived
_JobEvent = (
    _AttemptEvent
    | JobCancelRequested
    | RescaleRequested
    | SnapshotRequested
    | LocationCreated
    | ManifestWritten
    | ManifestWriteFailed
    | CheckpointDiscarded
    | SharedFilesDiscarded
    | CheckpointsInspected
    | ShapeWritten
)


class Dispatcher:
    """The JobManager as one state machine: takes an event, returns commands."""

    def __init__(self, configuration: Mapping[str, str] | None = None) -> None:
        """Creates a dispatcher without jobs. ``configuration``: of the cluster. Raises ``ConfigurationError``."""
        self._buffer = CommandBuffer()
        settings = cluster_settings(configuration or {})
        self._resources = ResourceManager(settings, self._buffer)
        self._jobs: dict[JobId, JobMaster] = {}
        self._supply = WorkerSupply(settings.workers, self._jobs, self._resources, self._buffer)
        self._watermarks = WatermarkGroups()
        self._start_ms = 0

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def job(self, job_id: JobId) -> JobView | None:
        job = self._jobs.get(job_id)
        return show.job_view(job, self._resources, self._supply) if job else None

    def jobs(self) -> list[JobView]:
        """Returns the views of all jobs in the order of their submission, terminal ones included."""
        return [show.job_view(job, self._resources, self._supply) for job in self._jobs.values()]

    def state_of(self, job_id: JobId) -> JobState | None:
        job = self._jobs.get(job_id)
        return job.lifecycle.state if job else None

    def graph_of(self, job_id: JobId) -> JobGraph | None:
        """Returns the job graph with the current parallelism; ``None`` for an unknown job."""
        job = self._jobs.get(job_id)
        return job.executions.graph if job else None

    def awaits_attempts(self, job_id: JobId) -> bool:
        """Tells whether the job was recovered from an earlier JobManager and still waits for reports of its running subtasks."""
        return job_id in self._jobs and self._jobs[job_id].awaits_attempts

    def summaries(self) -> list[JobSummary]:
        """Returns a summary of each job, without single subtasks: much cheaper than ``jobs`` for large jobs."""
        return [show.job_summary(job, self._supply) for job in self._jobs.values()]

    def cluster(self) -> ClusterView:
        return show.cluster_view(self._resources, self._supply, self._buffer.generation, self._start_ms)

    def checkpoints(self, job_id: JobId) -> CheckpointsView | None:
        job = self._jobs.get(job_id)
        return show.checkpoints_view(job) if job else None

    def history(self, job_id: JobId) -> JobHistory | None:
        """Returns the history of a job to store for the next JobManager; ``None`` when the job is terminal or unknown."""
        job = self._jobs.get(job_id)
        return show.job_history(job) if job and not job.lifecycle.state.is_terminal else None

    def refusal_of(self, event: RescaleRequested) -> str:
        """Returns why a job cannot be rescaled as requested; empty when it can. The job must be known."""
        return refusal_of(self._jobs[event.job_id], event, self._supply.has_slots_for)

    def uses_shared_file(self, path: str) -> bool:
        """Tells whether a job that is not terminal may restore this shared file or refer to it in a later checkpoint."""
        return any(
            path in job.coordinator.shared_files for job in self._jobs.values() if not job.lifecycle.state.is_terminal
        )

    # ---- what happens ------------------------------------------------------------------------------------------------

    def on(self, event: Event, now_ms: int) -> Sequence[Command]:
        """Handles one event and returns commands in the order in which they are to be carried out. ``now_ms`` never decreases."""
        self._buffer.begin(now_ms)
        self._handle(event)
        self._serve_waiting_jobs()
        self._supply.after(event)
        return self._buffer.take()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when this machine or one below contradicts itself or another. Called between events."""
        self._buffer.check_invariants()
        self._resources.check_invariants()
        self._watermarks.check_invariants()
        self._supply.check_invariants()
        for job in self._jobs.values():
            job.check_invariants()

    def _handle(self, event: Event) -> None:
        match event:
            case GenerationStarted():
                self._buffer.begin_generation(event.generation, event.seed)
                self._start_ms = self._buffer.now_ms
            case JobSubmitted() | JobRecovered():
                self._on_submitted(event)
            case (
                TaskManagerRegistered()
                | TaskManagerHeartbeat()
                | TaskManagerConnectionLost()
                | TaskManagerStoodStill()
                | SlotFreed()
            ):
                self._on_task_manager(event)
            case WorkersFound() | WorkerEnded():
                self._supply.on_worker(event)
                self._on_ended(event)
            case CallAnswered():
                self._on_answered(event)
            case WatermarkReported():
                lowest_ms = self._watermarks.on(event, self._buffer.now_ms)
                self._buffer.emit(AnnounceWatermark(event.report_id, lowest_ms))
            case TimerFired():
                self._on_timer(event.timer)
            case _:
                self._on_job_event(event)

    def _on_submitted(self, event: JobSubmitted | JobRecovered) -> None:
        submitted = event.submitted if isinstance(event, JobRecovered) else event
        job_id = submitted.graph.job_id
        if job_id in self._jobs:
            self._buffer.log("ERROR", "a job with this id exists already", job=job_id)
            return
        job = JobMaster(event, job_settings(submitted.configuration), self._resources, self._buffer)
        self._jobs[job_id] = job
        if isinstance(event, JobRecovered) and event.history is not None:
            completed = {found.checkpoint_id for found in event.checkpoints if found.manifest is not None}
            job.lifecycle.recall(event.history)
            job.coordinator.stats.recall(event.history.checkpoints, completed, self._buffer.now_ms)
        job.start()

    def _on_job_event(self, event: _JobEvent) -> None:
        job = self._jobs.get(_job_of(event))
        if job is None:
            self._buffer.log("WARN", f"{type(event).__name__} for an unknown job", event=event)
            return
        if job.awaits_attempts and isinstance(event, _AttemptEvent):
            job.on_awaited(event)
            return
        match event:
            case JobCancelRequested():
                job.cancel()
            case RescaleRequested():
                job.on_rescale(event)
            case ShapeWritten():
                job.on_shape_written(event)
            case CheckpointsInspected():
                job.on_checkpoints_inspected(event)
            case TaskStateChanged():
                job.on_task_state(event)
            case EndOfDataReached():
                job.on_end_of_data(event)
            case OperatorEventReceived():
                job.operators.on_event(event)
            case (
                SnapshotRequested()
                | SubtaskAcknowledged()
                | SubtaskDeclined()
                | LocationCreated()
                | ManifestWritten()
                | ManifestWriteFailed()
                | CheckpointDiscarded()
                | SharedFilesDiscarded()
            ):
                job.on_checkpoint_event(event)
            case _:
                assert_never(event)

    # ---- TaskManagers ------------------------------------------------------------------------------------------------

    def _on_task_manager(
        self,
        event: TaskManagerRegistered
        | TaskManagerHeartbeat
        | TaskManagerConnectionLost
        | TaskManagerStoodStill
        | SlotFreed,
    ) -> None:
        task_manager_id = event.task_manager_id
        match event:
            case TaskManagerRegistered():
                known = self._resources.find(task_manager_id)
                if known is not None and known.registration.session != event.session:
                    self._lose(task_manager_id, "another process has registered under its id")
                awaiting = [job_id for job_id, job in self._jobs.items() if job.awaits_attempts]
                gone = self._resources.register(event, awaiting)
                self._supply.on_registered(task_manager_id)
                self._on_gone(gone)
                for job_id in awaiting:
                    self._jobs[job_id].on_awaited(event)
            case TaskManagerHeartbeat():
                if self._resources.find(task_manager_id, event.session) is None:
                    self._buffer.emit(CloseTaskManager(task_manager_id, event.session, "it is not registered"))
                    return
                self._on_gone(self._resources.on_report(task_manager_id, event.slots))
                self._on_attempts(task_manager_id, event.attempts)
                self._on_leaving(event.leaving)
            case TaskManagerConnectionLost():
                if self._resources.find(task_manager_id, event.session) is None:
                    return
                if event.is_gone or not self._resources.suspend(task_manager_id, event.reason):
                    self._lose(task_manager_id, f"its connection broke ({event.reason})")
            case TaskManagerStoodStill():
                if self._resources.find(task_manager_id, event.session) is not None:
                    self._resources.wait_for_silent(task_manager_id)
            case SlotFreed():
                freed = self._resources.on_freed(task_manager_id, event.allocation_id)
                self._on_gone([freed] if freed else [])
            case _:
                assert_never(event)

    def _on_ended(self, event: WorkersFound | WorkerEnded) -> None:
        """Declares a TaskManager lost when its process has ended, whether or not its connection has broken yet."""
        registered = self._resources.find(event.worker_id) if isinstance(event, WorkerEnded) else None
        if isinstance(event, WorkerEnded) and registered is not None:
            broke = f"its connection broke ({registered.broken}), and " if registered.broken else ""
            self._lose(event.worker_id, f"{broke}its process has ended: {event.detail}")

    def _lose(self, task_manager_id: TaskManagerId, reason: str) -> None:
        self._resources.lose(task_manager_id, reason)
        for job in self._jobs.values():
            job.on_task_manager_lost(task_manager_id, f"TaskManager {task_manager_id} is lost: {reason}")
        self._supply.on_lost(task_manager_id)

    def _on_gone(self, gone: Iterable[AllocationGone]) -> None:
        for allocation in gone:
            job = self._jobs.get(allocation.job_id)
            if job is not None:
                job.on_allocation_lost(allocation.allocation_id, "its slot does not exist any longer")

    def _on_attempts(self, task_manager_id: TaskManagerId, attempts: Sequence[AttemptId]) -> None:
        reported: dict[JobId, set[AttemptId]] = {job_id: set() for job_id in self._jobs}
        for attempt in attempts:
            if attempt.job_id in reported:
                reported[attempt.job_id].add(attempt)
            elif not self._buffer.has_open_cancel(attempt):
                call = OpenCall(CallKind.CANCEL, task_manager_id, attempt=attempt)
                self._buffer.emit(CancelTask(self._buffer.open_call(call), task_manager_id, attempt))
        for job_id, of_job in reported.items():
            if not self._jobs[job_id].awaits_attempts:
                self._jobs[job_id].on_attempts_reported(task_manager_id, frozenset(of_job))

    def _on_leaving(self, attempts: Sequence[AttemptId]) -> None:
        of_jobs: dict[JobId, list[AttemptId]] = {}
        for attempt in attempts:
            of_jobs.setdefault(attempt.job_id, []).append(attempt)
        for job_id, leaving in of_jobs.items():
            if job_id in self._jobs and not self.awaits_attempts(job_id):
                self._jobs[job_id].on_attempts_leaving(leaving)

    def _on_answered(self, event: CallAnswered) -> None:
        call = self._buffer.close_call(event.call_id)
        if call is None:
            return
        job = self._jobs.get(call.job_id) if call.job_id else None
        if call.kind is CallKind.ALLOCATE and call.allocation_id is not None:
            self._resources.on_allocate_answered(call.allocation_id, success=event.error is None)
            if job is not None and event.error is None:
                job.on_allocated(call.allocation_id)
            elif job is not None:
                job.on_allocation_lost(call.allocation_id, "its TaskManager refused it")
            return
        if call.kind is CallKind.FREE and call.allocation_id is not None:
            self._resources.on_free_answered(call.allocation_id, call.task_manager_id)
            return
        error = event.error or next(iter(event.attempts.values()), None)
        if job is None or call.kind in (CallKind.CONFIRM, CallKind.ABORT):
            return
        if error is not None:
            job.on_call_failed(call, error)
        elif call.kind is CallKind.SUBMIT and call.attempt is not None:
            job.on_submitted(call.attempt)

    # ---- time --------------------------------------------------------------------------------------------------------

    def _on_timer(self, timer: str) -> None:
        if not self._buffer.timer_fired(timer):
            return
        owner, _, rest = timer.partition("/")
        if owner == HEARTBEAT_TIMER:
            if (reason := self._resources.on_timeout(TaskManagerId(rest))) is not None:
                self._lose(TaskManagerId(rest), reason)
            return
        if owner == WORKERS_TIMER:
            kind, _, worker_id = rest.partition("/")
            self._supply.on_timer(kind, TaskManagerId(worker_id))
            return
        job_id, kind, argument = [*rest.split("/"), ""][:3]
        self._jobs[JobId(job_id)].on_timer(kind, argument)

    def _serve_waiting_jobs(self) -> None:
        """Offers slots that became free to waiting jobs, in the order of their submission."""
        if not self._resources.take_news():
            return
        for job in self._jobs.values():
            job.on_slots_available()


def _job_of(event: _JobEvent) -> JobId:
    match event:
        case (
            TaskStateChanged()
            | EndOfDataReached()
            | SubtaskAcknowledged()
            | SubtaskDeclined()
            | OperatorEventReceived()
        ):
            return event.attempt.job_id
        case _:
            return event.job_id
