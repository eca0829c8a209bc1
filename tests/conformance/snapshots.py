"""What a sink's subtasks left in a checkpoint: on disk, and dealt to the subtasks of a restore."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SnapshotType,
    StateRedistribution,
)
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.store.checkpoints import CheckpointStorage


def as_checkpoint(snapshot: OperatorSnapshot, directory: Path) -> str:
    """A checkpoint on disk that holds one subtask of the sink."""
    operator = OperatorState(OperatorId("2" * 32), "sink", "sink", 1, 128, {0: snapshot})
    manifest = CheckpointManifest(
        JobId("0" * 32), "job", CheckpointId(1), 1_700_000_000_000, SnapshotType.CHECKPOINT, (operator,)
    )
    location = str(directory / "chk-1")
    (directory / "chk-1").mkdir()
    assert CheckpointStorage().write_manifest(location, manifest).error is None
    return location


def share(snapshots: Sequence[OperatorSnapshot], subtask: int, parallelism: int) -> RestoredOperator:
    """List state, dealt as widely as it can be: element after element. Union state whole, to each."""
    taken: list[tuple[OperatorStateHandle, tuple[int, int]]] = []
    place = 0
    for handle in [handle for snapshot in snapshots for handle in snapshot.operator]:
        if handle.redistribution is StateRedistribution.UNION:
            taken.append((handle, (0, handle.elements)))
            continue
        for element in range(handle.elements):
            if place % parallelism == subtask:
                taken.append((handle, (element, element + 1)))
            place += 1
    return RestoredOperator(operator=tuple(h for h, _ in taken), slices=tuple(part for _, part in taken))
