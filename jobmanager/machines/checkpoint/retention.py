"""Decides which checkpoints of a job are retained and which shared files are in use, and orders all deletions.

Every deletion of a checkpoint goes through here, so that directories and unused shared files are deleted exactly once,
the directory first: a checkpoint that can still be found can still be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tidegate.jobmanager.machines.checkpoint.cleaner import CheckpointCleaner
from tidegate.jobmanager.machines.checkpoint.completed_checkpoints import (
    CompletedCheckpoint,
    CompletedCheckpointStore,
    complete,
)
from tidegate.jobmanager.machines.checkpoint.jobmanager_recovery import Inventory
from tidegate.jobmanager.machines.checkpoint.pending_checkpoint import CommitPermit
from tidegate.jobmanager.machines.checkpoint.shared_state import (
    SharedStateRegistry,
    exclusive_paths,
    shared_paths,
    shared_paths_of,
)
from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.events import RestoreFrom
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import SubtaskSnapshot
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.options import ClaimMode
from tidegate.model.states import JobState


class RetainedCheckpoints:
    """The checkpoints of one job that are retained, and the shared files that they use."""

    def __init__(self, job_id: JobId, settings: CheckpointSettings, buffer: CommandBuffer) -> None:
        self._cleaner = CheckpointCleaner(job_id, buffer)
        self._store = CompletedCheckpointStore(settings.num_retained, settings.retention)
        self._registry = SharedStateRegistry()
        self._shared_locations: dict[CheckpointId, str] = {}
        """The directories into which pending checkpoints may write shared files."""
        self._is_closed = False
        self._keeps_everything = False
        """Whether all checkpoints stay when the job ends, whatever the retention."""

    @property
    def latest(self) -> CompletedCheckpoint | None:
        return self._store.latest

    @property
    def completed(self) -> tuple[CompletedCheckpoint, ...]:
        """Returns the retained checkpoints, oldest first."""
        return self._store.all

    @property
    def cleaning(self) -> int:
        """Returns the number of checkpoints that are being deleted."""
        return self._cleaner.cleaning

    @property
    def is_idle(self) -> bool:
        """Tells whether no files are being deleted."""
        return self._cleaner.is_idle

    @property
    def shared_files(self) -> SharedStateRegistry:
        return self._registry

    def begin(self, restore: RestoreFrom | None, inventory: Inventory) -> None:
        """Takes over the checkpoint that the job was started from and those of an earlier JobManager; deletes incomplete ones."""
        found = list(inventory.completed)
        if restore is not None:
            origin, is_ours = restore.manifest, restore.claim_mode is ClaimMode.CLAIM
            found.insert(0, CompletedCheckpoint(origin.checkpoint_id, restore.location, origin, 0, is_ours=is_ours))
        self._adopt(found)
        for place in inventory.incomplete:
            self.on_triggered(place.checkpoint_id, place.shared_location)
            self.on_aborted(place.checkpoint_id, place.location)

    def on_triggered(self, checkpoint_id: CheckpointId, shared_location: str) -> None:
        """Notes where a checkpoint may write shared files; ``shared_location`` is empty when it writes none."""
        if shared_location:
            self._shared_locations[checkpoint_id] = shared_location

    def hold(self, checkpoint_id: CheckpointId) -> int:
        """Protects the files that a checkpoint about to be triggered may refer to; returns the id of the oldest checkpoint that its subtasks
        may build on.
        """
        oldest = self._store.all[0].checkpoint_id if self._store.all else CheckpointId(0)
        self._registry.hold(checkpoint_id, oldest)
        return oldest

    def on_acknowledged(self, checkpoint_id: CheckpointId, snapshot: SubtaskSnapshot, *, is_late: bool) -> None:
        """Registers the shared files of an acknowledgement. ``is_late``: it does not count, and its unknown files are deleted."""
        paths = list(shared_paths(snapshot))
        if is_late:
            self._cleaner.on_late_files(checkpoint_id)
            self._cleaner.discard_shared(checkpoint_id, self._registry.unknown(paths))
        elif paths:
            self._registry.register(checkpoint_id, paths)

    def on_stray(self, checkpoint_id: CheckpointId, location: str, snapshot: SubtaskSnapshot) -> None:
        """Deletes what an attempt wrote that is not in the plan of a pending checkpoint: no checkpoint uses it."""
        own = [f"{location}/{path}" for path in exclusive_paths(snapshot)]
        self._cleaner.discard_shared(checkpoint_id, [*own, *self._registry.unknown(shared_paths(snapshot))])

    def on_completed(self, permit: CommitPermit) -> None:
        """Retains a completed checkpoint and deletes subsumed ones. A savepoint is not retained: it belongs to the user."""
        checkpoint_id = permit.manifest.checkpoint_id
        is_kept = not permit.manifest.snapshot_type.is_savepoint
        subsumed = self._store.add(complete(permit)) if is_kept else []
        self._cleaner.discard_shared(checkpoint_id, self._registry.decided(checkpoint_id))
        self._remove(subsumed)
        self._shared_locations.pop(checkpoint_id, None)
        self._cleaner.sweep()

    def on_aborted(self, checkpoint_id: CheckpointId, location: str) -> None:
        """Deletes the files of an aborted checkpoint; ``location`` is empty when it had no directory yet."""
        shared_location = self._shared_locations.pop(checkpoint_id, "")
        if location:
            self._cleaner.discard_aborted(checkpoint_id, location, shared_location)
        unused = [*self._registry.abandon(checkpoint_id), *self._registry.decided(checkpoint_id)]
        self._cleaner.discard_shared(checkpoint_id, unused)

    def on_discarded(self, checkpoint_id: CheckpointId) -> None:
        self._cleaner.on_discarded(checkpoint_id)
        if self._is_closed:
            self._cleaner.sweep()

    def on_shared_discarded(self) -> None:
        self._cleaner.on_shared_discarded()

    def fall_back(self, whole: Collection[str]) -> CompletedCheckpoint | None:
        """Drops retained checkpoints that are newer than the newest one whose location is among ``whole``, and returns that one; ``None``
        drops none.
        """
        found = next((c for c in reversed(self._store.all) if c.location in whole), None)
        if found is not None:
            self._remove(self._store.drop_after(found))
        return found

    def keep_everything(self) -> None:
        """Keeps all checkpoints when the job ends, whatever the retention."""
        self._keeps_everything = True

    def close(self, state: JobState) -> None:
        """Applies the retention rule when the job has ended in ``state`` and no checkpoint is pending."""
        if not self._keeps_everything:
            self._remove(self._store.close(state))
        self._is_closed = True
        self._cleaner.sweep()

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when retained checkpoints, their shared files and deletions contradict each other."""
        self._cleaner.check_invariants()
        self._store.check_invariants()
        self._registry.check_invariants()
        for checkpoint in self._store.all:
            gone = [path for path in shared_paths_of(checkpoint.manifest) if path not in self._registry]
            assert not gone, f"checkpoint {checkpoint.checkpoint_id} is kept, and {gone} are not"

    def _adopt(self, found: Sequence[CompletedCheckpoint]) -> None:
        """Registers found checkpoints, all before any is removed, since a later one may build on files of an earlier one."""
        for checkpoint in found:
            self._registry.register(
                checkpoint.checkpoint_id, shared_paths_of(checkpoint.manifest), is_ours=checkpoint.is_ours
            )
        for checkpoint in found:
            self._remove(self._store.add(checkpoint))

    def _remove(self, checkpoints: Iterable[CompletedCheckpoint]) -> None:
        for checkpoint in checkpoints:
            if checkpoint.is_ours:
                self._cleaner.discard(checkpoint.checkpoint_id, checkpoint.location)
            unused = self._registry.retire(checkpoint.checkpoint_id)
            self._cleaner.discard_shared(checkpoint.checkpoint_id, unused)
