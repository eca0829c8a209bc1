"""Recovers the jobs of an earlier JobManager when a JobManager starts.

A job that cannot be read stays in the store as it is, is logged, and does not keep others from being recovered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidegate.aio.logs import with_ids
from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.events import FoundCheckpoint, JobRecovered
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.clients.submission import Submission
from tidegate.jobmanager.service.core import JobManagerCore
from tidegate.jobmanager.service.high_availability.election import Term
from tidegate.jobmanager.service.high_availability.job_store import JobStore, StoredJob, UnreadableJob
from tidegate.jobmanager.service.high_availability.services import HighAvailability
from tidegate.jobmanager.service.storage.checkpoint_files import JobDirectories
from tidegate.jobmanager.service.storage.inventory import find_checkpoints
from tidegate.model.errors import TidegateError
from tidegate.model.ids import CheckpointId, JobId
from tidegate.store.checkpoints import CheckpointStorage

_log = logging.getLogger("jobmanager")


async def recover_jobs(
    availability: HighAvailability,
    submission: Submission,
    core: JobManagerCore,
    blobs: BlobStore,
    storage: CheckpointStorage,
    pool: Pool,
) -> None:
    """Recovers all jobs before TaskManagers and clients are answered. Raises ``StorageError`` when the store itself cannot be listed."""
    if availability.store is not None:
        await Recovery(availability.store, submission, core, blobs, storage, pool).run(availability.term)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovers the jobs of a job store once."""

    store: JobStore
    submission: Submission
    core: JobManagerCore
    blobs: BlobStore
    storage: CheckpointStorage
    pool: Pool

    async def run(self, term: Term) -> None:
        """Recovers all jobs. Raises ``StorageError`` when the store cannot be listed, ``Deposed`` when another JobManager leads meanwhile."""
        is_complete = True
        for stored in await term.answered(lambda: self.pool.submit(lambda: list(self.store.jobs()))):
            is_complete &= await self._recovered(stored)
        if is_complete:  # otherwise a job that was not recovered may need them
            self.blobs.remove_unclaimed()

    async def _recovered(self, stored: StoredJob | UnreadableJob) -> bool:
        if isinstance(stored, UnreadableJob):
            _log.error(
                "a job is not recovered, and its entry %s is left as it is: %s", stored.place, stored.error.message
            )
            return False

        def find(job_id: JobId, directories: JobDirectories) -> tuple[FoundCheckpoint, ...]:
            return find_checkpoints(self.storage, directories, job_id, stored)

        try:
            submitted, directories, found = await self.submission.check_again(stored.request, find)
        except TidegateError as error:
            message = f"the job is not recovered, and stays in {self.store.directory}: {error.message}"
            _log.error("%s", with_ids(message, job=stored.job_id))
            return False
        whole = [checkpoint.checkpoint_id for checkpoint in found if checkpoint.manifest is not None]
        message = f"this JobManager goes on with {submitted.graph.name!r} of an earlier JobManager from "
        _log.info(
            "%s", with_ids(message + (f"checkpoint {max(whole)}" if whole else "its beginning"), job=stored.job_id)
        )
        begun = [number for number, _ in stored.savepoints] + ([stored.last_id] if stored.last_id is not None else [])
        next_id = CheckpointId(max(begun) + 1) if begun else None
        noted, first_attempt, shape = stored.attempts, stored.attempts.highest + 1, stored.shape
        if shape is not None:
            noted, first_attempt = shape.own(noted), shape.next_attempt(noted)
        recovered = JobRecovered(
            submitted, found, first_attempt, noted, next_id, stored.history, shape, stored.requests
        )
        self.core.recover(recovered, directories)
        return True
