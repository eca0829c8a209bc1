"""What the storage holds of a job whose JobManager is gone: the event's ``FoundCheckpoint``s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.jobmanager.machines.events import FoundCheckpoint
from tidegate.jobmanager.service.storage.checkpoint_files import JobDirectories
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import CorruptData, ErrorInfo, VersionMismatch
from tidegate.model.handles.inline_state import drop_inline_state
from tidegate.model.ids import CheckpointId, JobId
from tidegate.store.checkpoints import CheckpointStorage


def find_checkpoints(
    storage: CheckpointStorage,
    directories: JobDirectories,
    job_id: JobId,
    savepoints: Iterable[tuple[CheckpointId, str]],
) -> tuple[FoundCheckpoint, ...]:
    """Checkpoints in the job's directory, savepoints with which it was being stopped, and savepoints that never became complete. A complete
    savepoint of another kind belongs to the user: sinks may have committed more since. Blocks. Raises ``StorageError`` where
    something cannot be read today, as opposed to being damaged."""
    return tuple(_found(storage, directories, job_id, savepoints))


def _found(
    storage: CheckpointStorage,
    directories: JobDirectories,
    job_id: JobId,
    savepoints: Iterable[tuple[CheckpointId, str]],
) -> Iterator[FoundCheckpoint]:
    for number, location in savepoints:
        found = _look(storage, number, location, "")
        is_users = found.manifest is not None and not found.manifest.snapshot_type.is_synchronous
        if not is_users:
            yield found
    if directories.checkpoints is None:
        return
    for number, location in storage.numbered(directories.checkpoints, job_id, create_subdir=directories.create_subdir):
        found = _look(storage, number, location, storage.shared_location(location, SnapshotType.CHECKPOINT))
        is_of_another_job = found.manifest is not None and found.manifest.job_id != job_id
        if directories.create_subdir or (found.manifest is not None and not is_of_another_job):
            yield found


def _look(storage: CheckpointStorage, number: CheckpointId, location: str, shared: str) -> FoundCheckpoint:
    if not storage.is_complete(location):
        return FoundCheckpoint(number, location, shared_location=shared)
    try:
        return FoundCheckpoint(number, location, drop_inline_state(storage.read_checkpoint(location)[1]))
    except (CorruptData, VersionMismatch) as error:
        return FoundCheckpoint(number, location, damage=ErrorInfo.of(error))
