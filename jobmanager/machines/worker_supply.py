"""Matches the slots that jobs need with the TaskManagers that ``Workers`` starts, and fails waiting jobs when none can be started.

An event that may change the need arms one timer; when it fires, the missing slots of all jobs are added up and ``Workers`` starts
TaskManagers for them. A burst of events thus leads to one decision (Flink: ``slotmanager.requirement-check.delay``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.events import (
    EndOfDataReached,
    Event,
    LocationCreated,
    ManifestWritten,
    SubtaskAcknowledged,
    SubtaskDeclined,
    TaskStateChanged,
    TimerFired,
    WatermarkReported,
    WorkerEnded,
    WorkersFound,
)
from tidegate.jobmanager.machines.job.job_master import JobMaster
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.resources.workers import RETRY, WORKERS_TIMER, Need, Worker, Workers
from tidegate.jobmanager.machines.settings import SupplySettings
from tidegate.model.ids import JobId, TaskManagerId
from tidegate.model.states import JobState

CHECK = "check"
_NEEDING = (JobState.RUNNING, JobState.RESTARTING)
_CHANGES_NO_NEED = (
    SubtaskAcknowledged,
    SubtaskDeclined,
    LocationCreated,
    ManifestWritten,
    EndOfDataReached,
    WatermarkReported,
)
"""Frequent events of a running job that do not change how many slots are needed, so that the need is not computed again."""


class WorkerSupply:
    """Computes how many slots jobs need. Without ``settings`` it starts nothing: TaskManagers are started by hand."""

    def __init__(
        self,
        settings: SupplySettings | None,
        jobs: Mapping[JobId, JobMaster],
        resources: ResourceManager,
        buffer: CommandBuffer,
    ) -> None:
        self._delay_ms = settings.check_delay_ms if settings else 0
        self._jobs = jobs
        self._resources = resources
        self._buffer = buffer
        self._workers = Workers(settings, resources, buffer) if settings else None

    @property
    def workers(self) -> Iterable[Worker]:
        """Returns the TaskManagers that were started or are about to be."""
        return self._workers or ()

    def explain(self) -> str:
        """Describes which TaskManagers are being started for waiting jobs; empty when that is unknown."""
        return self._workers.explain() if self._workers else ""

    @property
    def starting_since_ms(self) -> int | None:
        """Returns since when a TaskManager is starting; ``None`` when none is."""
        return self._workers.starting_since_ms if self._workers else None

    def has_slots_for(self, wanted: int) -> bool:
        """Tells whether the cluster could have ``wanted`` slots, including TaskManagers that would be started."""
        return self._workers is not None and self._workers.refusal(wanted) is None

    def on_worker(self, event: WorkersFound | WorkerEnded) -> None:
        if self._workers is None:
            self._buffer.log("WARN", f"ignored {type(event).__name__}: no tidegate.resourcemanager.driver is set")
            return
        match event:
            case WorkersFound():
                self._workers.on_found(event.worker_ids)
            case WorkerEnded():
                self._tell(self._workers.on_ended(event.worker_id, event.detail))

    def on_registered(self, task_manager_id: TaskManagerId) -> None:
        """Handles the registration of a TaskManager, before any slot of it is allocated."""
        if self._workers is not None:
            self._workers.on_registered(task_manager_id)

    def on_lost(self, task_manager_id: TaskManagerId) -> None:
        """Handles the loss of a registered TaskManager."""
        if self._workers is not None:
            self._workers.on_lost(task_manager_id)

    def on_timer(self, kind: str, worker_id: TaskManagerId) -> None:
        if self._workers is None:
            return
        if kind == CHECK:
            self._refuse_what_never_fits(self._workers)
            self._workers.reconcile(self._need())
        elif kind != RETRY:
            self._tell(self._workers.on_timer(kind, worker_id))

    def after(self, event: Event) -> None:
        """Arms the check timer if the handled event may have changed how many slots are needed."""
        if self._workers is None or isinstance(event, _CHANGES_NO_NEED):
            return
        if isinstance(event, TaskStateChanged) and not event.state.is_terminal:
            return
        timer = f"{WORKERS_TIMER}/{CHECK}/"
        is_own = isinstance(event, TimerFired) and event.timer == timer
        if not is_own and not self._buffer.is_armed(timer):
            self._buffer.start_timer(timer, self._delay_ms)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the machine contradicts itself. Called between events."""
        if self._workers is not None:
            self._workers.check_invariants()

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _needing(self) -> Iterable[JobMaster]:
        return (job for job in self._jobs.values() if job.lifecycle.state in _NEEDING)

    def _need(self) -> Need:
        missing = {job: job.missing_slots for job in self._needing()}
        lacking = [f"{job.executions.graph.name} lacks {count}" for job, count in missing.items() if count]
        wanted = sum(job.wanted_slots for job in missing)
        total = sum(missing.values())
        return Need(total, wanted - total, "slots: " + ", ".join(lacking) if lacking else "")

    def _refuse_what_never_fits(self, workers: Workers) -> None:
        for job in list(self._needing()):
            for batch in job.scheduler.waiting_batches:
                refusal = workers.refusal(job.scheduler.wanted_slots)
                if refusal is not None:
                    job.on_no_slots(batch, refusal)

    def _tell(self, failure: str | None) -> None:
        """Fails all waiting slot requests with ``failure``, because too many starts of TaskManagers have failed; ``None``: does nothing."""
        if failure is None:
            return
        for job in list(self._needing()):
            for batch in job.scheduler.waiting_batches:
                job.on_no_slots(batch, failure)
