"""From a completed checkpoint to what the attempts of a job are deployed with."""

from __future__ import annotations

from collections.abc import Iterable

from jobmanager.machines.checkpoint_coordinator import CheckpointCoordinator
from jobmanager.machines.execution_graph import ExecutionGraph
from jobmanager.machines.recovery import StateAssignment
from tidegate.model.ids import SubtaskId


class Restoring:
    def __init__(self, graph: ExecutionGraph, coordinator: CheckpointCoordinator) -> None:
        self._graph = graph
        self._coordinator = coordinator

    def assign(self, subtasks: Iterable[SubtaskId]) -> None:
        """State of the latest completed checkpoint; without one they start empty."""
        latest = self._coordinator.latest
        if latest is None:
            return
        assignment = StateAssignment(self._graph.graph, latest.manifest, latest.location)
        for subtask in subtasks:
            restore = assignment.restore_of(subtask)
            execution = self._graph[subtask]
            execution.restore, execution.finished_on_restore = restore.task, restore.finished
        self._coordinator.on_restored(latest)
