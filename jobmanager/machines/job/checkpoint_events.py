"""Passes each checkpoint event to its method of the checkpoint coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tidegate.jobmanager.machines.checkpoint.coordinator import CheckpointCoordinator
from tidegate.jobmanager.machines.events import (
    CheckpointDiscarded,
    LocationCreated,
    ManifestWriteFailed,
    ManifestWritten,
    SharedFilesDiscarded,
    SnapshotRequested,
    SubtaskAcknowledged,
    SubtaskDeclined,
)
from tidegate.model.errors import ErrorInfo

CheckpointEvent = (
    SnapshotRequested
    | SubtaskAcknowledged
    | SubtaskDeclined
    | LocationCreated
    | ManifestWritten
    | ManifestWriteFailed
    | CheckpointDiscarded
    | SharedFilesDiscarded
)


@dataclass(frozen=True, slots=True)
class Handled:
    """The result of a checkpoint event. ``failure``: of the job, or ``None``. ``may_decide``: whether the job may be able to take a step now."""

    failure: ErrorInfo | None
    may_decide: bool = True


def handle_checkpoint_event(coordinator: CheckpointCoordinator, event: CheckpointEvent) -> Handled:
    match event:
        case SnapshotRequested():
            return Handled(coordinator.on_snapshot_requested(event))
        case SubtaskAcknowledged():
            is_last = coordinator.is_last(event)
            return Handled(coordinator.on_acknowledged(event), is_last)
        case SubtaskDeclined():
            return Handled(coordinator.on_declined(event))
        case LocationCreated():
            return Handled(coordinator.on_located(event))
        case ManifestWritten():
            return Handled(coordinator.on_manifest_written(event))
        case ManifestWriteFailed():
            return Handled(coordinator.on_manifest_failed(event))
        case CheckpointDiscarded():
            return Handled(coordinator.on_discarded(event))
        case SharedFilesDiscarded():
            return Handled(coordinator.on_shared_discarded(event))
        case _:
            assert_never(event)
