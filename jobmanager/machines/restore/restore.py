"""From a completed checkpoint to what the attempts of a job are deployed with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import kept_manifest
from tidegate.jobmanager.machines.coordination.operator_coordinators import OperatorCoordinators
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobGraph
from tidegate.model.ids import SubtaskId


def finished_in(graph: JobGraph, manifest: CheckpointManifest) -> frozenset[SubtaskId]:
    """Subtasks that had finished when the checkpoint was taken."""
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
    def __init__(
        self,
        graph: ExecutionGraph,
        coordinator: CheckpointCoordinator,
        operators: OperatorCoordinators,
        settings: CheckpointSettings,
    ) -> None:
        self._graph = graph
        self._coordinator = coordinator
        self._operators = operators
        self._settings = settings

    def on_damaged(self, failure: ErrorInfo) -> ErrorInfo:
        """Nothing older is restored by itself: sinks may have published what the damaged checkpoint holds (docs/adr/0015).
        The job fails, and leaves everything to the user."""
        self._coordinator.keep_everything()
        kept = ", ".join(checkpoint.location for checkpoint in self._coordinator.completed)
        return replace(
            failure, message=f"{failure.message}. Nothing is removed; completed checkpoints of the job: {kept}"
        )

    def assign(self, subtasks: Collection[SubtaskId]) -> None:
        """State of the latest completed checkpoint; without one they start empty. Coordinators take back what it does not hold."""
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
