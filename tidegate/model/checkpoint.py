"""Checkpoints as plain values shared by both processes: options, state handles, snapshots, metrics, and the manifest (``_metadata``).

    CheckpointManifest
    └── OperatorState, one for each operator that has state           (matched by operator id at restore)
        └── SubtaskState of subtask i
            ├── keyed     SegmentHandle ...   Arrow IPC file sorted by key group, with an index of offsets
            ├── operator  OperatorStateHandle ...  list, union or broadcast elements by state name
            └── in, out   ChannelStateHandle ...  in-flight batches of its channels (unaligned checkpoints)

A handle's bytes are in a file below the checkpoint's directory (``path``), in a file below the job's ``shared/`` folder
that several incremental checkpoints may name (``path``, ``is_shared``), or travel inline (``data``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tidegate.model.coordinators.operator_events import CoordinatorState
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AttemptId, CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import KeyGroupRange

MANIFEST_VERSION = 2
"""The version of the manifest. 2: levels of keyed segments, shared files, in-flight data. Version 1, which has none of them, can be read too."""
COORDINATED_VERSION = 3
"""The version of manifests with the state of coordinators. A checkpoint without any has version 2, so that earlier versions can read it."""
READABLE_MANIFEST_VERSIONS = frozenset({1, 2, 3})


class SnapshotType(Enum):
    """The purpose of a snapshot (Flink: ``SnapshotType``)."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SUSPEND = "SUSPEND"
    """The synchronous savepoint of ``stop``."""
    TERMINATE = "TERMINATE"
    """The synchronous savepoint of ``stop --drain``: event time is advanced to its end first."""

    @property
    def is_savepoint(self) -> bool:
        """Returns whether it is a savepoint, which a user requested and owns."""
        return self is not SnapshotType.CHECKPOINT

    @property
    def is_synchronous(self) -> bool:
        """Returns whether the job stops with it."""
        return self in (SnapshotType.SUSPEND, SnapshotType.TERMINATE)


