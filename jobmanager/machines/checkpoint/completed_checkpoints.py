"""The completed checkpoints of a job: which are retained, which are subsumed, which remain when the job ends.

Follows Flink's ``DefaultCompletedCheckpointStore.java``, ``CheckpointSubsumeHelper.java`` and the table of
``CheckpointProperties.java``:

    policy                    FINISHED   CANCELED   FAILED    SUSPENDED
    NO_EXTERNALIZED           delete     delete     delete    delete
    DELETE_ON_CANCELLATION    delete     delete     keep      delete
    RETAIN_ON_CANCELLATION    delete     keep       keep      keep
    started from, not claimed keep       keep       keep      keep
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import CommitPermit
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.handles.inline_state import drop_inline_state
from tidegate.model.ids import CheckpointId
from tidegate.model.options import CheckpointRetention
from tidegate.model.states import JobState

_KEPT_AT_END: dict[CheckpointRetention, frozenset[JobState]] = {
    CheckpointRetention.NONE: frozenset(),
    CheckpointRetention.DELETE_ON_CANCELLATION: frozenset({JobState.FAILED}),
    CheckpointRetention.RETAIN_ON_CANCELLATION: frozenset({JobState.CANCELED, JobState.FAILED, JobState.SUSPENDED}),
}


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A completed checkpoint. ``is_ours``: made by this job, or claimed by it when it was started from it, and so deleted by it."""

    checkpoint_id: CheckpointId
    location: str
    manifest: CheckpointManifest
    size_bytes: int
    is_ours: bool = True


def complete(permit: CommitPermit) -> CompletedCheckpoint:
    written = permit.written
    manifest = drop_inline_state(permit.manifest) if written.holds_inline_state else permit.manifest
    return CompletedCheckpoint(manifest.checkpoint_id, permit.location, manifest, written.size_bytes)


class CompletedCheckpointStore:
    """The completed checkpoints of one job, oldest first."""

    def __init__(self, num_retained: int, retention: CheckpointRetention) -> None:
        self._num_retained = num_retained
        self._retention = retention
        self._checkpoints: list[CompletedCheckpoint] = []

    @property
    def latest(self) -> CompletedCheckpoint | None:
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def all(self) -> tuple[CompletedCheckpoint, ...]:
        """Returns the retained checkpoints, oldest first."""
        return tuple(self._checkpoints)

    def add(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Adds a checkpoint, then removes the oldest beyond the retained number and returns them, whether or not the job owns them."""
        self._checkpoints.append(checkpoint)
        self._checkpoints.sort(key=lambda c: c.checkpoint_id)
        subsumed = self._checkpoints[: -self._num_retained]
        self._checkpoints = self._checkpoints[-self._num_retained :]
        return subsumed

    def drop_after(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Removes and returns the checkpoints that are newer than this one."""
        kept = self._checkpoints.index(checkpoint) + 1
        self._checkpoints, newer = self._checkpoints[:kept], self._checkpoints[kept:]
        return newer

    def close(self, state: JobState) -> list[CompletedCheckpoint]:
        """Removes all checkpoints when the job ends in ``state``; returns those to delete."""
        checkpoints, self._checkpoints = self._checkpoints, []
        return [] if state in _KEPT_AT_END[self._retention] else checkpoints

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when too many checkpoints are retained, or out of order."""
        ids = [checkpoint.checkpoint_id for checkpoint in self._checkpoints]
        assert len(ids) <= self._num_retained, f"keeps {ids}, and {self._num_retained} are retained"
        assert ids == sorted(set(ids)), f"completed checkpoints are out of order: {ids}"
