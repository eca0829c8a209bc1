"""From a completed checkpoint to what the attempts of a job are deployed with."""

from __future__ import annotations

from collections.abc import Iterable

from jobmanager.machines.checkpoint_coordinator import CheckpointCoordinator
from jobmanager.machines.execution_graph import ExecutionGraph
from jobmanager.machines.recovery import StateAssignment
from jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.ids import SubtaskId


def kept_manifest(manifest: CheckpointManifest, settings: CheckpointSettings) -> CheckpointManifest:
    """What is restored of it: without its data in flight, if the configuration says so for this checkpoint."""
    return manifest.without_channels() if manifest.checkpoint_id == settings.drop_channels_of else manifest


class Restoring:
    def __init__(self, graph: ExecutionGraph, coordinator: CheckpointCoordinator, settings: CheckpointSettings) -> None:
        self._graph = graph
        self._coordinator = coordinator
        self._settings = settings

    def assign(self, subtasks: Iterable[SubtaskId]) -> None:
        """State of the latest completed checkpoint; without one they start empty."""
        latest = self._coordinator.latest
        if latest is None:
            return
        manifest = kept_manifest(latest.manifest, self._settings)
        assignment = StateAssignment(self._graph.graph, manifest, latest.location)
        for subtask in subtasks:
            restore = assignment.restore_of(subtask)
            execution = self._graph[subtask]
            execution.restore, execution.finished_on_restore = restore.task, restore.finished
        self._coordinator.on_restored(latest)
