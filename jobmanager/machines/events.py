"""Every event that the JobManager's machines handle. Past tense, frozen, complete: a machine never asks back.

All of them enter through ``Dispatcher.on(event, now_ms)``, one at a time. Events that answer a command carry the
ids that the command was given and are accepted in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.jobmanager.machines.views import JobPast
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
    """A checkpoint or savepoint that the service has read for ``run -s``. ``location``: its directory.
    ``CLAIM``: the job owns it from now on and deletes it once it is subsumed; ``NO_CLAIM``: never deleted, and nothing refers
    to it once the first checkpoint is complete; ``LEGACY``: never deleted, later checkpoints may refer to it."""

    location: str
    manifest: CheckpointManifest
    allow_non_restored_state: bool = False
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """``configuration`` is the effective one: the cluster's below the job's. Already validated by the service."""

    graph: JobGraph
    configuration: Mapping[str, str] = field(default_factory=dict)
    restore: RestoreFrom | None = None


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A directory ``chk-<n>`` of a job, or the savepoint that it was being stopped with. ``manifest`` is ``None`` without a
    whole ``_metadata``: then ``damage`` says why it cannot be read, or is ``None`` when there is none or only its beginning
    (the write was torn: it was never completed)."""

    checkpoint_id: CheckpointId
    location: str
    manifest: CheckpointManifest | None = None
    damage: ErrorInfo | None = None
    shared_location: str = ""
    """Where it may have written shared files, when it is incomplete."""


@dataclass(frozen=True, slots=True)
class JobRecovered:
    """The JobManager that ran the job is gone; this one goes on with it from what the storage holds. ``submitted``: as in the
    first life, ``restore`` as long as that can be read. ``first_attempt`` is above every attempt that ever ran: names of
    files and transactions hold the attempt."""

    submitted: JobSubmitted
    checkpoints: tuple[FoundCheckpoint, ...] = ()
    first_attempt: int = 0
    noted: NotedAttempts | None = None
    """The last attempts of the regions; ``None``: they all had the one before ``first_attempt``."""
    next_id: CheckpointId | None = None
    """The id counter of the earlier life, if that was kept: savepoints, which are not found, may have used higher ids."""
    past: JobPast | None = None
    """What is shown of the earlier life. Nothing is decided by it."""
    shape: Shape | None = None
    """The numbers of subtasks that it has instead of those of its submission."""
    asked: tuple[Asked, ...] = ()
    """What clients had asked for in the earlier life, and was not finished."""


