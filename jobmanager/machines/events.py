"""Every event that the JobManager's machines handle: frozen dataclasses, named in the past tense, that carry all that is needed to handle them.

All enter through ``Dispatcher.on(event, now_ms)``, one at a time. Events that answer a command carry the ids of that command
and are accepted in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.jobmanager.machines.views import JobHistory
from tidegate.model.checkpoint import (
    CheckpointManifest,
    CheckpointMetrics,
    DeclineReason,
    SnapshotType,
    SubtaskSnapshot,
)
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, JobId, TaskManagerId, VertexId
from tidegate.model.leadership.attempt_report import AttemptReport
from tidegate.model.leadership.noted_attempts import NotedAttempts
from tidegate.model.options import ClaimMode
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.rescaling.shape import Shape
from tidegate.model.states import ExecutionState

# ---- clients ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """A checkpoint or savepoint to start a job from (``run -s``), already read by the service. ``location``: its directory.

    ``CLAIM``: the job owns it from now on and deletes it once it is subsumed; ``NO_CLAIM``: never deleted, and nothing refers
    to it once the first checkpoint is complete; ``LEGACY``: never deleted, later checkpoints may refer to it.
    """

    location: str
    manifest: CheckpointManifest
    allow_non_restored_state: bool = False
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A client has submitted a job that the service has validated. ``configuration``: the cluster's, overridden by the job's."""

    graph: JobGraph
    configuration: Mapping[str, str] = field(default_factory=dict)
    restore: RestoreFrom | None = None


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint directory ``chk-<n>`` of a job, or the savepoint of a stop in progress, found in storage at recovery.

    ``manifest`` is ``None`` without a complete ``_metadata``: then ``damage`` says why it cannot be read, or is ``None`` when it is
    missing or was only partly written, so that the checkpoint was never completed.
    """

    checkpoint_id: CheckpointId
    location: str
    manifest: CheckpointManifest | None = None
    damage: ErrorInfo | None = None
    shared_location: str = ""
    """The directory into which an incomplete checkpoint may have written shared files."""


@dataclass(frozen=True, slots=True)
class JobRecovered:
    """A job of an earlier JobManager is taken over from what the storage holds.

    ``submitted``: as it was submitted first, with ``restore`` only if that can still be read. ``first_attempt``: higher than every attempt
    number that ever ran, because names of files and transactions contain the attempt.
    """

    submitted: JobSubmitted
    checkpoints: tuple[FoundCheckpoint, ...] = ()
    first_attempt: int = 0
    noted: NotedAttempts | None = None
    """The last attempt number of each pipelined region; ``None``: all regions had ``first_attempt - 1``."""
    next_id: CheckpointId | None = None
    """The next checkpoint id of the earlier JobManager, if it was stored: savepoints, which recovery does not find, may have used higher ids."""
    history: JobHistory | None = None
    """The job's history under earlier JobManagers; for display only."""
    shape: Shape | None = None
    """The parallelism of each vertex, where it differs from the submitted graph."""
    requests: tuple[ClientRequest, ...] = ()
    """Requests of clients that the earlier JobManager had accepted and not finished."""


@dataclass(frozen=True, slots=True)
class JobCancelRequested:
    """A client requested the cancellation of a job."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A user requests a checkpoint or savepoint. ``request_id`` is repeated in ``ReportSnapshot``."""

    job_id: JobId
    request_id: str
    snapshot_type: SnapshotType
    target_directory: str | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """A user sets the bounds within which each vertex runs from now on. The service has checked that they are possible."""

    job_id: JobId
    bounds: Mapping[VertexId, ParallelismBounds]


ClientRequest = JobCancelRequested | SnapshotRequested | RescaleRequested
"""A request of a client about a running job; if this JobManager is lost, the next one carries it out."""

# ---- TaskManagers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportedSlot:
    """A slot as its TaskManager reports it when it registers."""

    index: int
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True)
class TaskManagerRegistered:
    """A TaskManager has registered. Idempotent for the same ``session``; with another one the old TaskManager is declared lost first."""

    task_manager_id: TaskManagerId
    session: str
    address: str
    host: str
    slots: tuple[ReportedSlot, ...]
    pid: int = 0
    memory_bytes: int = 0
    attempts: tuple[AttemptReport, ...] = ()
    """Attempts that run there, or that ended there while their end may not be known here."""


@dataclass(frozen=True, slots=True)
class TaskManagerHeartbeat:
    """A TaskManager sent a heartbeat."""

    task_manager_id: TaskManagerId
    session: str
    slots: tuple[ReportedSlot, ...]
    attempts: tuple[AttemptId, ...]
    leaving: tuple[AttemptId, ...] = ()
    """Attempts that must move to another place because the process that runs them is about to be taken away."""


