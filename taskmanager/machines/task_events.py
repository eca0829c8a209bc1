"""Events, commands and values of a TaskManager's task table (``tidegate.taskmanager.machines.tasks``).

Mails are passed on as the bytes that are sent to the subtask; the first one is its deployment. Messages of a subtask are passed on undecoded as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import SlotResources
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, CheckpointId, Generation
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.slots import JobManagerFound, JobManagerLost, LossGraceOver, Refuse


class TaskPhase(Enum):
    """The phases of an attempt in the TaskManager."""

    WAITING = "WAITING"
    """The attempt waits for its turn to start; it has no process yet."""
    STARTING = "STARTING"
    ATTACHED = "ATTACHED"
    ENDED = "ENDED"
    KILLED = "KILLED"


class TimerKind(Enum):
    """The timers of an attempt."""

    START = "START"
    """Time until the control stream must have opened."""
    KILL = "KILL"
    """Time until a subtask must have ended after it was requested to stop or has reported its final state."""
    ESCALATE = "ESCALATE"
    """Time until a subtask that was killed must be gone."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Timeouts and limits of the task table, in milliseconds."""

    start_timeout_ms: int = 30_000
    """Time from the start of an attempt to its control stream: ``tidegate.subtask.start-timeout``."""
    spark_query_timeout_ms: int = 600_000
    """The start timeout of a subtask of ``from_spark``, in place of ``start_timeout_ms``: its query runs first."""
    unresponsive_timeout_ms: int = 5_000
    """Time between the request to stop a subtask that does not answer and killing it: ``tidegate.task.unresponsive-timeout``."""
    cancellation_timeout_ms: int = 180_000
    """Time between a subtask's answer to its cancellation and killing it, and between that and the end of the TaskManager; 0: never. The value of
    ``task.cancellation.timeout``.
    """
    orphan_timeout_ms: int = 3_000
    """Time between the end of the grace period of a lost JobManager and killing a subtask; all subtasks must be gone within 5 s."""
    exit_timeout_ms: int = 5_000
    """Time between a subtask's final state and killing its process."""
    storing_timeout_ms: int = 600_000
    """Time between the final state of a subtask whose output Spark stores and killing its process; Spark merges the output into one file meanwhile."""
    starts_at_once: int = 32
    """The number of subtask processes that start at the same time; other attempts wait for their turn. Queries of ``from_spark`` do not count, and do not wait.
    """
    has_executors: bool = False
    """Whether Spark runs the subtasks in executors of a cluster, so that cores and connections may be missing."""

    def time_to_exit_ms(self, task: SubmittedTask) -> int:
        return self.exit_timeout_ms if task.stored is None else self.storing_timeout_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final state of an attempt. ``error``: set if it FAILED."""

    state: ExecutionState
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class StoredEdges:
    """The edges of a subtask whose job exchanges records through Spark's shuffle: ``inputs`` with their producers, ``outputs`` with the indices of their
    consumers.
    """

    inputs: tuple[tuple[int, tuple[AttemptId, ...]], ...]
    outputs: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def partitions(self) -> int:
        """The number of stored partitions: one for each consumer of each output."""
        return sum(len(consumers) for _, consumers in self.outputs)


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """The parts of a deployment that a TaskManager reads, and the mail that brings the whole of it to the subtask."""

    attempt: AttemptId
    generation: Generation
    allocation_id: AllocationId
    job_name: str
    task_name: str
    parallelism: int
    deploy: bytes
    restored_id: CheckpointId | None = None
    """The checkpoint that the attempt starts from; ``None``: it starts without state."""
    spark_query: BlobKey | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The job's configuration, with which its Spark query runs."""
    stored: StoredEdges | None = None
    """Edges through Spark's shuffle; ``None``: its producers and consumers run at the same time."""
    slot_resources: SlotResources | None = None

    @property
    def name(self) -> str:
        """The attempt's name in logs, such as ``map (2/4)#0``."""
        return f"{self.task_name} ({self.attempt.subtask + 1}/{self.parallelism})#{self.attempt.attempt}"


# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    """An attempt was submitted. ``token``: a secret drawn by the driver, which the control stream of the attempt must show."""

    task: SubmittedTask
    token: str


class CheckpointMailKind(Enum):
    """The messages about a checkpoint that are passed on to subtasks."""

    TRIGGER = "TRIGGER"
    CONFIRM = "CONFIRM"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class CheckpointMail:
    """The content of a mail about a checkpoint. ``may_finish``: of a CONFIRM. ``ends_the_job``: of a TRIGGER with which the job is stopped."""

    kind: CheckpointMailKind
    checkpoint_id: int
    may_finish: bool = False
    ends_the_job: bool = False


