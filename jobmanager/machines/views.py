"""Views of the JobManager's state: frozen values for clients, REST and logs. Times are Unix epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.model.checkpoint import CheckpointMetrics, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, JobId, TaskManagerId, VertexId
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.rescaling.history import Rescales
from tidegate.model.states import ExecutionState, JobState
from tidegate.model.stats_summary import NO_SAMPLES, StatsSummary


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An execution attempt. ``start_ms``: when it was deployed; ``None``: not yet. ``end_ms``: when it became terminal."""

    attempt: AttemptId
    state: ExecutionState
    task_manager_id: TaskManagerId | None
    host: str
    start_ms: int | None
    end_ms: int | None
    state_timestamps_ms: Mapping[ExecutionState, int]
    failure: ErrorInfo | None
    at_end_of_data: bool
    allocation_id: AllocationId | None = None
    data_address: str = ""
    """The address at which it serves its outputs or, for a collecting sink, its results; empty when there is none (yet)."""


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """A subtask with its attempts. ``earlier``: attempts that are over, oldest first."""

    index: int
    current: AttemptView
    earlier: tuple[AttemptView, ...]


@dataclass(frozen=True, slots=True)
class VertexSummary:
    """A vertex without its subtasks. ``tasks``: the number of current attempts by state; states without any are absent."""

    vertex_id: VertexId
    name: str
    parallelism: int
    tasks: Mapping[ExecutionState, int]


