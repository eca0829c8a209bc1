"""Finds the checkpoints in storage of a job whose JobManager was lost."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.jobmanager.machines.events import FoundCheckpoint
from tidegate.jobmanager.service.high_availability.job_store import StoredJob
from tidegate.jobmanager.service.storage.checkpoint_files import JobDirectories
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import CorruptData, ErrorInfo, NotSigned, VersionMismatch
from tidegate.model.handles.inline_state import drop_inline_state
from tidegate.model.ids import CheckpointId, JobId
from tidegate.store.checkpoints import CheckpointStorage


def find_checkpoints(
    storage: CheckpointStorage,
    directories: JobDirectories,
    job_id: JobId,
    stored: StoredJob,
) -> tuple[FoundCheckpoint, ...]:
    """Returns the checkpoints of a job in storage. Blocks.

    Those with a pointer in the job store are complete; others in the job's directory are not, with or without ``_metadata``: no sink was notified
    of them. An incomplete savepoint is removed; a complete one belongs to the user. Raises ``StorageError`` when something cannot be
    read now, as opposed to being damaged, and ``NotSigned`` for a completed one without the required signature: it can be restored with
    another configuration.
    """
    return tuple(_found(storage, directories, job_id, stored))


def _found(
    storage: CheckpointStorage,
    directories: JobDirectories,
    job_id: JobId,
    stored: StoredJob,
) -> Iterator[FoundCheckpoint]:
    pointed = dict(stored.pointers)
    for number, location in pointed.items():
        yield _completed(storage, number, location)
    for number, location in stored.savepoints:
        if number not in pointed and not storage.is_complete(location):
            yield FoundCheckpoint(number, location)
    if directories.checkpoints is None:
        return
    for number, location in storage.numbered(directories.checkpoints, job_id, create_subdir=directories.create_subdir):
        if number not in pointed and (directories.create_subdir or _is_of(storage, location, job_id)):
            shared = storage.shared_location(location, SnapshotType.CHECKPOINT)
            yield FoundCheckpoint(number, location, shared_location=shared)


def _completed(storage: CheckpointStorage, number: CheckpointId, location: str) -> FoundCheckpoint:
    if not storage.is_complete(location):
        gone = CorruptData(f"_metadata is missing in {location}, which the job store names as a completed checkpoint")
        return FoundCheckpoint(number, location, damage=ErrorInfo.of(gone))
    try:
        return FoundCheckpoint(number, location, drop_inline_state(storage.read_checkpoint(location)[1]))
    except (CorruptData, VersionMismatch) as error:
        return FoundCheckpoint(number, location, damage=ErrorInfo.of(error))


def _is_of(storage: CheckpointStorage, location: str, job_id: JobId) -> bool:
    """Tells whether a checkpoint in a directory that several jobs share is of this job: only its manifest says so."""
    if not storage.is_complete(location):
        return False
    try:
        return storage.read_checkpoint(location)[1].job_id == job_id
    except (CorruptData, NotSigned, VersionMismatch):
        return False
