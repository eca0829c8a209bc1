"""Stores attempt numbers in the job store before the attempts are deployed.

Attempts that one event deploys are stored with one write, however many regions they belong to.
"""

from __future__ import annotations

import asyncio

from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs
from tidegate.model.ids import JobId


class AttemptNotes:
    """Pending writes of attempt numbers. Belongs to the loop's thread."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._writing: dict[tuple[JobId, int | None, int], asyncio.Task[None]] = {}
        self._next: dict[JobId, tuple[asyncio.Task[None], dict[int | None, int]]] = {}
        """Writes that have not begun, with the attempt numbers by region."""

    def permit_for(self, job_id: JobId, region: int | None, attempt: int) -> asyncio.Task[None] | None:
        """Returns a task to await before an attempt is deployed; ``None`` when its number is stored already.

        ``region``: the index of the restarting region; ``None``: all regions.
        """
        if self._jobs.is_noted(job_id, region, attempt):
            return None
        key = (job_id, region, attempt)
        if key not in self._writing:
            if job_id not in self._next:
                self._next[job_id] = (asyncio.create_task(self._write(job_id)), {})
            writing, attempts = self._next[job_id]
            attempts[region] = attempt
            self._writing[key] = writing
            writing.add_done_callback(lambda done: self._written(key, done))
        return self._writing[key]

    async def _write(self, job_id: JobId) -> None:
        """Writes the collected numbers, once the event is handled that collected the first of them."""
        _, attempts = self._next.pop(job_id)
        await self._jobs.note_attempts(job_id, attempts)

    def _written(self, key: tuple[JobId, int | None, int], writing: asyncio.Task[None]) -> None:
        del self._writing[key]
        if not writing.cancelled():
            writing.exception()  # reported by the callers that wait for it