@dataclass(frozen=True, slots=True)
class MailRequested:
    """A mail for a subtask arrived: connect, trigger, confirm, abort, or an event of a coordinator. ``says``: what is noted of it, ``None`` for connect."""

    generation: Generation
    attempt: AttemptId
    mail: bytes
    says: CheckpointMail | OperatorEvent | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The JobManager cancels an attempt."""

    generation: Generation
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A subtask opened its control stream. ``pid`` and ``host``: of its process."""

    attempt: AttemptId
    token: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class SubtaskListening:
    """A subtask listens for its consumers at this address."""

    attempt: AttemptId
    address: str


@dataclass(frozen=True, slots=True)
class SubtaskStateChanged:
    """A subtask reported its state."""

    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class SubtaskInterrupted:
    """A subtask was requested to stop and does not react. ``stack``: the stack of its function."""

    attempt: AttemptId
    stack: str


@dataclass(frozen=True, slots=True)
class SubtaskReported:
    """A subtask sent a message for the JobManager: an acknowledgement, a decline, an end of data, or an event for a coordinator. ``acknowledged``: the
    checkpoint's id, of an acknowledgement.
    """

    attempt: AttemptId
    message: object
    acknowledged: int | None = None
    is_end_of_data: bool = False
    event: OperatorEvent | None = None
    """The operator's event for its coordinator."""


@dataclass(frozen=True, slots=True)
class StreamBroke:
    """The control stream of a subtask ended."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class SparkJobEnded:
    """The Spark job of an attempt is over: ``runJob`` returned (``error`` is ``None``) or raised. ``exit_status``: how its process ended, negative for a
    signal; ``None`` if that is not known on this machine.
    """

    attempt: AttemptId
    error: ErrorInfo | None = None
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """An attempt must fail for a reason from outside: its slot is freed, or it needs too much memory (``by_force``)."""

    attempt: AttemptId
    error: ErrorInfo
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRejected:
    """The JobManager answered that it does not know the attempt."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer of an attempt has run out."""

    attempt: AttemptId
    kind: TimerKind


SubtaskEvent = (
    SubtaskListening
    | SubtaskStateChanged
    | SubtaskReported
    | SubtaskInterrupted
    | StreamBroke
    | SparkJobEnded
    | TaskFailed
    | AttemptRejected
    | TimerFired
)
"""Events of one attempt. They have no effect when the attempt is not on this TaskManager."""

TaskEvent = (
    JobManagerFound
    | JobManagerLost
    | LossGraceOver
    | TaskSubmitted
    | MailRequested
    | CancelRequested
    | StreamOpened
    | SubtaskEvent
)


# ---- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartSubtask:
    """Runs the Spark job of an attempt whose turn to start it is. Comes back as ``SparkJobEnded`` in any case."""

    task: SubmittedTask
    token: str


@dataclass(frozen=True, slots=True)
class AcceptStream:
    """Accepts the control stream of an attempt and sends the mails, of which the first is the deployment."""

    attempt: AttemptId
    mails: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RefuseStream:
    """Refuses a control stream that was just opened; the stream that the attempt has stays."""

    attempt: AttemptId
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class SendMail:
    """Sends a message to a subtask. ``mail``: encoded."""

    attempt: AttemptId
    mail: bytes


@dataclass(frozen=True, slots=True)
class SendCancel:
    """Sends a subtask the request to cancel."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class CloseStream:
    """Closes the control stream of a subtask."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class KillSubtask:
    """Cancels the Spark job of an attempt, and kills its process if that is on this machine. ``pid``: 0 if it is not known."""

    attempt: AttemptId
    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class LogWarning:
    """Logs a warning for the operators of the cluster."""

    text: str


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Starts a timer that comes back as ``TimerFired``. It replaces a timer of the same attempt and kind."""

    attempt: AttemptId
    kind: TimerKind
    delay_ms: int


@dataclass(frozen=True, slots=True)
class StopTimers:
    """Stops all timers of an attempt."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ReportState:
    """Reports the state of an attempt to the JobManager. ``data_address``: where its consumers connect, once it is known."""

    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None
    data_address: str | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """Forwards a message to the JobManager, in the order of these commands."""

    attempt: AttemptId
    message: object


@dataclass(frozen=True, slots=True)
class RemoveTask:
    """Removes an attempt whose process is gone: frees its place in the slot table and removes its files."""

    attempt: AttemptId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class Escalate:
    """Ends this TaskManager process with the error, since it cannot go on."""

    error: ErrorInfo


TaskCommand = (
    Refuse
    | StartSubtask
    | AcceptStream
    | RefuseStream
    | SendMail
    | SendCancel
    | CloseStream
    | KillSubtask
    | LogWarning
    | StartTimer
    | StopTimers
    | ReportState
    | Forward
    | RemoveTask
    | Escalate
)
