"""The core of the JobManager service: runs the machine on events, and carries out its commands.

servicers ─ post(event) ─▶ Driver ─▶ JobManagerMachine ─▶ commands ─┬▶ outbox of a TaskManager ─▶ CallAnswered
                                                                    ├▶ CheckpointFiles ─▶ LocationCreated, ...
                                                                    ├▶ timers ─▶ TimerFired
                                                                    └▶ watchers, log
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from tidegate.aio.driver import Driver
from tidegate.aio.logs import with_ids
from tidegate.aio.pool import Pool
from tidegate.aio.probing import until_refused
from tidegate.aio.process_metrics import OwnProcess
from tidegate.aio.transport import Transport
from tidegate.aio.transports import transport_of
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines import commands as cmd
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.events import (
    CallAnswered,
    ClientRequest,
    Event,
    GenerationStarted,
    JobCancelRequested,
    JobRecovered,
    JobSubmitted,
    RescaleRequested,
    ShapeWritten,
    SnapshotRequested,
    TaskManagerConnectionLost,
    TaskManagerRegistered,
    TaskManagerStoodStill,
    TimerFired,
)
from tidegate.jobmanager.machines.kv_state_locations import KvStateLocationRegistry
from tidegate.jobmanager.machines.views import JobHistory
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.clients.pending_requests import PendingRequests
from tidegate.jobmanager.service.clients.snapshot_requests import SnapshotRequests
from tidegate.jobmanager.service.clients.watchers import Watchers
from tidegate.jobmanager.service.high_availability.attempt_notes import AttemptNotes
from tidegate.jobmanager.service.high_availability.job_history_store import JobHistoryStore
from tidegate.jobmanager.service.high_availability.services import HighAvailability
from tidegate.jobmanager.service.job_endings import JobEndings
from tidegate.jobmanager.service.storage.checkpoint_files import CheckpointFiles, JobDirectories
from tidegate.jobmanager.service.storage.inline_state import InlineState, Reading
from tidegate.jobmanager.service.task_managers.attempts import CurrentAttempts
from tidegate.jobmanager.service.task_managers.calls import TaskManagerCall
from tidegate.jobmanager.service.task_managers.heartbeats import HeartbeatStreams
from tidegate.jobmanager.service.task_managers.outbox import Link, TaskManagerOutbox, dial
from tidegate.jobmanager.service.task_managers.watermark_reports import WatermarkReports
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo, StorageError, TidegateError, Unreachable
from tidegate.model.ids import JobId, TaskManagerId
from tidegate.model.options import RuntimeOptions
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.client_places import ClientPlace

_log = logging.getLogger("jobmanager")
_journal = logging.getLogger("jobmanager.journal")
CLEANING_LIMIT_S = 3  # chosen, not measured: a disk removes the checkpoints of a job in milliseconds
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "WARNING": logging.WARNING}


class JobManagerCore:
    """Runs the JobManager's machine for one term of leadership. Belongs to the loop's thread."""

    def __init__(
        self,
        configuration: Configuration,
        availability: HighAvailability,
        blobs: BlobStore,
        storage: CheckpointStorage,
        pool: Pool,
        on_fatal: Callable[[BaseException], None],
        connect: Callable[[str, Transport], Link] = dial,
    ) -> None:
        self.is_deposed = False
        """Whether another JobManager leads; nothing that this one knows is shown then."""
        self.generation = availability.generation
        self.configuration = configuration
        self.machine = Dispatcher(configuration.to_strings())
        self.watchers = Watchers()
        self.streams = HeartbeatStreams()
        self.attempts = CurrentAttempts()
        self.process, self.kv_states = OwnProcess(), KvStateLocationRegistry()
        self.snapshots, self.watermarks = SnapshotRequests(), WatermarkReports()
        self._endings = JobEndings(availability.jobs, blobs, self.watchers.changed)
        self._pending_requests = PendingRequests(
            availability.jobs, self.snapshots, self.machine.state_of, self._endings.is_ended
        )
        self._storage, self._pool = storage, pool
        self._jobs = availability.jobs
        self._may_commit = asyncio.Event()
        self._may_commit.set()
        self._attempt_notes = AttemptNotes(availability.jobs)
        self.loss_grace_ms = configuration.get(RuntimeOptions.LOSS_GRACE) if availability.store is not None else 0
        """How long subtasks go on without this JobManager after it is lost."""
        self.transport, self._connect = transport_of(configuration), connect
        self._confirm_retry_ms = configuration.get(RuntimeOptions.CONFIRM_RETRY_INTERVAL)
        self._driver: Driver[Event, cmd.Command] = Driver(self.machine, self._execute, on_fatal, journal=_journal)
        timeout_ms = configuration.get(RuntimeOptions.METADATA_TIMEOUT)
        self._inline_state = InlineState(storage, pool)
        self._files = CheckpointFiles(storage, pool, self.post, timeout_ms, self._jobs, self._inline_state.hold)
        self._job_histories = JobHistoryStore(availability.store, pool, self._history_of)
        self.on_worker: Callable[[cmd.StartWorker | cmd.StopWorker], None] = lambda _: None
        """Starts and stops TaskManagers. By default it does nothing: they are started by hand."""
        self.on_terminated: Callable[[JobId], None] = lambda _: None
        """Called for each job that has ended and whose checkpoints are settled."""
        self.on_deposed: Callable[[], None] = lambda: None
        """Called when another JobManager leads: open streams to clients end."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when a client changes something, by whichever protocol, and again when the change is done: cached responses
        are outdated then.
        """
        self._sessions: dict[TaskManagerId, str] = {}
        self._outboxes: dict[tuple[TaskManagerId, str], TaskManagerOutbox] = {}
        self._probes: dict[tuple[TaskManagerId, str], asyncio.Task[None]] = {}
        """For each session whose connection broke: the task that checks whether the TaskManager's port is still open."""
        self._closing: set[asyncio.Task[None]] = set()
        self.post(GenerationStarted(self.generation, secrets.randbits(63)))

    def post(self, event: Event) -> None:
        """Gives an event to the machine; its commands are carried out before this returns, unless it is handling another event."""
        self._driver.post(event)
        if _changes_a_job(event):
            self.on_changed()

    async def ask(self, request: ClientRequest) -> None:
        """Makes a client's request durable and passes it to the machine; the next JobManager carries it out if this one is lost.

        Raises ``Unreachable`` once another one leads.
        """
        await self._pending_requests.keep(request)
        self.post(request)

    async def place_of_client(self, location: str) -> ClientPlace:
        """Resolves a location that a client named. Raises ``Misuse`` when clients may not use it."""
        return await self._pool.submit(partial(self._storage.place_of_client, location))

    def submit(self, submitted: JobSubmitted, directories: JobDirectories) -> None:
        self._begin(submitted, submitted.graph.job_id, directories)

    def recover(self, recovered: JobRecovered, directories: JobDirectories) -> None:
        """Goes on with a job of an earlier JobManager."""
        self._pending_requests.went_on(recovered.requests)
        if recovered.history is not None:
            job_id = recovered.submitted.graph.job_id
            self.attempts.recall(job_id, recovered.history.figures, recovered.history.late_records)
        self._begin(recovered, recovered.submitted.graph.job_id, directories)

    def _begin(self, event: JobSubmitted | JobRecovered, job_id: JobId, directories: JobDirectories) -> None:
        self._endings.begin(job_id)
        self._files.add_job(job_id, directories)
        self.post(event)

    def _history_of(self, job_id: JobId) -> JobHistory | None:
        history = self.machine.history(job_id)
        if history is None:
            return None
        figures, late = self.attempts.metrics_of_ended(job_id), self.attempts.late_before(job_id)
        return replace(history, figures=figures, late_records=late)

    def has_savepoint_directory(self, job_id: JobId) -> bool:
        return self._files.has_savepoint_directory(job_id)

    def is_known(self, job_id: JobId) -> bool:
        return self._endings.is_known(job_id)

    def configuration_of(self, job_id: JobId) -> Mapping[str, str] | None:
        """Returns the configuration with which a job was submitted; ``None`` for an unknown job."""
        graph = self.machine.graph_of(job_id)
        return None if graph is None else graph.configuration

    def session_opened(self, task_manager_id: TaskManagerId, session: str, address: str) -> None:
        """Sends commands for this TaskManager to this session from now on. No-op for the same session."""
        self._sessions[task_manager_id] = session
        if (task_manager_id, session) not in self._outboxes:
            self._outboxes[task_manager_id, session] = TaskManagerOutbox(
                task_manager_id,
                self._connect(address, self.transport),
                self.generation,
                self._answered,
                address=address,
                confirm_retry_ms=self._confirm_retry_ms,
                may_commit=self._may_commit,
            )

    def session_alive(self, task_manager_id: TaskManagerId, session: str) -> None:
        """Sends the commands that waited for the TaskManager, because it accepts this JobManager now."""
        self._stop_probe(task_manager_id, session)
        outbox = self._outboxes.get((task_manager_id, session))
        if outbox is not None:
            outbox.open()

    def session_broken(self, task_manager_id: TaskManagerId, session: str, reason: str, *, is_over: bool) -> None:
        """Handles the end of a TaskManager's heartbeat stream.

        ``is_over``: its process ends as well. Otherwise its port is probed until it reconnects or the process is found to be gone.
        """
        self._stop_probe(task_manager_id, session)
        outbox = self._outboxes.get((task_manager_id, session))
        if outbox is not None:
            outbox.suspend()
        self.post(TaskManagerConnectionLost(task_manager_id, session, reason, is_over))
        if self._outboxes.get((task_manager_id, session)) is outbox and outbox is not None:
            probing = asyncio.create_task(self._probe(task_manager_id, session, outbox.address), name="probe")
            self._probes[task_manager_id, session] = probing

    async def _probe(self, task_manager_id: TaskManagerId, session: str, address: str) -> None:
        reason = await until_refused(
            address, lambda: self.post(TaskManagerStoodStill(task_manager_id, session)), self.transport.hello()
        )
        self.post(TaskManagerConnectionLost(task_manager_id, session, reason, is_gone=True))

    def _stop_probe(self, task_manager_id: TaskManagerId, session: str) -> None:
        probing = self._probes.pop((task_manager_id, session), None)
        if probing is not None:
            probing.cancel()

    def registered(self, event: TaskManagerRegistered, last_metrics: Sequence[TaskMetrics | None]) -> None:
        """Passes on the registration of a TaskManager, with the metrics of each attempt that runs or ended there."""
        for report, metrics in zip(event.attempts, last_metrics, strict=True):
            if self.machine.awaits_attempts(report.attempt.job_id):
                self.attempts.reported(report.attempt)
                if metrics is not None and report.state.is_terminal:
                    self.attempts.measured_last(report.attempt, metrics)
                elif metrics is not None:
                    self.attempts.measured(report.attempt, metrics)
        self.post(event)

    def is_current_session(self, task_manager_id: TaskManagerId, session: str) -> bool:
        return self._sessions.get(task_manager_id) == session

    def refusal(self) -> TidegateError | None:
        """Returns the error that answers every call once another JobManager leads; otherwise ``None``."""
        return Unreachable("this JobManager leads no more: another one does") if self.is_deposed else None

    async def suspend(self) -> None:
        """Stops the machine before the process ends, so that what follows does not count as failures of jobs.

        The next JobManager goes on with the jobs. Waits for the cleanup of jobs that have ended.
        """
        await self._endings.wait_clean(CLEANING_LIMIT_S)
        self._driver.stop()
        await self._job_histories.flush()

    def pause(self) -> None:
        """Holds back confirms until ``resume``, because the store of the election does not answer."""
        self._may_commit.clear()

    def resume(self) -> None:
        self._may_commit.set()

    def depose(self, reason: str) -> None:
        """Stops at once, because another JobManager leads: nothing is sent or shown after this."""
        del reason
        self.is_deposed = True
        self._driver.stop()
        self._job_histories.stop()
        self._may_commit.clear()
        for outbox in self._outboxes.values():
            outbox.stop()
        self.on_deposed()

    async def close(self) -> None:
        """Stops handling messages and closes all connections; TaskManagers then stop what they run."""
        self._driver.stop()
        self._job_histories.stop()
        self.streams.close_all("the JobManager is shutting down")
        self.process.close()
        for key in list(self._outboxes):
            self._close_outbox(*key)
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._endings.settled()
        await self._files.settled()

    def _answered(self, answer: CallAnswered) -> None:
        self.post(answer)

    def _execute(self, command: cmd.Command) -> None:
        match command:
            case cmd.SubmitTask():
                self._deploy(command)
            case (
                cmd.AllocateSlot()
                | cmd.FreeSlot()
                | cmd.ConnectTask()
                | cmd.CancelTask()
                | cmd.TriggerCheckpoint()
                | cmd.ConfirmCheckpoint()
                | cmd.AbortCheckpoint()
                | cmd.SendOperatorEvent()
            ):
                self._send(command)
            case cmd.DiscardCheckpoint() | cmd.DiscardSharedFiles():
                self._keep_result(
                    command.job_id
                )  # first: a JobManager that found neither would run the job from its start
                self._files.execute(command)
            case cmd.CreateLocation() | cmd.WriteManifest() | cmd.ReadBackManifest() | cmd.InspectCheckpoints():
                self._files.execute(command)
            case cmd.WriteShape():
                self._finishing(self._write_shape(command))
            case cmd.StartTimer():
                self._driver.start_timer(command.timer, command.delay_ms, TimerFired(command.timer))
            case cmd.CancelTimer():
                self._driver.cancel_timer(command.timer)
            case cmd.CloseTaskManager():
                self._close_session(command)
            case cmd.StartWorker() | cmd.StopWorker():
                self.on_worker(command)
            case cmd.JobChanged():
                self._keep_result(command.job_id)
                self._job_histories.changed(command.job_id)
                self.watchers.changed(command.job_id)
            case cmd.JobTerminated():
                self._on_job_terminated(command.job_id)
            case cmd.ReportSnapshot():
                _log.info("%s", with_ids("snapshot request is over", request=command.request_id, path=command.path))
                self._finishing(self._report(command))
            case cmd.AnnounceWatermark():
                self.watermarks.announced(command)
            case cmd.Log():
                _log.log(_LEVELS.get(command.level.upper(), logging.ERROR), with_ids(command.message, **command.fields))
            case _:
                assert_never(command)

    def _on_job_terminated(self, job_id: JobId) -> None:
        self._keep_result(job_id)
        self._log_late_records(job_id)
        self.attempts.forget(job_id)
        self.kv_states.forget(job_id)
        self._inline_state.forget(job_id)
        self._finishing(self._endings.forget(job_id))
        self._files.job_terminated(job_id)
        self.watchers.changed(job_id)
        self.on_changed()
        self.on_terminated(job_id)
        self._endings.cleaned(job_id)

    def _deploy(self, command: cmd.SubmitTask) -> None:
        attempt = command.deployment.attempt
        self.attempts.submitted(attempt)
        permit = self._attempt_notes.permit_for(attempt.job_id, command.region, attempt.attempt)
        self._send(command, self._inline_state.reading_of(command), permit)

    def is_durable(self, job_id: JobId) -> bool:
        """Tells whether the job has ended and its result is durable, so that no JobManager runs it again."""
        return self._endings.is_durable(job_id)

    def _keep_result(self, job_id: JobId) -> None:
        """Starts to write the result of a terminal job; its end is reported once that is durable."""
        state = self.machine.state_of(job_id)
        if state is not None and state.is_terminal:
            self._endings.keep_result(job_id, state)

    async def _report(self, report: cmd.ReportSnapshot) -> None:
        await self._pending_requests.reported(report)
        self.on_changed()

    async def _write_shape(self, command: cmd.WriteShape) -> None:
        """Stores the parallelism of a job; the machine deploys nothing of it before it gets ``ShapeWritten``."""
        error: ErrorInfo | None = None
        try:
            await self._jobs.note_shape(command.job_id, command.shape)
        except Deposed:
            return
        except StorageError as failure:
            error = ErrorInfo.of(failure)
        self.post(ShapeWritten(command.job_id, error))
        self.on_changed()

    def _log_late_records(self, job_id: JobId) -> None:
        for late in self.attempts.late_records(job_id):
            _log.warning("%s", with_ids(str(late), job=job_id))

    def _send(
        self, call: TaskManagerCall, reading: Reading | None = None, permit: asyncio.Task[None] | None = None
    ) -> None:
        session = self._sessions.get(call.task_manager_id)
        outbox = self._outboxes.get((call.task_manager_id, session)) if session is not None else None
        if outbox is None:
            _log.debug("TaskManager %s is gone, so a %s for it is dropped", call.task_manager_id, type(call).__name__)
            return
        outbox.put(call, reading, permit)

    def _close_session(self, command: cmd.CloseTaskManager) -> None:
        if self._sessions.get(command.task_manager_id) == command.session:
            del self._sessions[command.task_manager_id]
            self.attempts.process_gone(command.task_manager_id)
        self.streams.close(command.task_manager_id, command.session, command.reason)
        self._close_outbox(command.task_manager_id, command.session)

    def _close_outbox(self, task_manager_id: TaskManagerId, session: str) -> None:
        self._stop_probe(task_manager_id, session)
        outbox = self._outboxes.pop((task_manager_id, session), None)
        if outbox is not None:
            self._finishing(outbox.close())

    def _finishing(self, work: Coroutine[None, None, None]) -> None:
        """Runs a coroutine that ``close`` waits for."""
        task = asyncio.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _changes_a_job(event: Event) -> bool:
    """Tells whether the event is a user's change of a job. A requested checkpoint changes nothing until it is complete."""
    match event:
        case SnapshotRequested():
            return event.snapshot_type is not SnapshotType.CHECKPOINT
        case _:
            return isinstance(event, JobSubmitted | JobCancelRequested | RescaleRequested)