@dataclass(frozen=True, slots=True)
class TaskManagerConnectionLost:
    """The heartbeat stream of a TaskManager broke. (Silence is noticed by a timer of the machine.)

    ``is_gone``: its process is known to have ended or to be ending, so that it will not reconnect.
    """

    task_manager_id: TaskManagerId
    session: str
    reason: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class TaskManagerStoodStill:
    """A TaskManager's connection broke and its port accepts connections but does not answer: its process is suspended (SIGSTOP, a debugger)."""

    task_manager_id: TaskManagerId
    session: str


@dataclass(frozen=True, slots=True)
class WorkersFound:
    """TaskManagers that an earlier JobManager of this cluster started are still running."""

    worker_ids: tuple[TaskManagerId, ...]


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A TaskManager that the JobManager started or wanted to start is not running. ``detail``: the reason, for humans."""

    worker_id: TaskManagerId
    detail: str


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A command with a ``call_id`` was answered by its TaskManager (``error`` is ``None``: success) or failed for good.

    ``error`` is ``Unreachable`` after the service's own retries. ``attempts``: errors of single attempts.
    """

    call_id: int
    error: ErrorInfo | None = None
    attempts: Mapping[AttemptId, ErrorInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """A TaskManager freed a slot."""

    task_manager_id: TaskManagerId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    """A TaskManager reported a new state of an attempt."""

    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None
    data_address: str | None = None
    """The address at which consumers connect; set once, not later than with RUNNING."""


@dataclass(frozen=True, slots=True)
class EndOfDataReached:
    """A subtask processed all of its input."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class SubtaskAcknowledged:
    """A subtask acknowledged a checkpoint. ``held_ms``: how long its TaskManager delayed the message to batch it with others."""

    attempt: AttemptId
    checkpoint_id: CheckpointId
    snapshot: SubtaskSnapshot
    metrics: CheckpointMetrics
    held_ms: int = 0


@dataclass(frozen=True, slots=True)
class SubtaskDeclined:
    """A subtask declined a checkpoint."""

    attempt: AttemptId
    checkpoint_id: CheckpointId
    reason: DeclineReason
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class OperatorEventReceived:
    """An operator of a subtask sent an event to its coordinator."""

    attempt: AttemptId
    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class WatermarkReported:
    """A source subtask of a watermark alignment group reports its watermark; answered by ``AnnounceWatermark`` with the same ``report_id``."""

    attempt: AttemptId
    group: str
    watermark_ms: int
    interval_ms: int
    """The interval at which the subtask reports."""
    report_id: int = 0


# ---- storage and time ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocationCreated:
    """The directory of a checkpoint was created (``error`` is ``None``), or could not be.

    ``shared_location``: the directory of files that several checkpoints may use; empty when there is none (savepoints, storage in
    the JobManager's memory).
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    error: ErrorInfo | None = None
    shared_location: str = ""


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """``_metadata`` is durable: from now on the checkpoint is complete.

    ``holds_inline_state``: small state that travelled in acknowledgements can be read back from there, so that it need not
    stay in memory.
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    size_bytes: int
    holds_inline_state: bool = False


@dataclass(frozen=True, slots=True)
class ManifestWriteFailed:
    """Writing ``_metadata`` failed. ``outcome_unknown``: it may have been written; nothing is deleted or confirmed until a read has settled it.

    The service answers ``ReadBackManifest`` with ``ManifestWritten`` or with this event and a known outcome.
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointDiscarded:
    """The files of a checkpoint were deleted, or could not be (``error``), which is only logged."""

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class SharedFilesDiscarded:
    """The shared files were deleted, or could not be (``error``), which is only logged."""

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class CheckpointsInspected:
    """The checkpoints and savepoints were inspected. ``whole``: locations with a readable ``_metadata`` and all files of the right size."""

    job_id: JobId
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeWritten:
    """The job's parallelism was stored (``error`` is ``None``) for this JobManager and later ones. With an error it may or may not have been."""

    job_id: JobId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that a machine had set fired."""

    timer: str


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """The first event of a JobManager process."""

    generation: Generation
    seed: int
    """The seed of all random numbers of the machines, such as jitter and random initial delays."""


Event = (
    GenerationStarted
    | JobSubmitted
    | JobRecovered
    | JobCancelRequested
    | SnapshotRequested
    | RescaleRequested
    | TaskManagerRegistered
    | TaskManagerHeartbeat
    | TaskManagerConnectionLost
    | TaskManagerStoodStill
    | WorkersFound
    | WorkerEnded
    | CallAnswered
    | SlotFreed
    | TaskStateChanged
    | EndOfDataReached
    | SubtaskAcknowledged
    | SubtaskDeclined
    | OperatorEventReceived
    | WatermarkReported
    | LocationCreated
    | ManifestWritten
    | ManifestWriteFailed
    | CheckpointDiscarded
    | SharedFilesDiscarded
    | CheckpointsInspected
    | ShapeWritten
    | TimerFired
)
