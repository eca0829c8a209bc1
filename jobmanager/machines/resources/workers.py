"""Workers: the TaskManagers that this JobManager starts and stops, as many as the missing slots of jobs require.

           StartWorker            it registers             StopWorker          WorkerEnded
    (need) ───────────▶ STARTING ─────────────▶ REGISTERED ──────────▶ STOPPING ──────────▶ (gone)
                           │  no registration in time          ▲ idle for resourcemanager.taskmanager-timeout
                           │  ──────────────▶ STOPPING         │
                           └─ WorkerEnded: a start that failed │
    WorkersFound ──▶ RECOVERED ─────────────▶ REGISTERED ──────┘

Laws:

1. The need is compared with the workers that run and those that are starting, so one need starts one worker.
2. A worker with a slot in use is never stopped, and its slots are drained before the order.
3. Failed starts are counted; above ``resourcemanager.start-worker.max-failure-rate`` none is made for
   ``resourcemanager.start-worker.retry-interval``, and if none succeeds, waiting jobs fail.

Follows Flink's ``ActiveResourceManager.java`` and ``DeclarativeSlotManager.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import StartWorker, StopWorker
from tidegate.jobmanager.machines.resources.slots import SlotState
from tidegate.jobmanager.machines.resources.task_managers import ResourceManager
from tidegate.jobmanager.machines.resources.threshold_meter import RATE_WINDOW_MS, ThresholdMeter
from tidegate.jobmanager.machines.settings import SupplySettings
from tidegate.model.ids import TaskManagerId

WORKERS_TIMER = "workers"
REGISTRATION, IDLE, RETRY, EXPECTED = "registration", "idle", "retry", "expected"


class WorkerState(Enum):
    """The lifecycle of a worker."""

    STARTING = "STARTING"
    RECOVERED = "RECOVERED"
    """It was running when this JobManager started, and has not registered yet."""
    REGISTERED = "REGISTERED"
    STOPPING = "STOPPING"


@dataclass(slots=True)
class Worker:
    """One TaskManager that the JobManager started. ``reason``: why, for humans."""

    worker_id: TaskManagerId
    state: WorkerState
    since_ms: int
    reason: str
    is_idle: bool = False

    @property
    def is_coming(self) -> bool:
        return self.state in (WorkerState.STARTING, WorkerState.RECOVERED)

    def move(self, state: WorkerState, now_ms: int) -> None:
        self.state, self.since_ms, self.is_idle = state, now_ms, False

    def rest(self, *, is_idle: bool) -> None:
        """Notes whether its slots are all free, so that its idle timer runs."""
        self.is_idle = is_idle


@dataclass(frozen=True, slots=True)
class Need:
    """The slots that jobs miss and use. ``reason``: which jobs need them, for humans."""

    missing: int = 0
    in_use: int = 0
    reason: str = ""


class Workers:
    """The TaskManagers that this JobManager starts and stops, by their ids."""

    def __init__(self, settings: SupplySettings, resources: ResourceManager, buffer: CommandBuffer) -> None:
        self._settings = settings
        self._resources = resources
        self._buffer = buffer
        self._workers: dict[TaskManagerId, Worker] = {}
        self._last = 0
        self._failures = ThresholdMeter(settings.max_failures_per_minute)
        self._resumes_ms = 0
        self._last_success_ms = -RATE_WINDOW_MS
        self._need = Need()
        self._is_open = False
        self._expected_until_ms = 0

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    # ---- what happens ------------------------------------------------------------------------------------------------

    def on_found(self, worker_ids: Iterable[TaskManagerId]) -> None:
        """Takes over running workers of an earlier JobManager (perhaps none); from now on others may be started.

        Those found have some time to register before others are started in their place.
        """
        self._is_open = True
        if self._settings.expected_slots:
            self._expected_until_ms = self._buffer.now_ms + self._settings.recovery_timeout_ms
            self._buffer.start_timer(f"{WORKERS_TIMER}/{EXPECTED}/", self._settings.recovery_timeout_ms)
        for worker_id in worker_ids:
            if worker_id not in self._workers:
                self._add(worker_id, WorkerState.RECOVERED, "it ran when this JobManager started")
                self._arm(worker_id, REGISTRATION, self._settings.recovery_timeout_ms)

    def on_registered(self, task_manager_id: TaskManagerId) -> None:
        """Handles the registration of a worker; no-op for a TaskManager that was started by hand."""
        worker = self._workers.get(task_manager_id)
        if worker is None:
            if not task_manager_id.startswith(self._settings.family):
                return
            worker = self._add(task_manager_id, WorkerState.RECOVERED, "it came back to this JobManager")
        if worker.state is WorkerState.STOPPING:  # its registration and the order to stop crossed
            self._resources.drain(task_manager_id)
            self._buffer.emit(StopWorker(task_manager_id, "it was ordered to stop before it registered"))
            return
        if worker.is_coming:
            self._cancel(task_manager_id, REGISTRATION)
            worker.move(WorkerState.REGISTERED, self._buffer.now_ms)
            self._last_success_ms = self._buffer.now_ms
            self._buffer.log("INFO", f"worker {task_manager_id} is there")

    def on_lost(self, task_manager_id: TaskManagerId) -> None:
        """Stops what is left of a worker that was registered and is lost; no-op for one that was started by hand."""
        worker = self._workers.get(task_manager_id)
        if worker is not None and worker.state is WorkerState.REGISTERED:
            self._stop(worker, "it was lost")

    def on_ended(self, worker_id: TaskManagerId, detail: str) -> str | None:
        """Handles a worker whose process has ended or could not be started. Returns why waiting jobs cannot get slots, when too many starts
        have failed.
        """
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return None
        self._cancel(worker_id, REGISTRATION)
        self._cancel(worker_id, IDLE)
        if worker.state is not WorkerState.STARTING:
            level = "INFO" if worker.state is WorkerState.STOPPING else "WARN"
            self._buffer.log(level, f"worker {worker_id} has ended: {detail}")
            return None
        self._buffer.log("ERROR", f"worker {worker_id} did not start: {detail}")
        return self._note_failure(detail)

    def on_timer(self, kind: str, worker_id: TaskManagerId) -> str | None:
        """Handles a timer of a worker. Returns why waiting jobs cannot get slots, when too many starts have failed."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return None
        if kind == REGISTRATION and worker.is_coming:
            limit_ms = self._buffer.now_ms - worker.since_ms
            was = worker.state
            self._stop(worker, f"it has not registered for {limit_ms} ms")
            if was is WorkerState.STARTING:
                return self._note_failure(
                    f"{worker_id} had not registered after {limit_ms} ms (resourcemanager.taskmanager-registration.timeout)"
                )
        elif kind == IDLE and worker.is_idle:
            registered = self._resources.find(worker_id)
            if registered is None or not registered.is_empty or self.is_wanted(worker):
                worker.rest(is_idle=False)  # a slot was taken since the last look
            else:
                self._stop(worker, f"it was idle for {self._settings.idle_timeout_ms} ms")
        return None

    def reconcile(self, need: Need) -> None:
        """Starts the workers that are missing for ``need``, beyond those that run and are starting. Called between events."""
        self._need = need
        self._watch_idle()
        if not self._is_open or self._buffer.now_ms < self._resumes_ms:
            return
        for _ in range(self._lacking()):
            self._last += 1
            worker_id = TaskManagerId(f"{self._settings.family}{self._buffer.generation[-6:]}-{self._last}")
            worker = self._add(worker_id, WorkerState.STARTING, need.reason or "slotmanager.number-of-slots.min")
            self._arm(worker_id, REGISTRATION, self._settings.registration_timeout_ms)
            self._buffer.log("INFO", f"starting worker {worker_id}: {worker.reason}")
            self._buffer.emit(StartWorker(worker_id, self._settings.slots))

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def refusal(self, slots: int) -> str | None:
        """Returns why a job that needs so many slots can never get them; ``None`` when it can."""
        if any(worker.state is WorkerState.RECOVERED for worker in self) or self._expected():
            return None  # an earlier JobManager may have given them more slots, or those by hand have more
        there = sum(len(tm.slots) for tm in self._resources)
        if slots <= max(self._settings.max_slots, there):
            return None
        return f"the job needs {slots} slots, but {self._settings.max_slots_reason}"

    def explain(self) -> str:
        """Describes which TaskManagers are being started, such as ``2 TaskManagers starting``; empty when none are.

        Mentions why the last start failed, if none has succeeded since.
        """
        coming = sum(worker.is_coming for worker in self)
        if coming:
            starting = f"{coming} TaskManager{'s' * (coming > 1)} starting"
            has_failed = self._failures.last_ms > self._last_success_ms
            return f"the last start failed ({self._failures.last}); {starting}" if has_failed else starting
        if self._buffer.now_ms < self._resumes_ms:
            return f"TaskManagers do not start: {self._failures.last}" if self._failures.last else ""
        return ""

    @property
    def starting_since_ms(self) -> int | None:
        """Returns since when the oldest worker that has not registered yet is starting; ``None`` when there is none."""
        return min((worker.since_ms for worker in self if worker.is_coming), default=None)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a worker's state contradicts what is registered. Called between events."""
        self._failures.check_invariants()
        for worker_id, worker in self._workers.items():
            registered = self._resources.find(worker_id)
            is_draining = registered is not None and registered.is_draining
            assert not is_draining or worker.state is WorkerState.STOPPING, (
                f"{worker_id} drains and is {worker.state.value}"
            )
            if worker.state is WorkerState.STOPPING and registered is not None:
                assert is_draining, f"{worker_id} is being stopped, and its slots may still be taken"
            assert not worker.is_idle or worker.state is WorkerState.REGISTERED, (
                f"{worker_id} is {worker.state.value} and idle"
            )

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _lacking(self) -> int:
        """Returns how many workers are to be started now."""
        per_worker = self._settings.slots
        registered = sum(len(tm.slots) for tm in self._resources if not tm.is_draining)
        usable = sum(
            slot.state in (SlotState.FREE, SlotState.FREEING, SlotState.UNKNOWN)
            for tm in self._resources
            if not tm.is_draining
            for slot in tm.slots.values()
        )
        coming = sum(worker.is_coming for worker in self) * per_worker + self._expected()
        is_busy = self._need.missing > 0 or self._need.in_use > 0
        spare = self._settings.redundant * per_worker if is_busy else 0
        for_jobs = self._need.missing + spare - usable - coming
        for_minimum = self._settings.min_slots - registered - coming
        allowed = (self._settings.max_slots - registered - coming) // per_worker
        return max(0, min(-(-max(for_jobs, for_minimum) // per_worker), allowed))

    def _expected(self) -> int:
        """Returns how many slots TaskManagers that are being started by hand may still bring."""
        if self._buffer.now_ms >= self._expected_until_ms:
            return 0
        by_hand = sum(len(tm.slots) for tm in self._resources if tm.registration.task_manager_id not in self._workers)
        if by_hand >= self._settings.expected_slots:
            self._expected_until_ms = 0
            self._buffer.cancel_timer(f"{WORKERS_TIMER}/{EXPECTED}/")
        return max(0, self._settings.expected_slots - by_hand)

    def is_wanted(self, worker: Worker) -> bool:
        """Tells whether the slots of an idle worker are needed by jobs, the minimum or the redundancy."""
        others = [
            tm for tm in self._resources if not tm.is_draining and tm.registration.task_manager_id != worker.worker_id
        ]
        free = sum(len(tm.free_slots) for tm in others)
        is_busy = self._need.missing > 0 or self._need.in_use > 0
        spare = self._settings.redundant * self._settings.slots if is_busy else 0
        too_few = sum(len(tm.slots) for tm in others) < self._settings.min_slots
        return too_few or free < self._need.missing + spare

    def _watch_idle(self) -> None:
        for worker in self:
            registered = self._resources.find(worker.worker_id)
            if worker.state is not WorkerState.REGISTERED:
                continue
            if registered is None:  # lost: its end will be reported, or it comes back
                is_idle = False
            else:
                is_idle = registered.is_empty and not self.is_wanted(worker)
            if is_idle and not worker.is_idle:
                self._arm(worker.worker_id, IDLE, self._settings.idle_timeout_ms)
            elif worker.is_idle and not is_idle:
                self._cancel(worker.worker_id, IDLE)
            worker.rest(is_idle=is_idle)

    def _stop(self, worker: Worker, reason: str) -> None:
        self._cancel(worker.worker_id, IDLE)
        worker.move(WorkerState.STOPPING, self._buffer.now_ms)
        self._resources.drain(worker.worker_id)
        self._buffer.log("INFO", f"stopping worker {worker.worker_id}: {reason}")
        self._buffer.emit(StopWorker(worker.worker_id, reason))

    def _note_failure(self, detail: str) -> str | None:
        self._failures.mark(detail, self._buffer.now_ms)
        if not self._failures.is_exceeded:
            return None
        self._resumes_ms = self._buffer.now_ms + self._settings.retry_interval_ms
        self._buffer.start_timer(f"{WORKERS_TIMER}/{RETRY}/", self._settings.retry_interval_ms)
        if self._last_success_ms > self._buffer.now_ms - RATE_WINDOW_MS:
            return None  # some start: jobs wait for those
        return (
            f"TaskManagers do not start: {self._failures.count} starts have failed within a minute "
            f"(resourcemanager.start-worker.max-failure-rate); the last: {detail}"
        )

    def _add(self, worker_id: TaskManagerId, state: WorkerState, reason: str) -> Worker:
        worker = self._workers[worker_id] = Worker(worker_id, state, self._buffer.now_ms, reason)
        return worker

    def _arm(self, worker_id: TaskManagerId, kind: str, delay_ms: int) -> None:
        self._buffer.start_timer(f"{WORKERS_TIMER}/{kind}/{worker_id}", delay_ms)

    def _cancel(self, worker_id: TaskManagerId, kind: str) -> None:
        self._buffer.cancel_timer(f"{WORKERS_TIMER}/{kind}/{worker_id}")
