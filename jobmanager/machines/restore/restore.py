"""Chooses the checkpoint that a job restores and assigns its state to attempts before they are deployed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import CompletedCheckpoint
from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import choices, kept_manifest
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import InspectCheckpoints
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import SubtaskId


def finished_in(graph: JobGraph, manifest: CheckpointManifest) -> frozenset[SubtaskId]:
    """Returns the subtasks that had finished when the checkpoint was taken."""
    finished = {
        state.operator_id: state.finished if state.parallelism == vertex.parallelism else frozenset()
        for state in manifest.operators
        for vertex in graph.vertices
        if any(operator.operator_id == state.operator_id for operator in vertex.operators)
    }
    return frozenset(
        SubtaskId(vertex.vertex_id, index)
        for vertex in graph.vertices
        for index in range(vertex.parallelism)
        if all(index in finished.get(operator.operator_id, ()) for operator in vertex.operators)
    )


class Restoring:
    """The restore of one job: its checkpoint, and the state of each attempt."""

    def __init__(
        self,
        graph: ExecutionGraph,
        coordinator: CheckpointCoordinator,
        operators: OperatorCoordinators,
        settings: CheckpointSettings,
        buffer: CommandBuffer,
    ) -> None:
        self._graph = graph
        self._coordinator = coordinator
        self._operators = operators
        self._settings = settings
        self._buffer = buffer
        self._damage: ErrorInfo | None = None

    @property
    def is_looking(self) -> bool:
        """Tells whether the newest checkpoint could not be restored and the storage is being inspected for others."""
        return self._damage is not None

    def on_damaged(self, failure: ErrorInfo) -> None:
        """Orders an inspection of the other checkpoints, because the newest one is missing or damaged."""
        newest = self._coordinator.latest
        assert newest is not None, failure
        self._damage = failure
        self._buffer.emit(InspectCheckpoints(self._graph.graph.job_id, newest.checkpoint_id, self._coordinator.others))

    def on_inspected(self, whole: Sequence[str]) -> CompletedCheckpoint | ErrorInfo:
        """Returns the older checkpoint to go on from if the configuration allows it, otherwise the failure of the job.

        By default nothing older is restored: sinks may have published what the newest one holds (docs/adr/0015). Then nothing is deleted,
        and the message lists the choices.
        """
        damage, self._damage = self._damage, None
        assert damage is not None, "the storage was not asked"
        older = self._coordinator.fall_back(whole) if self._settings.restores_older else None
        if older is not None:
            return older
        self._coordinator.keep_everything()
        return replace(damage, message=f"{damage.message}. Nothing is removed. {choices(whole)}")

    def assign(self, subtasks: Collection[SubtaskId]) -> None:
        """Gives subtasks their state from the latest completed checkpoint, or none; coordinators take back splits that it does not hold."""
        latest = self._coordinator.latest
        self._operators.on_subtasks_reset(subtasks, latest.checkpoint_id if latest else None)
        if latest is None:
            return
        manifest = kept_manifest(latest.manifest, self._settings)
        assignment = StateAssignment(self._graph.graph, manifest, latest.location)
        for subtask in subtasks:
            restore = assignment.restore_of(subtask)
            self._graph[subtask].restore_from(restore.task, finished=restore.finished)
        self._coordinator.on_restored(latest)
