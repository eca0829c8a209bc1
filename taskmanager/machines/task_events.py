"""Events, commands and values of the task table (``tidegate.taskmanager.machines.tasks``).

Mails only pass through, as the bytes that go to the subtask; the first of them is its deployment. So do the messages of a subtask,
which nothing here looks into.
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
    WAITING = "WAITING"
    """For its turn to start: nothing runs for it yet."""
    STARTING = "STARTING"
    ATTACHED = "ATTACHED"
    ENDED = "ENDED"
    KILLED = "KILLED"


class TimerKind(Enum):
    START = "START"
    """The control stream must have opened."""
    KILL = "KILL"
    """It was asked to stop, or said its last word, and must be gone."""
    ESCALATE = "ESCALATE"
    """It was killed and must be gone."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Times of the task table, in milliseconds."""

    start_timeout_ms: int = 30_000
    """``tidegate.subtask.start-timeout``: from the attempt's turn to its control stream."""
    spark_query_timeout_ms: int = 600_000
    """In place of ``start_timeout_ms`` for a subtask of ``from_spark``: its query runs first."""
    unresponsive_timeout_ms: int = 5_000
    """``tidegate.task.unresponsive-timeout``: from asking to killing, for one that does not even answer."""
    cancellation_timeout_ms: int = 180_000
    """``task.cancellation.timeout``: from the answer to killing, and from killing to giving the TaskManager up; 0: never."""
    orphan_timeout_ms: int = 3_000
    """From the end of the grace after the loss of the JobManager to killing: all must be gone within 5 s."""
    exit_timeout_ms: int = 5_000
    """From the last word to killing."""
    storing_timeout_ms: int = 600_000
    """In its place for a subtask whose output Spark stores: Spark joins it into one file then, at the pace of the disk."""
    starts_at_once: int = 32
    """Processes of subtasks that start beside each other; the other attempts wait for their turn. Queries of ``from_spark`` do not count,
    and do not wait."""
    has_executors: bool = False
    """Whether Spark runs the subtasks in executors of a cluster, so that cores and connections may be missing."""

    def time_to_exit_ms(self, task: SubmittedTask) -> int:
        return self.exit_timeout_ms if task.stored is None else self.storing_timeout_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``error`` is set when it FAILED."""

    state: ExecutionState
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class StoredEdges:
    """The edges of a subtask whose job exchanges records through Spark's shuffle: ``inputs`` with their producers, ``outputs`` with the
    indices of their consumers."""

    inputs: tuple[tuple[int, tuple[AttemptId, ...]], ...]
    outputs: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def partitions(self) -> int:
        """One for each consumer of each output."""
        return sum(len(consumers) for _, consumers in self.outputs)


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """What a TaskManager reads of a deployment, and the mail that brings the whole of it to the subtask."""

    attempt: AttemptId
    generation: Generation
    allocation_id: AllocationId
    job_name: str
    task_name: str
    parallelism: int
    deploy: bytes
    restored_id: CheckpointId | None = None
    """The checkpoint that the attempt starts from; ``None``: it starts afresh."""
    spark_query: BlobKey | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The job's, which its Spark query runs with."""
    stored: StoredEdges | None = None
    """``None``: its producers and consumers run beside it."""
    slot_resources: SlotResources | None = None

    @property
    def name(self) -> str:
        """The attempt as logs show it, such as ``map (2/4)#0``."""
        return f"{self.task_name} ({self.attempt.subtask + 1}/{self.parallelism})#{self.attempt.attempt}"


# ---- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    """``token`` was drawn by the driver."""

    task: SubmittedTask
    token: str


class CheckpointMailKind(Enum):
    TRIGGER = "TRIGGER"
    CONFIRM = "CONFIRM"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class CheckpointMail:
    """What a mail says of a checkpoint. ``may_finish``: of a CONFIRM; ``ends_the_job``: of a TRIGGER, the job is being stopped with it."""

    kind: CheckpointMailKind
    checkpoint_id: int
    may_finish: bool = False
    ends_the_job: bool = False


@dataclass(frozen=True, slots=True)
class MailRequested:
    """Connect, trigger, confirm, abort, or an event of a coordinator; ``says``: what is noted of it, nothing of a Connect."""

    generation: Generation
    attempt: AttemptId
    mail: bytes
    says: CheckpointMail | OperatorEvent | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    generation: Generation
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StreamOpened:
    attempt: AttemptId
    token: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class SubtaskListening:
    attempt: AttemptId
    address: str


@dataclass(frozen=True, slots=True)
class SubtaskStateChanged:
    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class SubtaskInterrupted:
    """It was asked to stop and does not react. ``stack``: where its function stood."""

    attempt: AttemptId
    stack: str


@dataclass(frozen=True, slots=True)
class SubtaskTold:
    """An acknowledgement, a decline, an end of data, an event for a coordinator. ``acknowledged``: the checkpoint, of an acknowledgement."""

    attempt: AttemptId
    message: object
    acknowledged: int | None = None
    is_end_of_data: bool = False
    event: OperatorEvent | None = None
    """That of an operator for its coordinator."""
    """It asks a coordinator for something, and waits."""


@dataclass(frozen=True, slots=True)
class StreamBroke:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class SparkJobEnded:
    """``runJob`` returned (``error`` is ``None``) or raised. ``exit_status``: how its process ended, negative for a signal, as far as
    that is known on this machine."""

    attempt: AttemptId
    error: ErrorInfo | None = None
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Something beside it decided that it must fail: its slot is freed, it needs too much memory (``by_force``)."""

    attempt: AttemptId
    error: ErrorInfo
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRejected:
    """The JobManager answered that it does not know the attempt."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TimerFired:
    attempt: AttemptId
    kind: TimerKind


SubtaskEvent = (
    SubtaskListening
    | SubtaskStateChanged
    | SubtaskTold
    | SubtaskInterrupted
    | StreamBroke
    | SparkJobEnded
    | TaskFailed
    | AttemptRejected
    | TimerFired
)
"""Events of one attempt. They have no effect when the attempt is not here."""

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
    """Run its Spark job: it is its turn. Comes back as ``SparkJobEnded``, whatever happens."""

    task: SubmittedTask
    token: str


@dataclass(frozen=True, slots=True)
class AcceptStream:
    """Send the mails, of which the first is the deployment."""

    attempt: AttemptId
    mails: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RefuseStream:
    """Refuses the stream that just said hello; the stream that the attempt has stays."""

    attempt: AttemptId
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class SendMail:
    attempt: AttemptId
    mail: bytes


@dataclass(frozen=True, slots=True)
class SendCancel:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class CloseStream:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class KillSubtask:
    """Cancel its Spark job, and kill its process when that is on this machine. ``pid`` 0: none is known."""

    attempt: AttemptId
    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class LogWarning:
    """What an operator should read."""

    text: str


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Comes back as ``TimerFired``. A timer of the same attempt and kind is replaced."""

    attempt: AttemptId
    kind: TimerKind
    delay_ms: int


@dataclass(frozen=True, slots=True)
class StopTimers:
    """All of the attempt."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ReportState:
    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None
    data_address: str | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """To the JobManager, in the order of these commands."""

    attempt: AttemptId
    message: object


@dataclass(frozen=True, slots=True)
class RemoveTask:
    """Its process is gone: the slot table learns of it, its files are removed."""

    attempt: AttemptId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class Escalate:
    """This process cannot go on."""

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
