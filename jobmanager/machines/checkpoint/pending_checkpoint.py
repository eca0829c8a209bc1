"""A pending checkpoint, from its start until it is completed or aborted.

It can be confirmed only through data: acknowledgements -> ``WriteManifest`` -> ``ManifestWritten`` -> ``CommitPermit``.

                 location       all acknowledged        ManifestWritten
    LOCATING ──▶ COLLECTING ──▶ WRITING ───────────────▶ COMPLETED
        │            │           │  ▲ └─ failed for sure ─▶ ABORTED
        │            │  unknown  ▼  │ (read back: not there, or there)
        └─ abort ────┴─▶ ABORTED  SETTLING

While it is WRITING or SETTLING it cannot be aborted: ``_metadata`` may be durable already, and then sinks of a restored job
would have to commit what it holds. Follows Flink's ``PendingCheckpoint.java``, but is stricter there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.jobmanager.machines.checkpoint.plan import CheckpointPlan
from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.events import ManifestWritten
from tidegate.model.checkpoint import (
    COORDINATED_VERSION,
    MANIFEST_VERSION,
    CheckpointManifest,
    InFlightEdge,
    OperatorSnapshot,
    OperatorState,
    SubtaskSnapshot,
)
from tidegate.model.coordinators.operator_events import CoordinatorState
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import AttemptId, CheckpointId, OperatorId, SubtaskId, VertexId


class PendingState(Enum):
    """The states of a pending checkpoint; the diagram of the module shows the transitions."""

    LOCATING = "LOCATING"
    COLLECTING = "COLLECTING"
    WRITING = "WRITING"
    SETTLING = "SETTLING"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"

    @property
    def is_settling(self) -> bool:
        """Tells whether only the storage's answer can decide the checkpoint now."""
        return self in (PendingState.WRITING, PendingState.SETTLING)

    @property
    def is_abortable(self) -> bool:
        """Tells whether the checkpoint can still be aborted, because some subtask has not acknowledged yet."""
        return self in (PendingState.LOCATING, PendingState.COLLECTING)


class AckResult(Enum):
    """The outcome of an acknowledgement. ``SUCCESS``: it counts; ``DUPLICATE``: this attempt has acknowledged before; ``UNKNOWN``: not in the plan;
    ``DISCARDED``: the checkpoint is not collecting.
    """

    SUCCESS = "SUCCESS"
    DUPLICATE = "DUPLICATE"
    UNKNOWN = "UNKNOWN"
    DISCARDED = "DISCARDED"


@dataclass(frozen=True, slots=True)
class CommitPermit:
    """The right to confirm a checkpoint. Only ``PendingCheckpoint.on_manifest_written`` creates one."""

    written: ManifestWritten
    manifest: CheckpointManifest
    location: str
    confirm: tuple[AttemptId, ...]
    may_finish: frozenset[AttemptId]


