"""Deletes checkpoints of a job and tracks open deletions and recently aborted checkpoints.

A slow subtask may still write into the directory of an aborted checkpoint after its deletion, so the directory is deleted again then.
Follows Flink's ``CheckpointsCleaner.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import DiscardCheckpoint, DiscardSharedFiles
from tidegate.model.ids import CheckpointId, JobId

ABORTED_REMEMBERED = 256
"""How many aborted checkpoints are remembered. Chosen, not measured: many more than can be in progress at once."""


class CheckpointCleaner:
    """Orders the deletion of a job's checkpoints, and tracks the deletions that are not done."""

    def __init__(self, job_id: JobId, buffer: CommandBuffer) -> None:
        self._job_id = job_id
        self._buffer = buffer
        self._cleaning: set[CheckpointId] = set()
        self._aborted: dict[CheckpointId, tuple[str, str]] = {}
        """Aborted checkpoints: their directory, and that of their shared files; empty when they wrote none."""
        self._to_sweep: dict[CheckpointId, None] = {}
        self._shared_open = 0

    @property
    def cleaning(self) -> int:
        """Returns the number of checkpoints whose files are being deleted."""
        return len(self._cleaning)

    @property
    def is_idle(self) -> bool:
        return not self._cleaning and not self._shared_open

    def discard(self, checkpoint_id: CheckpointId, location: str, shared_location: str = "") -> None:
        self._cleaning.add(checkpoint_id)
        self._buffer.emit(DiscardCheckpoint(self._job_id, checkpoint_id, location, shared_location))

    def discard_aborted(self, checkpoint_id: CheckpointId, location: str, shared_location: str = "") -> None:
        self._aborted[checkpoint_id] = (location, shared_location)
        if shared_location:
            self._to_sweep[checkpoint_id] = None
        if len(self._aborted) > ABORTED_REMEMBERED:
            del self._aborted[next(iter(self._aborted))]
        self.discard(checkpoint_id, location, shared_location)

    def sweep(self) -> None:
        """Deletes again what subtasks wrote into aborted checkpoints before they learned of the abort."""
        for checkpoint_id in [c for c in self._to_sweep if c not in self._cleaning]:
            del self._to_sweep[checkpoint_id]
            self.on_late_files(checkpoint_id)

    def on_late_files(self, checkpoint_id: CheckpointId) -> None:
        """Deletes the files of a late acknowledgement, if its checkpoint was aborted."""
        places = self._aborted.get(checkpoint_id)
        if places is not None and checkpoint_id not in self._cleaning:
            self.discard(checkpoint_id, *places)

    def discard_shared(self, checkpoint_id: CheckpointId, paths: Sequence[str]) -> None:
        """Deletes shared files that no checkpoint uses, after the directory of the checkpoint that used them last."""
        if paths:
            self._shared_open += 1
            self._buffer.emit(DiscardSharedFiles(self._job_id, checkpoint_id, tuple(paths)))

    def on_shared_discarded(self) -> None:
        self._shared_open -= 1

    def on_discarded(self, checkpoint_id: CheckpointId) -> None:
        self._cleaning.discard(checkpoint_id)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when more deletions were answered than requested, or too many aborted checkpoints are remembered."""
        assert self._shared_open >= 0, f"{-self._shared_open} removals were answered that nobody asked for"
        assert len(self._aborted) <= ABORTED_REMEMBERED, f"remembers {len(self._aborted)} aborted checkpoints"
