"""What the JobManager's machines show: frozen values for clients, REST and logs. Times are Unix epoch milliseconds."""

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
    """``start_ms`` is when it was deployed; ``None``: not yet. ``end_ms``: when it became terminal."""

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
    """Where it serves its outputs or, for a collecting sink, its results; empty: nowhere (yet)."""


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """``earlier``: attempts that are over, oldest first."""

    index: int
    current: AttemptView
    earlier: tuple[AttemptView, ...]


@dataclass(frozen=True, slots=True)
class VertexSummary:
    """``tasks``: how many current attempts are in each state; states without any are absent."""

    vertex_id: VertexId
    name: str
    parallelism: int
    tasks: Mapping[ExecutionState, int]


@dataclass(frozen=True, slots=True)
class VertexView:
    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskView, ...]
    tasks: Mapping[ExecutionState, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failure that the job has lived through or died of. ``attempt`` is ``None`` when no task was its place."""

    at_ms: int
    error: ErrorInfo
    attempt: AttemptId | None


@dataclass(frozen=True, slots=True)
class SubtaskCheckpointView:
    """``aborted``: it acknowledged when the checkpoint had failed, which counts for nothing and tells how long it took."""

    attempt: AttemptId
    ack_ms: int
    metrics: CheckpointMetrics
    size_bytes: int
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointTotals:
    """Over the subtasks that acknowledged. ``last_ack_ms``: of those that did in time; -1 when there are none."""

    last_ack_ms: int = -1
    bytes_persisted: int = 0
    bytes_processed_during_alignment: int = 0
    in_flight_bytes: int = 0
    is_unaligned: bool = False


NOTHING_ACKNOWLEDGED = CheckpointTotals()


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """``status``: IN_PROGRESS, COMPLETED or FAILED. ``end_ms``: when ``_metadata`` was durable, or it failed.
    ``sent_ms``: when its sources were triggered, after the directory was made; ``sealed_ms``: when all subtasks had
    acknowledged; ``confirmed_ms``: when tasks were notified that it is complete (plain savepoints: never). ``None``:
    not (yet)."""

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
    """The size of ``_metadata``, once it is written; unknown of checkpoints of earlier JobManagers."""

    @property
    def completed_ms(self) -> int | None:
        """When it was complete; ``None``: it is not (yet)."""
        return self.end_ms if self.status == "COMPLETED" else None


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """Figures over all completed checkpoints, also those that have left the history. Bytes and milliseconds."""

    checkpointed_size: StatsSummary = NO_SAMPLES
    state_size: StatsSummary = NO_SAMPLES
    end_to_end_duration: StatsSummary = NO_SAMPLES
    processed_data: StatsSummary = NO_SAMPLES
    persisted_data: StatsSummary = NO_SAMPLES


@dataclass(frozen=True, slots=True)
class CheckpointsView:
    """``history``: newest first, ``web.checkpoints.history`` of them."""

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
    """When the state of ``last_restored`` was given to the tasks."""
    summary: CheckpointSummary = field(default_factory=CheckpointSummary)
    beyond: tuple[CheckpointView, ...] = ()
    """The slowest and the last failed ones of those that have left the history, newest first."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A ``JobView`` without single subtasks: what it costs does not depend on their number."""

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
    """``failure``: the last one, ``None`` before the first. ``waiting_for``: such as ``2 of 4 slots``.
    ``starting_since_ms``: since when a TaskManager is on its way that it waits for; ``None``: since none is."""

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
    """Within which each vertex is to run."""
    rescales: int = 0
    """How often it took another shape under this JobManager."""
    rescale_history: Rescales | None = None
    """``None``: it is not kept."""


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """The attempt of a subtask that counted last, and when it entered its states."""

    attempt: AttemptId
    timestamps_ms: Mapping[ExecutionState, int]


@dataclass(frozen=True, slots=True)
class LastFigures:
    """What was measured of an attempt that is over. ``metrics``: a ``TaskMetrics`` as bytes."""

    attempt: AttemptId
    at_ms: int
    metrics: bytes


@dataclass(frozen=True, slots=True)
class JobPast:
    """What a job has lived through under this JobManager and earlier ones, for those who look at it. ``checkpoints`` have no single subtasks."""

    start_ms: int
    restarts: int
    failures: tuple[FailureView, ...]
    checkpoints: CheckpointsView
    attempts: tuple[PastAttempt, ...] = ()
    figures: tuple[LastFigures, ...] = ()
    late_records: Mapping[str, int] = field(default_factory=dict)
    """Those that earlier attempts dropped, by operator."""


@dataclass(frozen=True, slots=True)
class SlotView:
    index: int
    state: str
    allocation_id: AllocationId | None
    job_id: JobId | None


@dataclass(frozen=True, slots=True)
class TaskManagerView:
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
    """A TaskManager that this JobManager started, or is about to. ``state``: STARTING, RECOVERED, REGISTERED or STOPPING, ``since_ms``.
    ``reason``: why it was started."""

    worker_id: TaskManagerId
    state: str
    since_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    generation: Generation
    start_ms: int
    task_managers: tuple[TaskManagerView, ...]
    slots_total: int
    slots_free: int
    workers: tuple[WorkerView, ...] = ()
