"""Carries out the machines' storage commands in a thread pool, one after the other for each checkpoint.

    CreateLocation ─▶ LocationCreated          WriteManifest ─▶ _metadata ─▶ pointer ─▶ ManifestWritten | ManifestWriteFailed
    DiscardCheckpoint ─▶ CheckpointDiscarded   ReadBackManifest ─▶ the same two, outcome known
    DiscardSharedFiles ─▶ SharedFilesDiscarded InspectCheckpoints ─▶ CheckpointsInspected

``_metadata`` is the payload. A checkpoint is completed by its pointer in the job store, which only the leader can write (``Jobs.commit``);
no event is posted before. Once another JobManager leads, none is posted at all. While ``_metadata`` is written, the files that it names are
checked: a checkpoint with missing files is not completed.

A write that takes longer than its limit is answered with "outcome unknown" and goes on; a read-back waits for its end,
and is repeated until it can tell. Deletions run in parallel, or one checkpoint and one file after the other
(``execution.checkpointing.cleaner.parallel-mode``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial

from tidegate.aio.logs import with_ids
from tidegate.aio.pool import Pool
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines.commands import (
    CreateLocation,
    DiscardCheckpoint,
    DiscardSharedFiles,
    InspectCheckpoints,
    ReadBackManifest,
    WriteManifest,
)
from tidegate.jobmanager.machines.events import (
    CheckpointDiscarded,
    CheckpointsInspected,
    Event,
    LocationCreated,
    ManifestWriteFailed,
    ManifestWritten,
    SharedFilesDiscarded,
)
from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.errors import CheckpointFilesMissing, ErrorInfo, StorageError, TidegateError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.options import CheckpointingOptions
from tidegate.store.checkpoints import CheckpointStorage, ManifestWrite
from tidegate.store.locations import is_memory

StorageCommand = (
    CreateLocation | WriteManifest | ReadBackManifest | DiscardCheckpoint | DiscardSharedFiles | InspectCheckpoints
)

READ_BACK_RETRY_MS = 1_000
"""The pause before a read-back is repeated, in ms. Chosen, not measured: storage that did not answer is seldom back at once."""
DISCARDS_AT_ONCE = 4
"""How many files are deleted at once: as many as the JobManager has threads for storage."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobDirectories:
    """The directories of a job's checkpoints and savepoints; ``checkpoints`` is ``None`` for the JobManager's memory."""

    checkpoints: str | None
    savepoints: str | None
    create_subdir: bool = True
    cleans_in_parallel: bool = True

    @staticmethod
    def of(configuration: Configuration) -> JobDirectories:
        return JobDirectories(
            configuration.get(CheckpointingOptions.DIRECTORY),
            configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY),
            configuration.get(CheckpointingOptions.CREATE_SUBDIR),
            configuration.get(CheckpointingOptions.CLEANER_PARALLEL),
        )