class Alignment(Enum):
    """How the barriers of a checkpoint are handled at subtasks with several channels. FORCED_ALIGNED: aligned although unaligned is configured."""

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The options of a checkpoint, sent with the trigger and in every barrier."""

    location: str
    """Directory (URI or path) below which subtasks write exclusive files: ``.../chk-<n>``."""
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int | None = None
    """The time after which an aligned checkpoint becomes unaligned; ``None``: never."""
    is_full: bool = False
    """Whether no state of an earlier checkpoint may be referenced."""
    shared_location: str = ""
    """The directory of shared files, ``<checkpoint dir>/<job id>/shared``; empty: all files belong to this checkpoint alone (no incremental
    checkpoints, a savepoint, or the JobManager's memory)."""
    oldest_base_id: int = 0
    """The oldest confirmed checkpoint whose shared files a snapshot may reference: they are kept until this checkpoint is decided. Files of older ones
    may be deleted."""


class StateRedistribution(Enum):
    """How operator state is redistributed at a restore (Flink: ``OperatorStateHandle.Mode``)."""

    SPLIT = "SPLIT"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


@dataclass(frozen=True, slots=True)
class StateHandle:
    """The location of state: ``path`` relative to the checkpoint's directory, or inline ``data`` (then ``path`` is empty). In the JobManager a handle
    may have neither: its content is inline in ``_metadata`` (``tidegate/model/handles/inline_state.py``). ``checksum`` is xxh3-64 of the bytes, 16
    hex digits; readers verify it first.

    With ``is_shared``, ``path`` is the whole URI of a file below ``<checkpoint dir>/<job id>/shared/``: it belongs to no
    single checkpoint, and is deleted when no retained or pending one names it."""

    size_bytes: int
    checksum: str
    path: str = ""
    data: bytes | None = None
    is_shared: bool = False
    block_checksums: bytes = b""
    """xxh3-64 of each 128 KiB of a file that has more, 8 bytes each (big-endian), so that parts of it can be verified
    (``tidegate/store/verified_file.py``). Empty for others, and in handles of older versions."""


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """Keyed state of one state name, of one range of key groups: an Arrow IPC file whose rows are sorted by the
    column ``key_group``; ``offsets[i]`` is the first row of group ``key_groups.start + i`` and the last entry is the end
    of the last one, so ``len(offsets) == key_groups.size + 1``. Rows outside of the offsets are of key groups that a
    newer segment holds, and are never read.

    Level 0 is the whole content of its key groups. A segment of level n > 0 holds what changed since level n - 1: its
    rows replace those with the same key and namespace below, and a row that is true in the boolean column ``deleted``
    removes them. The levels of a key group are the segments of that state name that cover it, each level at most once."""

    state_name: str
    key_groups: KeyGroupRange
    offsets: tuple[int, ...]
    handle: StateHandle
    level: int = 0
    first_ms: int | None = None
    """A lower bound of the start of all windows of columns in this level and those below; ``None``: unknown, as for all other state."""


@dataclass(frozen=True, slots=True)
class OperatorStateHandle:
    """The elements of one operator state (not keyed): an Arrow IPC file with one element a row."""

    state_name: str
    redistribution: StateRedistribution
    elements: int
    handle: StateHandle


@dataclass(frozen=True, slots=True)
class ChannelStateHandle:
    """The in-flight data of one channel in an unaligned checkpoint, oldest first: an Arrow IPC stream of its batches. ``edge_id`` and the subtask
    indices are those of the job that wrote it; ``input_index``: the input of the consumer that the edge feeds."""

    edge_id: int
    producer: int
    consumer: int
    batches: int
    handle: StateHandle
    input_index: int = 0


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """The state of one operator of one subtask in a checkpoint. In-flight data belongs to the head of a chain (``input_channels``) and to its tail
    (``output_channels``), as in Flink."""

    keyed: tuple[SegmentHandle, ...] = ()
    operator: tuple[OperatorStateHandle, ...] = ()
    input_channels: tuple[ChannelStateHandle, ...] = ()
    output_channels: tuple[ChannelStateHandle, ...] = ()

    @property
    def handles(self) -> Iterator[StateHandle]:
        """Yields all handles in it."""
        for part in (self.keyed, self.operator, self.input_channels, self.output_channels):
            for named in part:
                yield named.handle

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of all state, shared files included (Flink: full size). A shared file counts once, however many segments are parts of it."""
        total = 0
        shared: dict[str, int] = {}
        for part in (self.keyed, self.operator, self.input_channels, self.output_channels):
            for named in part:
                if named.handle.is_shared:
                    shared[named.handle.path] = named.handle.size_bytes
                else:
                    total += named.handle.size_bytes
        return total + sum(shared.values())


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """The state of one subtask in its acknowledgement of a checkpoint, by operator. Operators without state have no entry."""

    operators: Mapping[OperatorId, OperatorSnapshot] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(o.size_bytes for o in self.operators.values())


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """Metrics of one subtask's part of a checkpoint (Flink: ``CheckpointMetrics.java``). All times are wall-clock durations."""

    start_delay_ms: float = 0.0
    """The time from the JobManager's trigger timestamp to the first barrier here (or to the trigger, for a source)."""
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    bytes_processed_during_alignment: int = 0
    bytes_persisted: int = 0
    barrier_timestamp_ms: int = 0
    """The wall clock (Unix epoch) when the snapshot began here."""
    unaligned: bool = False
    waited_for: str = ""
    """The channel whose barrier came last, such as ``Source: fast (2/2)``; empty with at most one channel."""
    in_flight_bytes: int = 0
    """How many bytes of in-flight data were persisted."""


class DeclineReason(Enum):
    """Why a subtask declined a checkpoint (Flink: ``CheckpointFailureReason.java``, task side)."""

    TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    INPUT_END_OF_STREAM = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    TASK_FAILURE = "TASK_FAILURE"
    DECLINED = "CHECKPOINT_DECLINED"


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of one operator in all its subtasks: ``subtasks[i]`` is of subtask i of ``parallelism``."""

    operator_id: OperatorId
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: Mapping[int, OperatorSnapshot] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    """Subtasks that had finished before the checkpoint; all of them: the operator is fully finished."""
    coordinator: CoordinatorState | None = None
    """The state of the coordinator; ``None``: there is no coordinator, or it had no state."""


@dataclass(frozen=True, slots=True)
class InFlightEdge:
    """An edge, of the job that wrote the checkpoint, with in-flight data: what is needed to find it in another job (``source``: the tail of the
    producing chain, ``target``: the head of the consuming one, and ``input_index``) and to redistribute its channels. ``max_parallelism``: of the
    consumers."""

    edge_id: int
    source: OperatorId
    target: OperatorId
    input_index: int
    partitioner: Partitioner
    producers: int
    consumers: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class CheckpointManifest:
    """The content of ``_metadata``. Its existence makes a checkpoint complete."""

    job_id: JobId
    job_name: str
    checkpoint_id: CheckpointId
    timestamp_ms: int
    snapshot_type: SnapshotType
    operators: tuple[OperatorState, ...]
    version: int = MANIFEST_VERSION
    generation: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    edges: tuple[InFlightEdge, ...] = ()
    """The edges to which the operators' in-flight data belongs."""

    def without_channels(self) -> CheckpointManifest:
        """Returns the manifest without in-flight data."""
        operators = tuple(
            replace(
                operator,
                subtasks={
                    index: replace(snapshot, input_channels=(), output_channels=())
                    for index, snapshot in operator.subtasks.items()
                },
            )
            for operator in self.operators
        )
        return replace(self, operators=operators, edges=())


@dataclass(frozen=True, slots=True)
class RestoredOperator:
    """The part of an operator's old state that one subtask restores: segments that overlap its key groups, and its own elements of operator state.
    ``slices[i]`` = (first, last + 1) elements of ``operator[i]`` to take.

    ``channels``: in-flight data for the head of a chain, in the order in which it is to be processed before anything
    new. All of it is replayed by consumers; after a rescale each takes the rows of its own key groups. ``edge_id`` is that of
    the edge of this job, the subtask indices are those of the job that wrote it."""

    keyed: tuple[SegmentHandle, ...] = ()
    operator: tuple[OperatorStateHandle, ...] = ()
    slices: tuple[tuple[int, int], ...] = ()
    channels: tuple[ChannelStateHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """The state with which a subtask is deployed. Paths in the handles are relative to ``location``."""

    checkpoint_id: CheckpointId
    location: str
    operators: Mapping[OperatorId, RestoredOperator] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A subtask's report that its part of a checkpoint is written."""

    attempt: AttemptId
    checkpoint_id: CheckpointId
    snapshot: SubtaskSnapshot
    metrics: CheckpointMetrics
