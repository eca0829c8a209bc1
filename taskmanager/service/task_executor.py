"""Carries out the commands of the TaskManager's state machine: Spark jobs, control streams, timers, and calls to the JobManager.

    gRPC (JobManager) ──request──▶ ┌─────────┐ ──commands──▶ SparkDeployer · control streams · JobManagerClient
    control streams ────event────▶ │ machine │
    Spark jobs, timers ─event────▶ └─────────┘

All of it runs in the thread of the asyncio loop; Spark's threads post their events to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from tidegate.aio.driver import Driver
from tidegate.aio.logs import with_ids
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, Generation, JobId
from tidegate.model.options import RuntimeOptions, SparkOptions, TaskManagerOptions, TaskOptions
from tidegate.pb import common_pb2, jobmanager_pb2, subtask_pb2
from tidegate.taskmanager.machines import slots
from tidegate.taskmanager.machines import task_events as tv
from tidegate.taskmanager.machines.task_events import TaskLimits
from tidegate.taskmanager.machines.task_manager import (
    StartLossTimer,
    StopLossTimer,
    TaskManagerCommand,
    TaskManagerEvent,
    TaskManagerMachine,
)
from tidegate.taskmanager.service.identity import Identity
from tidegate.taskmanager.service.inspection import StackSamples, ThreadDumps
from tidegate.taskmanager.service.jobmanager.ack_batcher import AckBatcher
from tidegate.taskmanager.service.jobmanager.outbox import ACKNOWLEDGE
from tidegate.taskmanager.service.subtasks.deployer import Deployer
from tidegate.taskmanager.service.subtasks.metric_store import PendingMetrics
from tidegate.taskmanager.service.subtasks.subtask_stream import SubtaskStream
from tidegate.taskmanager.spark.cluster.session_settings import is_embedded
from tidegate.wire.convert import attempt_report_to_pb, optional_error_to_pb
from tidegate.wire.task_metrics import Readings

_log = logging.getLogger(__name__)


STARTS_OF_EACH_PROCESSOR = 2
"""Subtasks that start at the same time for each processor: while one process is forked and connects, Spark prepares the next."""
STARTS_OF_EXECUTORS = 32
"""Subtasks that start at the same time in executors. Chosen, not measured: each runs on a core of its own, and Spark starts all of them from one thread."""

Tell = Callable[[str, Message], None]
"""Sends ``(method, request)`` to the JobManager, in order, when there is a session."""


def make_machine(configuration: Configuration) -> TaskManagerMachine:
    """Makes the state machine with the sizes and times of the configuration."""
    has_executors = not is_embedded(configuration.get(SparkOptions.MASTER))
    limits = TaskLimits(
        start_timeout_ms=configuration.get(RuntimeOptions.SUBTASK_START_TIMEOUT),
        spark_query_timeout_ms=configuration.get(RuntimeOptions.SPARK_QUERY_TIMEOUT),
        unresponsive_timeout_ms=configuration.get(RuntimeOptions.UNRESPONSIVE_TIMEOUT),
        cancellation_timeout_ms=configuration.get(TaskOptions.CANCELLATION_TIMEOUT),
        starts_at_once=STARTS_OF_EXECUTORS
        if has_executors
        else max(2, STARTS_OF_EACH_PROCESSOR * (os.cpu_count() or 1)),
        has_executors=has_executors,
    )
    slot_timeout_ms = configuration.get(TaskManagerOptions.SLOT_TIMEOUT)
    return TaskManagerMachine(configuration.get(TaskManagerOptions.NUM_SLOTS), slot_timeout_ms, limits)


class TaskExecutor:
    """Drives the state machine of the TaskManager. Implements ``tidegate.taskmanager.service.jobmanager.connection.Resident``. ``on_fatal``: ends
    the process.
    """

    def __init__(
        self,
        machine: TaskManagerMachine,
        deployer: Deployer,
        tell: Tell,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._machine = machine
        self._identity: Identity | None = None
        self._deployer = deployer
        self._tell = tell
        self._on_fatal = on_fatal
        self._driver: Driver[TaskManagerEvent, TaskManagerCommand] = Driver(
            machine, self._execute, on_fatal, journal=_log
        )
        self._spoken_to: Generation | None = None
        """The JobManager that was found last. Reports are for it, also while it is lost."""
        self._is_found = False
        self._streams: dict[AttemptId, SubtaskStream] = {}
        self._opening: SubtaskStream | None = None
        self._refusal: ErrorInfo | None = None
        self.measures = PendingMetrics()
        self.leaving: frozenset[AttemptId] = frozenset()
        """Attempts on executors that Spark is about to take away."""
        self.dumps, self.samples = ThreadDumps(), StackSamples()
        self._names: dict[AttemptId, str] = {}
        self._gathering = AckBatcher(self._send_acknowledgements, asyncio.get_running_loop().call_later)
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def introduce(self, identity: Identity) -> None:
        """Sets the identity of this TaskManager, before it registers."""
        self._identity = identity

    @property
    def identity(self) -> Identity:
        assert self._identity is not None
        return self._identity

    # ---- what comes in -----------------------------------------------------------------------------------------------

    def request(self, event: TaskManagerEvent) -> ErrorInfo | None:
        """Handles a request of the JobManager. Returns the error to answer with; ``None`` if it succeeded."""
        self._refusal = None
        self._driver.post(event)
        return self._refusal

    def open_stream(self, event: tv.StreamOpened, stream: SubtaskStream) -> ErrorInfo | None:
        """Handles the hello of a subtask. Returns why it is refused; ``None``: the stream is the subtask's now."""
        self._refusal, self._opening = None, stream
        self._driver.post(event)
        self._opening = None
        return self._refusal

    def post(self, event: TaskManagerEvent) -> None:
        self._driver.post(event)

    def measured(self) -> Iterator[tuple[tv.SubmittedTask, Readings]]:
        """Yields the tasks that have reported metrics, with these."""
        for attempt, readings in self.measures.tasks():
            task = self._machine.tasks.task(attempt)
            if task is not None:
                yield task.submitted, readings

    def streams(self) -> Mapping[AttemptId, SubtaskStream]:
        """Returns the open control streams."""
        return dict(self._streams)

    def task_name(self, attempt: AttemptId) -> str:
        """Returns the name of an attempt in logs; its id if it is not here."""
        return self._names.get(attempt, str(attempt))

    def local_pids(self) -> Mapping[AllocationId, Mapping[AttemptId, int]]:
        """Returns the pids of connected subtasks on this machine, by slot."""
        found: dict[AllocationId, dict[AttemptId, int]] = {}
        for attempt in self._streams:
            task = self._machine.tasks.task(attempt)
            if task is not None and task.phase is tv.TaskPhase.ATTACHED and task.host == self.identity.host:
                found.setdefault(task.submitted.allocation_id, {})[attempt] = task.pid
        return found

    # ---- Resident ----------------------------------------------------------------------------------------------------

    def registration(self) -> jobmanager_pb2.RegisterTaskManagerRequest:
        me = self.identity
        return jobmanager_pb2.RegisterTaskManagerRequest(
            task_manager_id=me.task_manager_id,
            address=me.address,
            version=me.version,
            python_version=me.python_version,
            slots=self._slot_report(),
            pid=me.pid,
            host=me.host,
            memory_bytes=me.memory_bytes,
            session=me.session,
            attempts=[
                attempt_report_to_pb(report, self.measures.last_of(report.attempt))
                for report in self._machine.reports()
            ],
        )

    def heartbeat(self, generation: Generation) -> jobmanager_pb2.TaskManagerHeartbeat:
        return jobmanager_pb2.TaskManagerHeartbeat(
            generation=generation,
            task_manager_id=self.identity.task_manager_id,
            session=self.identity.session,
            slots=self._slot_report(),
            attempts=[str(attempt) for attempt in self._machine.tasks.attempts()],
            metrics=self.measures.take_tasks(),
            process_metrics=self.measures.take_process(),
            leaving=[str(attempt) for attempt in self.leaving],
        )

    def on_found(self, generation: Generation, loss_grace_ms: int, reconnect_ms: int = 0) -> ErrorInfo | None:
        """Takes a JobManager that was found. Returns why it is not accepted, since a later one was found before; ``None`` if it is."""
        spoken_to, self._spoken_to = self._spoken_to, generation
        self._is_found = True
        refusal = self.request(slots.JobManagerFound(generation, loss_grace_ms, reconnect_ms))
        if refusal is not None:
            self._spoken_to, self._is_found = spoken_to, False
        return refusal

    def on_lost(self, reason: str, *, is_over: bool = False) -> None:
        self._gathering.release()
        self._is_found = False
        self._driver.post(slots.JobManagerLost(is_over))
        if self.holds_tasks:
            _log.info("%s; %d subtasks go on without it", reason, len(self._machine.tasks))

    def stop_tasks(self, reason: str) -> None:
        """Stops all tasks, without a grace."""
        self.on_lost(reason, is_over=True)
        self._driver.post(slots.LossGraceOver())

    @property
    def holds_tasks(self) -> bool:
        return not self._is_found and bool(self._machine.tasks) and not self._machine.has_given_up

    async def wait_ready(self) -> None:
        if self._machine.has_given_up:
            await self._is_empty.wait()

    async def wait_empty(self) -> None:
        """Waits until there are no tasks."""
        await self._is_empty.wait()

    def on_rejected(self, attempt: str) -> None:
        found = next((known for known in self._machine.tasks.attempts() if str(known) == attempt), None)
        if found is not None:
            self._driver.post(tv.AttemptRejected(found))

    def close(self) -> None:
        """Stops handling messages."""
        self._driver.stop()
        self._gathering.drop()
        for stream in self._streams.values():
            stream.close()

    # ---- commands ----------------------------------------------------------------------------------------------------

    def _execute(self, command: TaskManagerCommand) -> None:
        ACTIONS[type(command)](self, command)

    def _refuse(self, command: slots.Refuse | tv.RefuseStream) -> None:
        self._refusal = command.error

    def _start_slot_timer(self, command: slots.StartSlotTimer) -> None:
        allocation = command.allocation_id
        self._driver.start_timer(f"slot {allocation}", command.delay_ms, slots.SlotTimedOut(allocation))

    def _stop_slot_timer(self, command: slots.StopSlotTimer) -> None:
        self._driver.cancel_timer(f"slot {command.allocation_id}")

    def _report_slot_freed(self, command: slots.ReportSlotFreed) -> None:
        self._deployer.release(command.allocation_id)
        self._forget_metrics()
        freed = jobmanager_pb2.SlotFreedRequest(
            generation=self._spoken_to or "",
            task_manager_id=self.identity.task_manager_id,
            allocation_id=command.allocation_id,
        )
        self._tell_now("SlotFreed", freed)

    def _start_timer(self, command: tv.StartTimer) -> None:
        attempt, kind = command.attempt, command.kind
        self._driver.start_timer(f"{kind.name} {attempt}", command.delay_ms, tv.TimerFired(attempt, kind))

    def _stop_timers(self, command: tv.StopTimers) -> None:
        for kind in tv.TimerKind:
            self._driver.cancel_timer(f"{kind.name} {command.attempt}")

    def _start_loss_timer(self, command: StartLossTimer) -> None:
        self._driver.start_timer("loss of the JobManager", command.delay_ms, slots.LossGraceOver())

    def _stop_loss_timer(self, command: StopLossTimer) -> None:
        self._driver.cancel_timer("loss of the JobManager")

    def _escalate(self, command: tv.Escalate) -> None:
        self._on_fatal(command.error.to_exception())

    def _warn(self, command: tv.LogWarning) -> None:
        _log.warning("%s", command.text)

    def _start_subtask(self, command: tv.StartSubtask) -> None:
        self._is_empty.clear()
        self._names[command.task.attempt] = command.task.name
        self._deployer.start(command.task, command.token, self._on_spark_job_ended)

    def _accept_stream(self, command: tv.AcceptStream) -> None:
        assert self._opening is not None
        self._streams[command.attempt] = self._opening
        for mail in command.mails:
            self._opening.pass_on(mail)

    def _send_mail(self, command: tv.SendMail) -> None:
        self._streams[command.attempt].pass_on(command.mail)

    def _send_cancel(self, command: tv.SendCancel) -> None:
        self._streams[command.attempt].send(subtask_pb2.ToSubtask(cancel=subtask_pb2.ToSubtask.Cancel()))

    def _close_stream(self, command: tv.CloseStream) -> None:
        self._streams[command.attempt].close()

    def _kill_subtask(self, command: tv.KillSubtask) -> None:
        self._deployer.kill(command.attempt, command.pid, command.host)

    def _report_state(self, report: tv.ReportState) -> None:
        name = self.task_name(report.attempt)
        why = f": {report.error.message}" if report.error else ""
        attempt = report.attempt
        ids = {
            "job": attempt.job_id,
            "vertex": attempt.vertex_id,
            "subtask": attempt.subtask,
            "attempt": attempt.attempt,
        }
        _log.info("%s", with_ids(f"{name} is {report.state.value}{why}", **ids))
        self._tell_now(
            "UpdateTaskState",
            jobmanager_pb2.UpdateTaskStateRequest(
                generation=self._spoken_to or "",
                attempt=str(report.attempt),
                state=report.state.value,
                error=optional_error_to_pb(report.error),
                data_address=report.data_address,
                metrics=self.measures.last_of(attempt) if report.state.is_terminal else None,
            ),
        )

    def _forward(self, command: tv.Forward) -> None:
        attempt, message = command.attempt, command.message
        assert isinstance(message, subtask_pb2.FromSubtask), message
        generation, text = self._spoken_to or "", str(attempt)
        match message.WhichOneof("message"):
            case "acknowledge":
                one = message.acknowledge
                one.attempt = text  # by its stream: what a process says of itself proves nothing
                self.measures.acknowledged(attempt, one.metrics)
                self._gathering.keep(attempt, one, lambda: self._running_of(attempt.job_id))
                if not self._is_found:  # behind it comes what another JobManager may hear
                    self._gathering.release()
            case "decline":
                said = message.decline
                error = said.error if said.HasField("error") else None
                decline = jobmanager_pb2.DeclineCheckpointRequest(
                    generation=generation,
                    attempt=text,
                    checkpoint_id=said.checkpoint_id,
                    reason=said.reason,
                    error=error,
                )
                self._tell_now("DeclineCheckpoint", decline)
            case "operator_event":
                event_request = common_pb2.OperatorEventRequest(
                    generation=generation, attempt=text, event=message.operator_event
                )
                self._tell_now("SendOperatorEvent", event_request)
            case "end_of_data":
                self._tell_now("EndOfData", jobmanager_pb2.EndOfDataRequest(generation=generation, attempt=text))

    def _running_of(self, job_id: JobId) -> Iterator[AttemptId]:
        """Yields the attempts here that take part in the job's checkpoints."""
        for attempt in self._streams:
            if attempt.job_id == job_id:
                task = self._machine.tasks.task(attempt)
                if task is not None and task.phase is tv.TaskPhase.ATTACHED:
                    yield attempt

    def _send_acknowledgements(self, together: list[common_pb2.Acknowledgement]) -> None:
        """Sends acknowledgements one by one; the outbox combines them to messages."""
        for one in together:
            request = jobmanager_pb2.AcknowledgeCheckpointRequest(
                generation=self._spoken_to or "", acknowledgements=[one]
            )
            self._tell(ACKNOWLEDGE, request)

    def _tell_now(self, method: str, request: Message) -> None:
        """Sends a message after the kept acknowledgements, which it must not overtake."""
        self._gathering.release()
        self._tell(method, request)

    def _forget_metrics(self) -> None:
        """Forgets metrics except those of the attempts that are reported to the next JobManager."""
        self.measures.keep_only({report.attempt for report in self._machine.reports()})

    def _remove(self, command: tv.RemoveTask) -> None:
        attempt = command.attempt
        self._streams.pop(attempt, None)
        self._gathering.forget(attempt, is_last=all(other.job_id != attempt.job_id for other in self._streams))
        self._names.pop(attempt, None)
        self._forget_metrics()
        self._deployer.remove(attempt)
        if not self._machine.tasks.attempts():
            self._is_empty.set()

    def _on_spark_job_ended(self, attempt: AttemptId, error: ErrorInfo | None) -> None:
        task = self._machine.tasks.task(attempt)  # in a thread: its pid and host change no more
        is_here = task is not None and task.pid and task.host == self.identity.host
        status = (
            self._deployer.exit_status(task.pid, is_lost=error is not None) if task is not None and is_here else None
        )
        self._driver.post_from_thread(tv.SparkJobEnded(attempt, error, status))

    def _slot_report(self) -> list[jobmanager_pb2.SlotReport]:
        return [
            jobmanager_pb2.SlotReport(
                slot_index=slot.slot_index, allocation_id=slot.allocation_id or "", job_id=slot.job_id or ""
            )
            for slot in self._machine.slots.report()
        ]


