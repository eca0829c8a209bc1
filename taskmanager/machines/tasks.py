"""The task table of a TaskManager: every subtask attempt on it, from its submission until its process is gone.

    TaskSubmitted ──others start──▶ WAITING
        ▼ ◀──its turn──────────────────┴──asked to stop──▶ gone, outcome reported
    STARTING ──its stream opens──▶ ATTACHED ──last word──▶ ENDED ──its Spark job returns──▶ gone, outcome reported
        │                             │                      │ still there after a while
        │ no stream in time           │ stream breaks        ▼
        └──cancel, fail───────────────┴──asked to stop, ─▶ KILLED ──its Spark job returns──▶ gone, outcome reported
                                         does not in time

Laws:
1. An attempt has one control stream, ever; its hello must have the token with which the attempt was started.
2. FINISHED, CANCELED and FAILED are reported only after the Spark job returned: then the process is gone.
3. A stream that breaks, or a Spark job that returns, before the last word means that the process is lost: FAILED (``SubtaskLost``), or CANCELED if it was being
   cancelled anyway.
4. To cancel an attempt its process is asked first, which interrupts its function (``spark.interruption``). A process that has not answered with CANCELING after
   ``tidegate.task.unresponsive-timeout`` is killed, one that has answered after ``task.cancellation.timeout``. If it is not gone as long after that, the
   TaskManager ends itself (``Escalate``).
5. The number of attempts that start at the same time is limited; they start in the order of their submission. The timeout for an attempt's control stream
   begins when its start begins. An attempt whose timeout is over makes room for another before its process is gone.
6. A message of another generation is refused as fenced, one for an attempt that is not here as unknown. An attempt begins once.
7. While there is no JobManager, tasks run on, and the driver keeps reports for the lost JobManager until it is found again; it drops them when another
   JobManager is found. That one gets a report of each attempt that is here or has ended meanwhile, and owns them. If none is found in time, the tasks are
   stopped.

Follows Flink's ``TaskExecutor.java`` and ``Task.java``, with a process where Flink has a thread.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from tidegate.model.errors import ErrorInfo, Fenced, InternalError, UnknownAttempt
from tidegate.model.ids import AllocationId, AttemptId, Generation
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.attempt_notes import EndedAttempts, RunningAttemptNotes
from tidegate.taskmanager.machines.lost_processes import LOST, outcome_of, outcome_of_late_start, outcome_of_obstinacy
from tidegate.taskmanager.machines.slots import JobManagerFound, JobManagerLost, LossGraceOver, Refuse, fence
from tidegate.taskmanager.machines.task_events import (
    AcceptStream,
    AttemptRejected,
    CancelRequested,
    CloseStream,
    Escalate,
    Forward,
    KillSubtask,
    LogWarning,
    MailRequested,
    Outcome,
    RefuseStream,
    RemoveTask,
    ReportState,
    SendCancel,
    SendMail,
    SparkJobEnded,
    StartSubtask,
    StartTimer,
    StopTimers,
    StreamBroke,
    StreamOpened,
    SubmittedTask,
    SubtaskEvent,
    SubtaskInterrupted,
    SubtaskListening,
    SubtaskReported,
    SubtaskStateChanged,
    TaskCommand,
    TaskEvent,
    TaskFailed,
    TaskLimits,
    TaskPhase,
    TaskSubmitted,
    TimerFired,
    TimerKind,
)

NOT_BEGUN = (TaskPhase.WAITING, TaskPhase.STARTING)
"""The phases of an attempt before its control stream opens."""


@dataclass(slots=True)
class Task:
    """An attempt in the task table. ``stopping``: its final state once it was requested to stop."""

    submitted: SubmittedTask
    token: str
    notes: RunningAttemptNotes
    owner: Generation
    """The JobManager that deployed it, or that took it over."""
    phase: TaskPhase = TaskPhase.WAITING
    stopping: Outcome | None = None
    outcome: Outcome | None = None
    stack: str = ""  # where its function stood when it was interrupted last
    early_mails: list[bytes] = field(default_factory=list)
    data_address: str | None = None
    pid: int = 0
    host: str = ""
    is_disowned: bool = False
    """Whether the JobManager has answered that it does not know the attempt. Then nothing is reported of it."""

    @property
    def attempt(self) -> AttemptId:
        return self.submitted.attempt

    @property
    def name(self) -> str:
        return self.submitted.name

    def report(self) -> AttemptReport:
        """Returns the report of the attempt. A FINISHED one counts as RUNNING until its process is gone."""
        state = self.notes.state
        if self.outcome is not None and self.outcome.state is ExecutionState.FINISHED:
            state = ExecutionState.RUNNING
        elif self.outcome is not None or self.stopping is not None:
            state = ExecutionState.CANCELING
        return self.notes.report(state, self.data_address)


class TaskTable:
    """All attempts on a TaskManager. ``on(event, now_ms)`` is the only way to change them."""

    def __init__(self, limits: TaskLimits) -> None:
        self._limits = limits
        self._generation: Generation | None = None
        self._last_generation: Generation | None = None
        """The JobManager that was found last: it is the leader, or it is lost."""
        self._tasks: dict[AttemptId, Task] = {}
        self._waiting: deque[AttemptId] = deque()
        """Attempts that wait for their turn to start, the next one first."""
        self._ended = EndedAttempts()

    def __len__(self) -> int:
        return len(self._tasks)

    def attempts(self) -> tuple[AttemptId, ...]:
        """Returns the attempts on this TaskManager, in the order in which they were submitted."""
        return tuple(self._tasks)

    def reports(self) -> tuple[AttemptReport, ...]:
        """Returns the reports of all attempts, for a JobManager that becomes the leader."""
        return (*(task.report() for task in self._tasks.values()), *self._ended.reports())

    def forget(self, allocation_id: AllocationId) -> None:
        """Forgets the attempts of a slot that was freed."""
        self._ended.free(allocation_id)

    def has_begun(self, task: SubmittedTask) -> bool:
        """Tells whether an attempt, or a later one of its subtask, was submitted before. It may have ended."""
        return self._ended.has_begun(task)

    def task(self, attempt: AttemptId) -> Task | None:
        """Returns a task, which only ``on`` may change; ``None`` if it is not here."""
        return self._tasks.get(attempt)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a task has what its phase cannot have, or waits although it could start."""
        for attempt, task in self._tasks.items():
            is_over, is_starting = task.phase in (TaskPhase.ENDED, TaskPhase.KILLED), task.phase in NOT_BEGUN
            task.notes.check_invariants()
            assert task.attempt == attempt, f"{task.attempt} is kept under {attempt}"
            assert is_over == (task.outcome is not None), f"{attempt} is {task.phase.value} with {task.outcome}"
            assert is_starting or not task.early_mails, f"{attempt} is {task.phase.value}, mails wait"
            assert not is_starting or task.stopping is None, f"{attempt} is stopped, and starts"
        waiting = [attempt for attempt, task in self._tasks.items() if task.phase is TaskPhase.WAITING]
        assert waiting == list(self._waiting), f"{waiting} wait, and {self._waiting} stand in line"
        starting, limit = self._starting(), self._limits.starts_at_once
        assert starting <= limit, f"{starting} attempts start at once, of {limit}"
        assert starting == limit or not waiting, f"{waiting} wait, and {starting} attempts start, of {limit}"
        self._ended.check_invariants(self._tasks)

    def on(self, event: TaskEvent, now_ms: int) -> Sequence[TaskCommand]:
        commands = self._on(event, now_ms)
        return (*commands, *self._next_starts()) if self._waiting else commands

    def _on(self, event: TaskEvent, now_ms: int) -> Sequence[TaskCommand]:
        match event:
            case JobManagerFound():
                return self._on_job_manager_found(event.generation)
            case JobManagerLost():
                self._generation = None
                return ()
            case LossGraceOver():
                return self._on_loss_grace_over()
            case TaskSubmitted():
                return self._on_submitted(event, now_ms)
            case StreamOpened():
                return self._on_stream_opened(event)
            case MailRequested():
                return self._on_mail_requested(event)
            case CancelRequested():
                return self._on_cancel_requested(event)
            case _:
                task = self._tasks.get(event.attempt)
                return () if task is None else self._on_task_event(task, event)

    def _on_task_event(self, task: Task, event: SubtaskEvent) -> Sequence[TaskCommand]:
        """Takes an event of a task that is on this TaskManager."""
        match event:
            case SubtaskListening():
                task.data_address = event.address
                return ()
            case SubtaskStateChanged():
                return self._on_state_changed(task, event)
            case SubtaskReported():
                return self._on_reported(task, event)
            case SubtaskInterrupted():
                task.stack = event.stack
                return ()
            case StreamBroke():
                return self._on_stream_broke(task)
            case SparkJobEnded():
                return self._on_spark_job_ended(task, event)
            case TaskFailed():
                return self._stop(task, Outcome(ExecutionState.FAILED, event.error), event.by_force)
            case AttemptRejected():
                task.is_disowned = True
                return self._stop(task, Outcome(ExecutionState.CANCELED))
            case TimerFired():
                return self._on_timer(task, event.kind)
            case _:
                assert_never(event)

    # ---- requests of the JobManager ----------------------------------------------------------------------------------

    def _on_submitted(self, event: TaskSubmitted, now_ms: int) -> Sequence[TaskCommand]:
        submitted = event.task
        refusal = fence(submitted.generation, self._generation)
        known = self._tasks.get(submitted.attempt)
        if refusal is None and known is not None and known.submitted != submitted:
            refusal = ErrorInfo.of(
                InternalError(f"attempt {submitted.attempt} is already here, with another deployment")
            )
        if refusal is not None:
            return (Refuse(refusal),)
        if known is not None or self.has_begun(submitted):
            return ()  # the call was repeated because its answer got lost; by now the attempt may have ended
        notes = RunningAttemptNotes(submitted, now_ms)
        task = Task(submitted, event.token, notes, submitted.generation)
        self._tasks[submitted.attempt] = task
        self._ended.begin(submitted)
        if submitted.spark_query is not None:
            return self._start(task)
        self._waiting.append(submitted.attempt)
        return ()

    # ---- turns -------------------------------------------------------------------------------------------------------

    def _starting(self) -> int:
        """Returns the number of attempts that are starting, Spark queries not counted."""
        tasks = self._tasks.values()
        return sum(task.phase is TaskPhase.STARTING and task.submitted.spark_query is None for task in tasks)

    def _next_starts(self) -> Sequence[TaskCommand]:
        """Starts the waiting attempts that may start now, as many as start at once."""
        commands: list[TaskCommand] = []
        for _ in range(min(self._limits.starts_at_once - self._starting(), len(self._waiting))):
            commands += self._start(self._tasks[self._waiting.popleft()])
        return commands

    def _start(self, task: Task) -> Sequence[TaskCommand]:
        task.phase = TaskPhase.STARTING
        return (
            StartTimer(task.attempt, TimerKind.START, self._start_timeout_ms(task.submitted)),
            StartSubtask(task.submitted, task.token),
        )

    def _start_timeout_ms(self, submitted: SubmittedTask) -> int:
        has_query = submitted.spark_query is not None
        return self._limits.spark_query_timeout_ms if has_query else self._limits.start_timeout_ms

    def _on_mail_requested(self, event: MailRequested) -> Sequence[TaskCommand]:
        refusal = fence(event.generation, self._generation)
        task = self._tasks.get(event.attempt)
        if refusal is None and (task is None or task.phase not in (*NOT_BEGUN, TaskPhase.ATTACHED)):
            refusal = ErrorInfo.of(UnknownAttempt(f"attempt {event.attempt} does not run on this TaskManager"))
        if refusal is not None or task is None:
            return (Refuse(refusal),) if refusal else ()
        if event.says is not None and not task.notes.on_mail(event.says):
            return ()  # an event that came before: the call was repeated because its answer got lost
        if task.phase in NOT_BEGUN:
            task.early_mails.append(event.mail)
            return ()
        return (SendMail(event.attempt, event.mail),)

    def _on_cancel_requested(self, event: CancelRequested) -> Sequence[TaskCommand]:
        refusal = fence(event.generation, self._generation)
        if refusal is None and event.attempt not in self._tasks:
            refusal = ErrorInfo.of(UnknownAttempt(f"attempt {event.attempt} does not run on this TaskManager"))
        if refusal is not None:
            return (Refuse(refusal),)
        return self._stop(self._tasks[event.attempt], Outcome(ExecutionState.CANCELED))

    def _on_job_manager_found(self, generation: Generation) -> Sequence[TaskCommand]:
        """Gives all tasks that are not being stopped to the JobManager that was found.

        It registered this TaskManager with reports, so messages that came since or may be unanswered are sent again. If it is the one that was lost, messages
        were kept for it and nothing is sent again.
        """
        is_back, self._generation = generation == self._last_generation, generation
        self._last_generation = generation
        if is_back:
            self._ended.take_unreported()
            return ()
        commands: list[TaskCommand] = []
        for task in tuple(self._tasks.values()):
            if task.stopping is None:
                task.owner = generation
                if task.phase is TaskPhase.ATTACHED:
                    commands += [Forward(task.attempt, message) for message in task.notes.unanswered_messages()]
        commands += [ReportState(end.attempt, end.state, end.error) for end in self._ended.take_unreported()]
        return commands

    def _on_loss_grace_over(self) -> Sequence[TaskCommand]:
        commands: list[TaskCommand] = []
        for task in tuple(self._tasks.values()):
            commands += self._stop(task, Outcome(ExecutionState.CANCELED))
            if task.phase is TaskPhase.ATTACHED:
                commands.append(StartTimer(task.attempt, TimerKind.KILL, self._limits.orphan_timeout_ms))
        return commands

    # ---- what a subtask tells ----------------------------------------------------------------------------------------

    def _on_reported(self, task: Task, event: SubtaskReported) -> Sequence[TaskCommand]:
        if task.phase is not TaskPhase.ATTACHED:
            return ()
        task.notes.on_reported(event)
        if self.is_muted(task):
            return ()
        if event.acknowledged is not None:
            task.notes.on_acknowledged(event.acknowledged, task.owner)
        return (Forward(task.attempt, event.message),)

    def _on_stream_opened(self, event: StreamOpened) -> Sequence[TaskCommand]:
        task = self._tasks.get(event.attempt)
        if task is None:
            return (RefuseStream(event.attempt, ErrorInfo.of(UnknownAttempt(f"attempt {event.attempt} is not here"))),)
        if not hmac.compare_digest(event.token.encode(), task.token.encode()):
            return (RefuseStream(event.attempt, ErrorInfo.of(Fenced(f"wrong token for attempt {event.attempt}"))),)
        if task.phase is not TaskPhase.STARTING:
            why = f"attempt {event.attempt} already had its control stream, or has ended ({task.phase.value})"
            return (RefuseStream(event.attempt, ErrorInfo.of(Fenced(why))),)
        task.phase, task.pid, task.host = TaskPhase.ATTACHED, event.pid, event.host
        mails, task.early_mails = (task.submitted.deploy, *task.early_mails), []
        return (StopTimers(event.attempt), AcceptStream(event.attempt, mails))

    def _on_state_changed(self, task: Task, event: SubtaskStateChanged) -> Sequence[TaskCommand]:
        if task.phase is not TaskPhase.ATTACHED:
            return ()
        if event.state is ExecutionState.CANCELING:
            return self._on_answer(task)
        if not event.state.is_terminal:
            task.notes.on_state(event.state)
            if self.is_muted(task) or task.stopping:
                return ()
            is_listening = event.state is ExecutionState.INITIALIZING
            return (ReportState(task.attempt, event.state, None, task.data_address if is_listening else None),)
        task.phase = TaskPhase.ENDED
        is_outcome_of_subtask = task.stopping is None or event.state is ExecutionState.FINISHED
        task.outcome = Outcome(event.state, event.error) if is_outcome_of_subtask else task.stopping
        return (
            StopTimers(task.attempt),
            CloseStream(task.attempt),
            StartTimer(task.attempt, TimerKind.KILL, self._limits.time_to_exit_ms(task.submitted)),
        )

    def _on_answer(self, task: Task) -> Sequence[TaskCommand]:
        """Notes that a subtask answered the request to stop: it is closing its functions, which has a timeout of its own."""
        if task.stopping is None or self._generation is None:
            return ()
        limit_ms = self._limits.cancellation_timeout_ms
        return (StartTimer(task.attempt, TimerKind.KILL, limit_ms) if limit_ms else StopTimers(task.attempt),)

    def _on_stream_broke(self, task: Task) -> Sequence[TaskCommand]:
        if task.phase is not TaskPhase.ATTACHED:
            return ()
        task.outcome = task.stopping or LOST
        return self._kill(task)

    def _on_spark_job_ended(self, task: Task, ended: SparkJobEnded) -> Sequence[TaskCommand]:
        del self._tasks[task.attempt]
        if task.phase is TaskPhase.WAITING:
            self._waiting.remove(task.attempt)
        outcome = outcome_of(task, ended)
        commands: list[TaskCommand] = [StopTimers(task.attempt)]
        if task.phase is TaskPhase.ATTACHED:
            commands.append(CloseStream(task.attempt))
        is_muted = self.is_muted(task)
        if not is_muted:
            commands.append(ReportState(task.attempt, outcome.state, outcome.error))
        if not task.is_disowned:
            end = task.notes.report(outcome.state, task.data_address, outcome.error)
            self._ended.keep(end, is_reported=not is_muted and self._generation is not None)
        return [*commands, RemoveTask(task.attempt, task.submitted.allocation_id)]

    # ---- stopping ----------------------------------------------------------------------------------------------------

    def _on_timer(self, task: Task, kind: TimerKind) -> Sequence[TaskCommand]:
        if task.phase is TaskPhase.WAITING:
            return ()
        match kind:
            case TimerKind.START:
                if task.phase is not TaskPhase.STARTING:
                    return ()
                timeout_ms, is_plain = self._start_timeout_ms(task.submitted), task.submitted.spark_query is None
                executors = self._limits.has_executors
                task.outcome = outcome_of_late_start(task.name, timeout_ms, is_plain=is_plain, has_executors=executors)
                return self._kill(task)
            case TimerKind.KILL:
                if task.phase is TaskPhase.KILLED:
                    return ()
                if task.outcome is not None:
                    return self._kill(task)
                task.outcome, why = outcome_of_obstinacy(task)
                return (LogWarning(why), *self._kill(task))
            case TimerKind.ESCALATE:
                waited_s = self._limits.cancellation_timeout_ms / 1000
                text = f"{task.name} was killed {waited_s:g} s ago and is still there (task.cancellation.timeout)"
                return (Escalate(ErrorInfo.of(InternalError(text))),)
            case _:
                assert_never(kind)

    def _stop(self, task: Task, outcome: Outcome, by_force: bool = False) -> Sequence[TaskCommand]:
        """Asks a task to stop, and starts the timer after which it is killed. The first reason to stop stays."""
        if task.phase in (TaskPhase.ENDED, TaskPhase.KILLED):
            return ()
        is_repeated = task.stopping is not None
        task.stopping = task.stopping or outcome
        if task.phase is TaskPhase.WAITING:
            return self._on_spark_job_ended(task, SparkJobEnded(task.attempt))
        if task.phase is TaskPhase.STARTING or by_force:
            task.outcome = task.stopping
            return self._kill(task)
        if is_repeated:
            return ()
        return (
            SendCancel(task.attempt),
            StartTimer(task.attempt, TimerKind.KILL, self._limits.unresponsive_timeout_ms),
        )

    def _kill(self, task: Task) -> Sequence[TaskCommand]:
        closing = (CloseStream(task.attempt),) if task.phase is TaskPhase.ATTACHED else ()
        task.phase = TaskPhase.KILLED
        limit_ms = self._limits.cancellation_timeout_ms
        escalation = (StartTimer(task.attempt, TimerKind.ESCALATE, limit_ms),) if limit_ms > 0 else ()
        return (StopTimers(task.attempt), *closing, KillSubtask(task.attempt, task.pid, task.host), *escalation)

    def is_muted(self, task: Task) -> bool:
        """Tells whether nothing is reported of a task: the JobManager does not know it, or another JobManager than its owner was found last."""
        return task.is_disowned or task.owner != self._last_generation
