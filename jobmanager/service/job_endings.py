"""`JobEndings`: how far the end of each job is settled: result, report, cleanup.

    begun ─▶ over: its result is being kept ─▶ durable: its end is reported ─▶ clean: nothing of it is under way ─▶ forgotten

The result is stored before the end is reported, so that no JobManager runs a job again after clients have seen its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidegate.aio.logs import with_ids
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.programs.blobs import BlobStore
from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs
from tidegate.model.errors import StorageError
from tidegate.model.ids import JobId
from tidegate.model.states import JobState

_log = logging.getLogger("jobmanager")


class JobEndings:
    """Stores the results of ended jobs and cleans up. ``on_durable`` is called once for each job whose result is durable."""

    def __init__(self, jobs: Jobs, blobs: BlobStore, on_durable: Callable[[JobId], None]) -> None:
        self._jobs = jobs
        self._blobs = blobs
        self._on_durable = on_durable
        self._begun: set[JobId] = set()
        self._keeping: dict[JobId, asyncio.Task[None]] = {}
        """Ended jobs, with the task that stores the result of each."""
        self._durable: set[JobId] = set()
        self._clean: dict[JobId, asyncio.Event] = {}
        """Ended jobs, with an event that is set when no work for them is in progress."""

    def begin(self, job_id: JobId) -> None:
        """Notes that a job runs under this JobManager."""
        self._begun.add(job_id)

    def is_known(self, job_id: JobId) -> bool:
        """Tells whether the job was submitted to or recovered by this JobManager."""
        return job_id in self._begun

    def keep_result(self, job_id: JobId, state: JobState) -> None:
        """Starts to store the result of an ended job. Idempotent."""
        if job_id not in self._keeping:
            self._clean[job_id] = asyncio.Event()
            self._keeping[job_id] = asyncio.create_task(self._keep(job_id, state), name=f"result-{job_id}")

    def is_durable(self, job_id: JobId) -> bool:
        """Tells whether the job has ended and its result is durable, so that no JobManager runs it again."""
        return job_id in self._durable

    async def is_ended(self, job_id: JobId) -> bool:
        """Waits for a result that is being stored; returns the same as ``is_durable``."""
        if job_id in self._keeping:
            await asyncio.wait([self._keeping[job_id]])
        return job_id in self._durable

    def cleaned(self, job_id: JobId) -> None:
        """Notes that no work for the job is in progress."""
        self._clean.setdefault(job_id, asyncio.Event()).set()

    async def wait_clean(self, limit_s: float) -> None:
        """Waits until no work for ended jobs is in progress, at most ``limit_s`` seconds."""
        waiting = [asyncio.create_task(clean.wait()) for clean in self._clean.values() if not clean.is_set()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=limit_s)
            for one in late:
                one.cancel()

    async def forget(self, job_id: JobId) -> None:
        """Removes the stored state of an ended job, once its result is durable."""
        if job_id in self._keeping:
            await self._keeping[job_id]
        if job_id not in self._durable:
            return
        try:
            await self._jobs.remove(job_id)
        except StorageError as error:  # another leader, or the next one, may run the job again and need its blobs
            _log.warning("%s", with_ids(error.message, job=job_id))
        else:
            self._blobs.release(job_id)

    async def settled(self) -> None:
        """Waits until no result is being stored."""
        await asyncio.gather(*self._keeping.values(), return_exceptions=True)

    async def _keep(self, job_id: JobId, state: JobState) -> None:
        try:
            await self._jobs.end(job_id, state)
        except Deposed:
            return
        except StorageError as error:
            _log.error(
                "%s",
                with_ids(
                    f"the end of the job could not be stored, so a new JobManager goes on with the job from its last checkpoint: {error.message}",
                    job=job_id,
                ),
            )
        self._durable.add(job_id)
        self._on_durable(job_id)