class PendingCheckpoint:
    """A checkpoint that was started and is neither completed nor aborted."""

    def __init__(
        self, checkpoint_id: CheckpointId, timestamp_ms: int, request: CheckpointRequest, plan: CheckpointPlan
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.timestamp_ms = timestamp_ms
        self.request = request
        self.plan = plan
        self.state = PendingState.LOCATING
        self.location = ""
        self.is_triggered = False
        self._manifest: CheckpointManifest | None = None
        self._coordinators: Mapping[OperatorId, CoordinatorState] = {}
        self._waiting = dict.fromkeys(plan.wait_for)
        self._acknowledged: dict[AttemptId, SubtaskSnapshot] = {}

    @property
    def is_fully_acknowledged(self) -> bool:
        return not self._waiting

    def is_waiting_for(self, attempt: AttemptId) -> bool:
        return attempt in self._waiting

    def is_waiting_only_for(self, attempt: AttemptId) -> bool:
        return len(self._waiting) == 1 and attempt in self._waiting

    def on_located(self, location: str) -> None:
        assert self.state is PendingState.LOCATING, self.state
        self.state, self.location = PendingState.COLLECTING, location

    def on_triggered(self, coordinators: Mapping[OperatorId, CoordinatorState]) -> None:
        """Marks the tasks as triggered, so that they are notified of an abort. ``coordinators``: the state of operator coordinators at this
        moment.
        """
        assert self.state is PendingState.COLLECTING, self.state
        self.is_triggered, self._coordinators = True, coordinators

    def acknowledge(self, attempt: AttemptId, snapshot: SubtaskSnapshot) -> AckResult:
        if self.state is PendingState.COLLECTING and self._waiting.pop(attempt, False) is None:
            self._acknowledged[attempt] = snapshot
            return AckResult.SUCCESS
        if attempt in self._acknowledged:
            return AckResult.DUPLICATE
        return AckResult.DISCARDED if attempt in self._waiting else AckResult.UNKNOWN

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the state and the acknowledgements contradict each other."""
        here = f"checkpoint {self.checkpoint_id}, which is {self.state.value},"
        known = self._waiting.keys() | self._acknowledged.keys()
        assert not self._waiting.keys() & self._acknowledged.keys(), f"{here} waits for an attempt that acknowledged"
        assert known == set(self.plan.wait_for), f"{here} collects from others than those of its plan"
        if self.state is PendingState.LOCATING:
            begun = self.location or self.is_triggered or self._acknowledged
            assert not begun, f"{here} was triggered already"
        if self.state.is_settling:
            assert not self._waiting, f"{here} waits for {sorted(self._waiting)}"
            assert self._manifest is not None, f"{here} has no manifest"

    def union_state_closing(self, graph: JobGraph) -> JobVertex | None:
        """Returns a vertex with union state of which some subtasks have finished and others have not: the state of the finished ones would be
        lost. Otherwise ``None``.
        """
        finished: dict[VertexId, int] = {}
        for subtask in self.plan.finished:
            finished[subtask.vertex_id] = finished.get(subtask.vertex_id, 0) + 1
        for vertex in graph.vertices:
            partly = 0 < finished.get(vertex.vertex_id, 0) < vertex.parallelism
            if partly and any(op.uses_union_state for op in vertex.operators):
                return vertex
        return None

    def seal(self, graph: JobGraph, generation: str) -> CheckpointManifest:
        """Builds the content of ``_metadata`` when all subtasks have acknowledged. From here only the storage decides."""
        assert self.state is PendingState.COLLECTING, self.state
        assert self.is_fully_acknowledged, sorted(self._waiting)
        self.state = PendingState.WRITING
        self._manifest = CheckpointManifest(
            job_id=graph.job_id,
            job_name=graph.name,
            checkpoint_id=self.checkpoint_id,
            timestamp_ms=self.timestamp_ms,
            snapshot_type=self.request.snapshot_type,
            operators=_operator_states(graph, self._acknowledged, self.plan.finished, self._coordinators),
            version=COORDINATED_VERSION if self._coordinators else MANIFEST_VERSION,
            generation=generation,
            edges=_edges_in_flight(graph, self._acknowledged.values()),
        )
        return self._manifest

    def on_manifest_unknown(self) -> None:
        assert self.state.is_settling, self.state
        self.state = PendingState.SETTLING

    def on_manifest_written(self, event: ManifestWritten) -> CommitPermit:
        assert self.state.is_settling, self.state
        assert event.checkpoint_id == self.checkpoint_id, (event, self.checkpoint_id)
        assert self._manifest is not None
        self.state = PendingState.COMPLETED
        stops = self.request.snapshot_type.is_synchronous
        may_finish = frozenset(self.plan.wait_for) if stops else self.plan.may_finish
        return CommitPermit(event, self._manifest, self.location, self.plan.wait_for, may_finish)

    def on_manifest_missing(self) -> None:
        """Marks the checkpoint as aborted, because ``_metadata`` was certainly not written."""
        assert self.state.is_settling, self.state
        self.state = PendingState.ABORTED

    def abort(self) -> bool:
        """Aborts the checkpoint; returns ``False`` when it is too late, because only the storage can decide it or it is decided."""
        if not self.state.is_abortable:
            return False
        self.state = PendingState.ABORTED
        return True


def _edges_in_flight(graph: JobGraph, snapshots: Iterable[SubtaskSnapshot]) -> tuple[InFlightEdge, ...]:
    """Returns the edges of which some snapshot holds in-flight data, and their parallel edges, which are needed to tell them apart in another job."""
    found: set[int] = set()
    for snapshot in snapshots:
        for operator in snapshot.operators.values():
            if operator.input_channels or operator.output_channels:
                found.update(channel.edge_id for channel in (*operator.input_channels, *operator.output_channels))
    if not found:
        return ()
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    ends = {(edge.source, edge.target, edge.input_index) for edge in graph.edges if edge.edge_id in found}
    return tuple(
        InFlightEdge(
            edge_id=edge.edge_id,
            source=vertices[edge.source].operators[-1].operator_id,
            target=vertices[edge.target].operators[0].operator_id,
            input_index=edge.input_index,
            partitioner=edge.partitioner,
            producers=vertices[edge.source].parallelism,
            consumers=vertices[edge.target].parallelism,
            max_parallelism=vertices[edge.target].max_parallelism,
        )
        for edge in graph.edges
        if (edge.source, edge.target, edge.input_index) in ends
    )


def _operator_states(
    graph: JobGraph,
    acknowledged: dict[AttemptId, SubtaskSnapshot],
    finished: frozenset[SubtaskId],
    coordinators: Mapping[OperatorId, CoordinatorState],
) -> tuple[OperatorState, ...]:
    """Collects the states of all operators. Operators without any state are left out, so that a job without them can start from this checkpoint."""
    subtasks: dict[OperatorId, dict[int, OperatorSnapshot]] = {}
    for attempt, snapshot in acknowledged.items():
        for operator_id, state in snapshot.operators.items():
            subtasks.setdefault(operator_id, {})[attempt.subtask] = state
    over: dict[VertexId, set[int]] = {}
    for subtask in finished:
        over.setdefault(subtask.vertex_id, set()).add(subtask.index)
    return tuple(
        OperatorState(
            operator_id=operator.operator_id,
            uid=operator.uid,
            name=operator.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            subtasks=dict(sorted(subtasks.get(operator.operator_id, {}).items())),
            finished=frozenset(over.get(vertex.vertex_id, ())),
            coordinator=coordinators.get(operator.operator_id),
        )
        for vertex in graph.vertices
        for operator in vertex.operators
        if operator.operator_id in subtasks or operator.operator_id in coordinators or vertex.vertex_id in over
    )