@dataclass(frozen=True, slots=True)
class VertexView:
    """A vertex of a job, as clients see it."""

    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskView, ...]
    tasks: Mapping[ExecutionState, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failure that restarted or failed the job. ``attempt``: the task that failed; ``None`` when no single task did."""

    at_ms: int
    error: ErrorInfo
    attempt: AttemptId | None


@dataclass(frozen=True, slots=True)
class SubtaskCheckpointView:
    """A subtask's acknowledgement of a checkpoint. ``aborted``: it came after the checkpoint had failed; it is only shown."""

    attempt: AttemptId
    ack_ms: int
    metrics: CheckpointMetrics
    size_bytes: int
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointTotals:
    """Sums over the subtasks that acknowledged a checkpoint. ``last_ack_ms``: of those that did in time; -1 when there are none."""

    last_ack_ms: int = -1
    bytes_persisted: int = 0
    bytes_processed_during_alignment: int = 0
    in_flight_bytes: int = 0
    is_unaligned: bool = False


NOTHING_ACKNOWLEDGED = CheckpointTotals()


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A checkpoint or savepoint. ``status``: IN_PROGRESS, COMPLETED or FAILED.

    ``end_ms``: when ``_metadata`` was durable, or when it failed. ``sent_ms``: when its sources were triggered, after the directory
    was created. ``sealed_ms``: when all subtasks had acknowledged. ``confirmed_ms``: when tasks were notified that it is complete
    (savepoints without a stop: never). ``None``: not (yet).
    """

    checkpoint_id: CheckpointId
    status: str
    snapshot_type: SnapshotType
    is_periodic: bool
    trigger_ms: int
    expected: int
    end_ms: int | None = None
    size_bytes: int = 0
    location: str = ""
    failure: str = ""
    acknowledged: int = 0
    subtasks: tuple[SubtaskCheckpointView, ...] = ()
    totals: CheckpointTotals = NOTHING_ACKNOWLEDGED
    discarded: bool = False
    restored: bool = False
    sent_ms: int | None = None
    sealed_ms: int | None = None
    confirmed_ms: int | None = None
    metadata_bytes: int = 0
    """The size of ``_metadata``, once it is written; 0 when it is unknown."""

    @property
    def completed_ms(self) -> int | None:
        """Returns when the checkpoint was complete; ``None`` when it is not (yet)."""
        return self.end_ms if self.status == "COMPLETED" else None


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """Statistics over all completed checkpoints, including those that have left the history. Bytes and milliseconds."""

    checkpointed_size: StatsSummary = NO_SAMPLES
    state_size: StatsSummary = NO_SAMPLES
    end_to_end_duration: StatsSummary = NO_SAMPLES
    processed_data: StatsSummary = NO_SAMPLES
    persisted_data: StatsSummary = NO_SAMPLES


@dataclass(frozen=True, slots=True)
class CheckpointsView:
    """The checkpoints of a job. ``history``: the last ``web.checkpoints.history`` ones, newest first."""

    history: tuple[CheckpointView, ...]
    completed: int
    failed: int
    in_progress: int
    restored: int
    latest_completed_id: CheckpointId | None
    last_completed: CheckpointView | None
    last_failed: CheckpointView | None
    last_savepoint: CheckpointView | None
    last_restored: CheckpointView | None
    last_restored_ms: int | None = None
    """When the state of ``last_restored`` was handed to the tasks."""
    summary: CheckpointSummary = field(default_factory=CheckpointSummary)
    beyond: tuple[CheckpointView, ...] = ()
    """The slowest and the last failed checkpoints that have left the history, newest first."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A ``JobView`` without single subtasks; its cost does not depend on their number."""

    job_id: JobId
    name: str
    state: JobState
    start_ms: int
    end_ms: int | None
    state_timestamps_ms: Mapping[JobState, int]
    restarts: int
    failure: ErrorInfo | None
    waiting_for: str
    starting_since_ms: int | None
    vertices: tuple[VertexSummary, ...]
    checkpoints: CheckpointsView


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with all its subtasks. ``failure``: the last one; ``None`` before the first. ``waiting_for``: such as ``2 of 4 slots``.

    ``starting_since_ms``: since when a TaskManager that it waits for is starting; ``None`` when none is.
    """

    job_id: JobId
    name: str
    state: JobState
    start_ms: int
    end_ms: int | None
    state_timestamps_ms: Mapping[JobState, int]
    restarts: int
    failure: ErrorInfo | None
    failures: tuple[FailureView, ...]
    waiting_for: str
    starting_since_ms: int | None
    vertices: tuple[VertexView, ...]
    checkpoints: CheckpointsView
    graph: JobGraph
    configuration: Mapping[str, str]
    bounds: Mapping[VertexId, ParallelismBounds] = field(default_factory=dict)
    """The bounds within which each vertex is to run."""
    rescales: int = 0
    """How often the job was rescaled under this JobManager."""
    rescale_history: Rescales | None = None
    """The rescale history; ``None`` when it is not kept."""


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """The last attempt of a subtask under an earlier JobManager, with the time at which it entered each state."""

    attempt: AttemptId
    timestamps_ms: Mapping[ExecutionState, int]


@dataclass(frozen=True, slots=True)
class LastMetrics:
    """The last metrics of an attempt that is over. ``metrics``: a serialized ``TaskMetrics``."""

    attempt: AttemptId
    at_ms: int
    metrics: bytes


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The history of a job under this JobManager and earlier ones, for display. ``checkpoints`` contain no single subtasks."""

    start_ms: int
    restarts: int
    failures: tuple[FailureView, ...]
    checkpoints: CheckpointsView
    attempts: tuple[EarlierAttempt, ...] = ()
    figures: tuple[LastMetrics, ...] = ()
    late_records: Mapping[str, int] = field(default_factory=dict)
    """Late records that earlier attempts dropped, by operator."""


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot, as clients see it."""

    index: int
    state: str
    allocation_id: AllocationId | None
    job_id: JobId | None


@dataclass(frozen=True, slots=True)
class TaskManagerView:
    """A TaskManager, as clients see it."""

    task_manager_id: TaskManagerId
    session: str
    address: str
    host: str
    pid: int
    memory_bytes: int
    slots: tuple[SlotView, ...]
    registered_ms: int
    last_heartbeat_ms: int


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A TaskManager that this JobManager started or is about to start. ``state``: STARTING, RECOVERED, REGISTERED or STOPPING, since ``since_ms``.

    ``reason``: why it was started.
    """

    worker_id: TaskManagerId
    state: str
    since_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster, as clients see it."""

    generation: Generation
    start_ms: int
    task_managers: tuple[TaskManagerView, ...]
    slots_total: int
    slots_free: int
    workers: tuple[WorkerView, ...] = ()
