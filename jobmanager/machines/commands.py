"""Commands that the JobManager's machines can order; the service carries them out. Each is a frozen dataclass, named in the imperative.

Commands with a ``call_id`` go to one TaskManager through its ordered outbox (submit < trigger n < abort or confirm n)
and are answered by ``CallAnswered(call_id)``. The service repeats a confirm until the TaskManager answers or is lost, and
tries the others ``3`` times. Commands for storage run in a pool and are answered by their own events.
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
    """Reserves a slot of a TaskManager for a job."""

    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    allocation_id: AllocationId
    slot_index: int


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Gives a slot back to its TaskManager."""

    call_id: int
    task_manager_id: TaskManagerId
    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """Deploys an attempt to a TaskManager. ``region``: the index of the one pipelined region that starts with this attempt number; ``None``: all regions
    start with it.
    """

    call_id: int
    task_manager_id: TaskManagerId
    deployment: TaskDeployment
    region: int | None


@dataclass(frozen=True, slots=True)
class ConnectTask:
    """Sends a deployed task the addresses of its producers."""

    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId
    producers: tuple[ProducerAddress, ...]


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Cancels an attempt on its TaskManager."""

    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Triggers a checkpoint at the job's source subtasks on one TaskManager."""

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
    """Notifies the subtasks of a TaskManager that a checkpoint is completed."""

    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    attempts: tuple[AttemptId, ...]
    checkpoint_id: CheckpointId
    timestamp_ms: int
    may_finish: tuple[AttemptId, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Notifies the subtasks of a TaskManager that a checkpoint was aborted."""

    call_id: int
    task_manager_id: TaskManagerId
    job_id: JobId
    attempts: tuple[AttemptId, ...]
    checkpoint_id: CheckpointId
    latest_completed_id: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class SendOperatorEvent:
    """Sends an event from an operator coordinator to its operator in one execution attempt; it arrives before the checkpoint triggers that are sent later."""

    call_id: int
    task_manager_id: TaskManagerId
    attempt: AttemptId
    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class CloseTaskManager:
    """Drops the connection of a TaskManager that was declared lost or replaced, or that is not registered."""

    task_manager_id: TaskManagerId
    session: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Starts a TaskManager that registers under this id; answered by its registration, or by ``WorkerEnded``."""

    worker_id: TaskManagerId
    slots: int


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Stops a TaskManager that the JobManager started; answered by ``WorkerEnded``. Idempotent."""

    worker_id: TaskManagerId
    reason: str


@dataclass(frozen=True, slots=True)
class CreateLocation:
    """Creates the directory of a checkpoint or savepoint; answered by ``LocationCreated`` with the final location."""

    job_id: JobId
    checkpoint_id: CheckpointId
    snapshot_type: SnapshotType
    target_directory: str | None = None


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Writes ``_metadata`` of a checkpoint."""

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    manifest: CheckpointManifest


@dataclass(frozen=True, slots=True)
class ReadBackManifest:
    """Reads ``_metadata`` back to settle a write whose outcome is unknown; answered like ``WriteManifest``."""

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Deletes the directory of a completed or aborted checkpoint, ``_metadata`` first.

    ``shared_location``: set for an aborted checkpoint; all files that it wrote there are deleted too, even those that no
    acknowledgement named.
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    location: str
    shared_location: str = ""


@dataclass(frozen=True, slots=True)
class DiscardSharedFiles:
    """Deletes state files of a job: files below ``shared/`` that no checkpoint uses, or unused files in the directory of the checkpoint ``checkpoint_id``.

    Carried out after every earlier command for this checkpoint; answered by ``SharedFilesDiscarded``.
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InspectCheckpoints:
    """Checks which of these checkpoints and savepoints of a job can be restored; answered by ``CheckpointsInspected``.

    ``checkpoint_id``: the checkpoint that could not be restored; the command is carried out after every earlier one of it.
    """

    job_id: JobId
    checkpoint_id: CheckpointId
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteShape:
    """Stores the job's parallelism durably, for this JobManager and later ones; answered by ``ShapeWritten``. Idempotent."""

    job_id: JobId
    shape: Shape


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Starts a timer that fires ``TimerFired(timer)`` once after ``delay_ms``; replaces an armed timer of the same name."""

    timer: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancels a timer."""

    timer: str


@dataclass(frozen=True, slots=True)
class ReportSnapshot:
    """Reports the outcome of a ``SnapshotRequested`` to the client that requested it: ``path``, or ``error``."""

    request_id: str
    checkpoint_id: CheckpointId | None
    path: str = ""
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Notifies the job's watchers that its view (``Dispatcher.job(job_id)``) has changed."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class AnnounceWatermark:
    """Answers ``WatermarkReported`` with the lowest watermark of the alignment group; the maximum when the group holds no source back."""

    report_id: int
    lowest_ms: int


@dataclass(frozen=True, slots=True)
class JobTerminated:
    """Reports that a job is globally terminal, so that its blobs can be deleted. The last command of a job."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class Log:
    """Writes one line to the log, with ``fields`` such as job and attempt ids; machines do not log by themselves."""

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