ACTIONS: dict[type[TaskManagerCommand], Callable[[TaskExecutor, Any], None]] = {
    slots.Refuse: TaskExecutor._refuse,
    slots.StartSlotTimer: TaskExecutor._start_slot_timer,
    slots.StopSlotTimer: TaskExecutor._stop_slot_timer,
    slots.ReportSlotFreed: TaskExecutor._report_slot_freed,
    StartLossTimer: TaskExecutor._start_loss_timer,
    StopLossTimer: TaskExecutor._stop_loss_timer,
    tv.StartTimer: TaskExecutor._start_timer,
    tv.StopTimers: TaskExecutor._stop_timers,
    tv.Escalate: TaskExecutor._escalate,
    tv.LogWarning: TaskExecutor._warn,
    tv.StartSubtask: TaskExecutor._start_subtask,
    tv.AcceptStream: TaskExecutor._accept_stream,
    tv.RefuseStream: TaskExecutor._refuse,
    tv.SendMail: TaskExecutor._send_mail,
    tv.SendCancel: TaskExecutor._send_cancel,
    tv.CloseStream: TaskExecutor._close_stream,
    tv.KillSubtask: TaskExecutor._kill_subtask,
    tv.ReportState: TaskExecutor._report_state,
    tv.Forward: TaskExecutor._forward,
    tv.RemoveTask: TaskExecutor._remove,
}
"""The method that carries out each command of the state machine."""
