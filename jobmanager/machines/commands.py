"""Everything that the JobManager's machines can order. Imperative, frozen; the service carries them out.

Commands with a ``call_id`` go to one TaskManager through its ordered outbox (submit < trigger n < abort or confirm n)
and are answered by ``CallAnswered(call_id)``. Confirm is repeated by the service until the TaskManager answers or is
lost; the others are tried ``3`` times. Commands for storage run in a pool and are answered by their own events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.model.checkpoint import CheckpointManifest, CheckpointOptions, SnapshotType
from tidegate.model.coordinators.operator_events import OperatorEvent
from tidegate.model.deployment import ProducerAddress, TaskDeployment
from tidegate.model.errors import ErrorInfo
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, JobId, TaskManagerId
from tidegate.model.rescaling.shape import Shape


@dataclass(frozen=True, slots=True)
class AllocateSlot:
    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    allocation_id: AllocationId
    slot_index: int


@dataclass(frozen=True, slots=True)
class FreeSlot:
    call_id: int
    task_manager_id: TaskManagerId
    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """``region``: the index of the region that restarts with this number; ``None``: all do, since the job begins with it."""

    call_id: int
    task_manager_id: TaskManagerId
    deployment: TaskDeployment
    region: int | None


@dataclass(frozen=True, slots=True)
class ConnectTask:
    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId
    producers: tuple[ProducerAddress, ...]


@dataclass(frozen=True, slots=True)
class CancelTask:
    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """To the source subtasks of one TaskManager."""

    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    attempts: tuple[AttemptId, ...]
    checkpoint_id: CheckpointId
    timestamp_ms: int
    options: CheckpointOptions
    advance_to_end_of_event_time: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmCheckpoint:
    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    attempts: tuple[AttemptId, ...]
    checkpoint_id: CheckpointId
    timestamp_ms: int
    may_finish: tuple[AttemptId, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    attempts: tuple[AttemptId, ...]
    checkpoint_id: CheckpointId
    latest_completed_id: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class SendOperatorEvent:
    """From a coordinator to its operator in one attempt, before every trigger that is ordered later."""

    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId
    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class CloseTaskManager:
    """Forget its connection: it was declared lost, or replaced."""

    task_manager_id: TaskManagerId
    session: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a TaskManager that registers under this id; answered by its registration, or by ``WorkerEnded``."""

    worker_id: TaskManagerId
    slots: int


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End a TaskManager that was started; answered by ``WorkerEnded``. Again: the same."""

    worker_id: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True)
class CreateLocation:
    """Make the directory of a checkpoint or savepoint; answered by ``LocationCreated`` with the final location."""

    job_id: JobId
    checkpoint_id: CheckpointId
    snapshot_type: SnapshotType
    target_directory: str | None = None


@dataclass(frozen=True, slots=True)
class WriteManifest:
    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    manifest: CheckpointManifest


@dataclass(frozen=True, slots=True)
class ReadBackManifest:
    """Settle a write whose outcome is unknown."""

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Remove a checkpoint's directory (``_metadata`` first), completed or not. With ``shared_location`` it was aborted:
    the files that it wrote there go too, even those that no acknowledgement named."""

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    shared_location: str = ""


@dataclass(frozen=True, slots=True)
class DiscardSharedFiles:
    """Remove files below ``shared/`` that no checkpoint uses, or files in the directory of a checkpoint that it does
    not use, after every earlier command of that checkpoint; answered by ``SharedFilesDiscarded``."""

    job_id: JobId
    checkpoint_id: CheckpointId
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InspectCheckpoints:
    """Look which of these checkpoints and savepoints of a job could be restored, after every earlier command of the checkpoint that could not;
    answered by ``CheckpointsInspected``."""

    job_id: JobId
    checkpoint_id: CheckpointId
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteShape:
    """Note the shape in which the job runs from now on, under this JobManager and later ones; answered by ``ShapeWritten``. Again: the same."""

    job_id: JobId
    shape: Shape


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Fire ``TimerFired(timer)`` once after ``delay_ms``; an armed timer of that name is replaced."""

    timer: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    timer: str


@dataclass(frozen=True, slots=True)
class ReportSnapshot:
    """The end of a ``SnapshotRequested``: ``path``, or an error."""

    request_id: str
    checkpoint_id: CheckpointId | None
    path: str = ""
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The job's view (``Dispatcher.job(job_id)``) has changed: notify its watchers."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class AnnounceWatermark:
    """The answer to ``WatermarkReported``: the lowest watermark of the group; the end of time when it holds nobody back."""

    report_id: int
    lowest_ms: int


@dataclass(frozen=True, slots=True)
class JobTerminated:
    """Globally terminal: blobs may go. Last command of a job."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class Log:
    """One line for the log, with its ids; machines do not log by themselves."""

    level: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)


Command = (
    AllocateSlot
    | FreeSlot
    | SubmitTask
    | ConnectTask
    | CancelTask
    | TriggerCheckpoint
    | ConfirmCheckpoint
    | AbortCheckpoint
    | SendOperatorEvent
    | CloseTaskManager
    | StartWorker
    | StopWorker
    | CreateLocation
    | WriteManifest
    | ReadBackManifest
    | DiscardCheckpoint
    | DiscardSharedFiles
    | InspectCheckpoints
    | WriteShape
    | StartTimer
    | CancelTimer
    | ReportSnapshot
    | AnnounceWatermark
    | JobChanged
    | JobTerminated
    | Log
)
