"""Removal of checkpoints: what is being removed now, and where the last aborted ones were, since a subtask that was late may
write into their directory after it was removed. Follows Flink's ``CheckpointsCleaner.java``."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import DiscardCheckpoint, DiscardSharedFiles
from tidegate.model.ids import CheckpointId, JobId

ABORTED_REMEMBERED = 256
"""Chosen, not measured: many more than can be under way at once."""


class CheckpointCleaner:
    def __init__(self, job_id: JobId, buffer: CommandBuffer) -> None:
        self._job_id = job_id
        self._buffer = buffer
        self._cleaning: set[CheckpointId] = set()
        self._aborted: dict[CheckpointId, tuple[str, str]] = {}
        """Their directory, and that of shared files if they may have written some."""
        self._to_sweep: dict[CheckpointId, None] = {}
        self._shared_open = 0

    @property
    def cleaning(self) -> int:
        """Checkpoints whose files are being removed."""
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
        """Removes once more what subtasks wrote after the abort and before they learned of it."""
        for checkpoint_id in [c for c in self._to_sweep if c not in self._cleaning]:
            del self._to_sweep[checkpoint_id]
            self.on_late_files(checkpoint_id)

    def on_late_files(self, checkpoint_id: CheckpointId) -> None:
        """A subtask has acknowledged a checkpoint that is decided: what it wrote goes too, if that was an aborted one."""
        places = self._aborted.get(checkpoint_id)
        if places is not None and checkpoint_id not in self._cleaning:
            self.discard(checkpoint_id, *places)

    def discard_shared(self, checkpoint_id: CheckpointId, paths: Sequence[str]) -> None:
        """Removes shared files that no checkpoint uses, after the directory of the checkpoint that used them last."""
        if paths:
            self._shared_open += 1
            self._buffer.emit(DiscardSharedFiles(self._job_id, checkpoint_id, tuple(paths)))

    def on_shared_discarded(self) -> None:
        self._shared_open -= 1

    def on_discarded(self, checkpoint_id: CheckpointId) -> None:
        self._cleaning.discard(checkpoint_id)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when more was answered than asked, or too much is remembered."""
        assert self._shared_open >= 0, f"{-self._shared_open} removals were answered that nobody asked for"
        assert len(self._aborted) <= ABORTED_REMEMBERED, f"remembers {len(self._aborted)} aborted checkpoints"