class CheckpointFiles:
    """Carries out storage commands and posts their events to the machine."""

    def __init__(
        self,
        storage: CheckpointStorage,
        pool: Pool,
        post: Callable[[Event], None],
        metadata_timeout_ms: int,
        jobs: Jobs,
        on_completed: Callable[[str, CheckpointManifest], None] = lambda _location, _manifest: None,
    ) -> None:
        """Creates it without jobs. ``on_completed``: called with location and manifest of a completed checkpoint, before its event is posted."""
        self._on_completed = on_completed
        self._storage = storage
        self._pool = pool
        self._post = post
        self._metadata_timeout_ms = metadata_timeout_ms
        self._jobs = jobs
        self._open: dict[tuple[JobId, CheckpointId], _OpenWrite] = {}
        self._directories: dict[JobId, JobDirectories] = {}
        self._last: dict[tuple[JobId, CheckpointId], asyncio.Task[None]] = {}
        self._writes: dict[tuple[JobId, CheckpointId], asyncio.Future[ManifestWrite]] = {}
        self._one_discard = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()

    def add_job(self, job_id: JobId, directories: JobDirectories) -> None:
        self._directories[job_id] = directories

    def has_savepoint_directory(self, job_id: JobId) -> bool:
        """Tells whether the job has a default directory for savepoints."""
        places = self._directories.get(job_id)
        return places is not None and places.savepoints is not None

    def execute(self, command: StorageCommand) -> None:
        """Starts a command; its event is posted when it is done."""
        key = (command.job_id, command.checkpoint_id)
        task = asyncio.create_task(self._after(self._last.get(key), self._carry_out(command)))
        self._last[key] = task
        task.add_done_callback(partial(self._forget, key))

    def job_terminated(self, job_id: JobId) -> None:
        """Removes the empty directories of an ended job, after all its deletions."""
        places = self._directories.get(job_id)
        if places is not None and places.checkpoints is not None and places.create_subdir:
            task = asyncio.create_task(self._remove_empty(places.checkpoints, job_id))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def settled(self) -> None:
        """Waits until every started command is done."""
        while self._last or self._leaving:
            await asyncio.gather(*self._last.values(), *self._leaving, return_exceptions=True)

    async def _remove_empty(self, directory: str, job_id: JobId) -> None:
        try:
            await self._pool.submit(partial(self._storage.remove_empty, directory, job_id))
        except TidegateError as error:
            _log.warning(
                "%s", with_ids(f"empty directories of the job could not be removed: {error.message}", job=job_id)
            )

    async def _after(self, before: asyncio.Task[None] | None, work: Coroutine[object, None, Event]) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            event = await work
        except Deposed as error:
            _log.info("a change of checkpoint files was left out, because another JobManager leads: %s", error.message)
            return
        self._post(event)

    def _forget(self, key: tuple[JobId, CheckpointId], task: asyncio.Task[None]) -> None:
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled() and task.exception() is not None:
            _log.error("a change of files of checkpoint %s of job %s failed", key[1], key[0], exc_info=task.exception())

    async def _carry_out(self, command: StorageCommand) -> Event:
        match command:
            case CreateLocation():
                return await self._create(command)
            case WriteManifest():
                return await self._write(command)
            case ReadBackManifest():
                return await self._read_back(command)
            case InspectCheckpoints():
                return await self._inspect(command)
            case DiscardCheckpoint() | DiscardSharedFiles():
                places = self._directories.get(command.job_id)
                if places is None or places.cleans_in_parallel:
                    return await self._clean(command, DISCARDS_AT_ONCE)
                async with self._one_discard:
                    return await self._clean(command, 1)

    async def _clean(self, command: DiscardCheckpoint | DiscardSharedFiles, at_once: int) -> Event:
        if isinstance(command, DiscardCheckpoint):
            self._open.pop((command.job_id, command.checkpoint_id), None)
            return await self._discard(command)
        await self._jobs.still_lead(command.job_id)
        return await self._discard_shared(command, at_once)

    async def _create(self, command: CreateLocation) -> LocationCreated:
        job_id, checkpoint_id = command.job_id, command.checkpoint_id
        places = self._directories.get(job_id, JobDirectories(None, None))
        kind, target = command.snapshot_type, command.target_directory
        create = self._storage.create_location
        directory = places.savepoints if kind.is_savepoint else places.checkpoints
        call = partial(create, directory, job_id, checkpoint_id, kind, create_subdir=places.create_subdir)
        if kind.is_savepoint and target is not None:
            call = partial(self._storage.create_location_of_client, target, job_id, checkpoint_id, kind)
        try:
            await self._jobs.reserve_id(job_id, checkpoint_id)
            location = await self._pool.submit(call)
            if kind.is_savepoint:
                await self._jobs.note_savepoint(job_id, checkpoint_id, location)
            shared = self._storage.shared_location(location, kind)
            return LocationCreated(job_id, checkpoint_id, location, shared_location=shared)
        except Deposed:
            raise
        except TidegateError as error:
            return LocationCreated(job_id, checkpoint_id, "", ErrorInfo.of(error))

    async def _write(self, command: WriteManifest) -> ManifestWritten | ManifestWriteFailed:
        key = (command.job_id, command.checkpoint_id)
        check = self._pool.submit(partial(self._storage.check_files, command.location, command.manifest))
        check.add_done_callback(_seen)
        self._open[key] = _OpenWrite(command.manifest, check)
        write = self._pool.submit(partial(self._storage.write_manifest, command.location, command.manifest))
        self._writes[key] = write
        done, _ = await asyncio.wait([write], timeout=self._metadata_timeout_ms / 1000)
        if done:
            outcome = write.result()
        else:
            late = StorageError(
                f"writing {command.location}/_metadata takes longer than {self._metadata_timeout_ms} ms "
                "(tidegate.checkpoint.metadata-timeout)"
            )
            outcome = ManifestWrite(0, late, outcome_unknown=True)
        if not outcome.outcome_unknown:
            del self._writes[key]
        return await self._commit(command, outcome)

    async def _read_back(self, command: ReadBackManifest) -> ManifestWritten | ManifestWriteFailed:
        key = (command.job_id, command.checkpoint_id)
        write = self._writes.pop(key, None)
        if write is not None:
            await asyncio.wait([write])
        while True:
            outcome = await self._pool.submit(partial(self._storage.read_back, command.location))
            if not outcome.outcome_unknown:
                return await self._commit(command, outcome)
            _log.warning("it is still unknown whether a checkpoint was written: %s", outcome.error)
            await asyncio.sleep(READ_BACK_RETRY_MS / 1000)

    async def _commit(
        self, command: WriteManifest | ReadBackManifest, outcome: ManifestWrite
    ) -> ManifestWritten | ManifestWriteFailed:
        """Writes the pointer of a checkpoint, which completes it.

        A savepoint gets none unless its job stops with it: its sinks commit nothing.
        """
        key = (command.job_id, command.checkpoint_id)
        opened = self._open.get(key)
        kind = opened.manifest.snapshot_type if opened is not None else SnapshotType.CHECKPOINT
        is_gone_on_from = not is_memory(command.location) and (kind.is_synchronous or not kind.is_savepoint)
        if outcome.error is None and opened is not None:
            outcome = ManifestWrite(outcome.size_bytes, await _missing(opened.check))
        if outcome.error is None and is_gone_on_from:
            try:
                await self._jobs.commit(*key, command.location)
            except Deposed:
                raise
            except StorageError as error:
                outcome = ManifestWrite(outcome.size_bytes, error)
        if outcome.error is None and opened is not None and is_gone_on_from:
            self._on_completed(command.location, opened.manifest)
        if not outcome.outcome_unknown:
            self._open.pop(key, None)
        return _event_of(command, outcome)

    async def _inspect(self, command: InspectCheckpoints) -> CheckpointsInspected:
        whole = [place for place in command.locations if await self._pool.submit(partial(self._is_whole, place))]
        return CheckpointsInspected(command.job_id, tuple(whole))

    def _is_whole(self, location: str) -> bool:
        try:
            self._storage.read_checkpoint(location)
        except TidegateError as error:
            _log.info("%s cannot be restored: %s", location, error.message)
            return False
        return True

    async def _discard(self, command: DiscardCheckpoint) -> CheckpointDiscarded:
        write = self._writes.pop((command.job_id, command.checkpoint_id), None)
        if write is not None:
            await asyncio.wait([write])  # otherwise the write would recreate the file
        try:
            await self._jobs.may_remove(command.job_id, command.checkpoint_id)
            await self._pool.submit(partial(self._storage.discard, command.location))
            if command.shared_location:
                sweep = partial(self._storage.discard_written_by, command.shared_location)
                await self._pool.submit(partial(sweep, command.job_id, command.checkpoint_id))
        except Deposed:
            raise
        except TidegateError as error:
            return CheckpointDiscarded(command.job_id, command.checkpoint_id, ErrorInfo.of(error))
        return CheckpointDiscarded(command.job_id, command.checkpoint_id)

    async def _discard_shared(self, command: DiscardSharedFiles, at_once: int) -> SharedFilesDiscarded:
        parts = [command.paths[first::at_once] for first in range(min(at_once, len(command.paths)))]
        calls = [self._pool.submit(partial(self._storage.discard_shared, part)) for part in parts]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        failed = [error for error in errors if isinstance(error, BaseException)]
        if not failed:
            return SharedFilesDiscarded(command.job_id, command.checkpoint_id)
        if not isinstance(failed[0], TidegateError):
            raise failed[0]
        return SharedFilesDiscarded(command.job_id, command.checkpoint_id, ErrorInfo.of(failed[0]))


@dataclass(frozen=True, slots=True)
class _OpenWrite:
    """A write of ``_metadata`` that is not settled, with the check of the files that it names."""

    manifest: CheckpointManifest
    check: asyncio.Future[None]


async def _missing(check: asyncio.Future[None]) -> StorageError | None:
    """Returns the error of missing files. A directory that cannot be listed does not fail a checkpoint: it is logged."""
    try:
        await asyncio.shield(check)
    except CheckpointFilesMissing as error:
        return error
    except StorageError as error:
        _log.warning("could not check whether all files of a checkpoint exist: %s", error.message)
    return None


def _seen(check: asyncio.Future[None]) -> None:
    """Retrieves the exception of a failed check, so that asyncio does not log it when the result is not needed."""
    if not check.cancelled():
        check.exception()


def _event_of(
    command: WriteManifest | ReadBackManifest, outcome: ManifestWrite
) -> ManifestWritten | ManifestWriteFailed:
    key = (command.job_id, command.checkpoint_id)
    if outcome.error is None:
        return ManifestWritten(*key, outcome.size_bytes, holds_inline_state=not is_memory(command.location))
    return ManifestWriteFailed(*key, ErrorInfo.of(outcome.error), outcome.outcome_unknown)