@dataclass(frozen=True, slots=True)
class JobCancelRequested:
    job_id: JobId


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A user asks for a checkpoint or savepoint. ``request_id`` comes back in ``ReportSnapshot``."""

    job_id: JobId
    request_id: str
    snapshot_type: SnapshotType
    target_directory: str | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """A user wants each vertex to run within these bounds, from now on. They were found to be possible."""

    job_id: JobId
    bounds: Mapping[VertexId, ParallelismBounds]


Asked = JobCancelRequested | SnapshotRequested | RescaleRequested
"""What a client wants of a job, and the next JobManager does if this one is lost."""

# ---- TaskManagers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportedSlot:
    index: int
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True)
class TaskManagerRegistered:
    """Again with the same session: idempotent. With another session: the old one is lost first."""

    task_manager_id: TaskManagerId
    session: str
    address: str
    host: str
    slots: tuple[ReportedSlot, ...]
    pid: int = 0
    memory_bytes: int = 0
    attempts: tuple[AttemptReport, ...] = ()
    """That run there, or ended there and may not be known here."""


@dataclass(frozen=True, slots=True)
class TaskManagerHeartbeat:
    task_manager_id: TaskManagerId
    session: str
    slots: tuple[ReportedSlot, ...]
    attempts: tuple[AttemptId, ...]
    leaving: tuple[AttemptId, ...] = ()
    """Those whose process must go elsewhere: what runs it is going to be taken away."""


@dataclass(frozen=True, slots=True)
class TaskManagerConnectionLost:
    """Its heartbeat stream broke. (A silent one is noticed by the machine's own timer.) ``is_gone``: its process is known to be over, or to
    end, so that it does not come back."""

    task_manager_id: TaskManagerId
    session: str
    reason: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class TaskManagerStoodStill:
    """Its connection is broken, its port takes connections, and nothing is said on them: its process is stopped (SIGSTOP, a debugger)."""

    task_manager_id: TaskManagerId
    session: str


@dataclass(frozen=True, slots=True)
class WorkersFound:
    """TaskManagers that an earlier JobManager of this cluster had started, and that run."""

    worker_ids: tuple[TaskManagerId, ...]


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A TaskManager that was started, or was to be, does not run. ``detail``: what is known of why, for people."""

    worker_id: TaskManagerId
    detail: str


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A command with a ``call_id`` reached its TaskManager and was answered (``error`` is ``None``: success), or failed
    for good (``Unreachable`` after the service's own retries). ``attempts``: errors of single attempts."""

    call_id: int
    error: ErrorInfo | None = None
    attempts: Mapping[AttemptId, ErrorInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotFreed:
    task_manager_id: TaskManagerId
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    attempt: AttemptId
    state: ExecutionState
    error: ErrorInfo | None = None
    data_address: str | None = None
    """Where consumers connect; set once, not later than with RUNNING."""


@dataclass(frozen=True, slots=True)
class EndOfDataReached:
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class SubtaskAcknowledged:
    """``held_ms``: for so long its TaskManager kept it, to send it with others."""

    attempt: AttemptId
    checkpoint_id: CheckpointId
    snapshot: SubtaskSnapshot
    metrics: CheckpointMetrics
    held_ms: int = 0


@dataclass(frozen=True, slots=True)
class SubtaskDeclined:
    attempt: AttemptId
    checkpoint_id: CheckpointId
    reason: DeclineReason
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class OperatorEventReceived:
    """An operator of a subtask says something to its coordinator."""

    attempt: AttemptId
    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class WatermarkReported:
    """A subtask of a source is in a group of sources that keep together. Answered by ``AnnounceWatermark`` with this id."""

    attempt: AttemptId
    group: str
    watermark_ms: int
    interval_ms: int
    """How often the subtask reports."""
    report_id: int = 0


# ---- storage and time ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocationCreated:
    """The directory of a checkpoint is there (``error`` is ``None``), or could not be made. ``shared_location``: that of
    files which several checkpoints may use; empty: there is none (savepoints, the JobManager's memory)."""

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    error: ErrorInfo | None = None
    shared_location: str = ""


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """``_metadata`` is durable: the point of no return. ``holds_inline_state``: the service gets state that travelled inline
    from there when a task is restored, so that it need not stay in memory."""

    job_id: JobId
    checkpoint_id: CheckpointId
    size_bytes: int
    holds_inline_state: bool = False


@dataclass(frozen=True, slots=True)
class ManifestWriteFailed:
    """``outcome_unknown``: it may be there all the same; nothing is deleted or confirmed until a read settles it
    (the service answers ``ReadBackManifest`` with ``ManifestWritten`` or with this event, outcome known)."""

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointDiscarded:
    """Its files are gone (or could not be removed, which is only logged)."""

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class SharedFilesDiscarded:
    """They are gone (or could not be removed, which is only logged)."""

    job_id: JobId
    checkpoint_id: CheckpointId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class CheckpointsInspected:
    """Those of the checkpoints and savepoints that were asked for that have a readable ``_metadata``, and every file in its size."""

    job_id: JobId
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeWritten:
    """The job store holds the shape (``error`` is ``None``): this JobManager and later ones run the job in it. Otherwise it may hold it or not."""

    job_id: JobId
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: str


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """First event of a process's life."""

    generation: Generation
    seed: int
    """For jitter and random initial delays: all randomness of the machines comes from here."""


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
