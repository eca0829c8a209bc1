"""Writes the REST responses of a job into its archive when the job has ended (Flink:
``JsonResponseHistoryServerArchivist``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from tidegate.aio.logs import with_ids
from tidegate.aio.pool import Pool
from tidegate.model.errors import TidegateError
from tidegate.model.ids import JobId
from tidegate.store.job_archives import JobArchives

_log = logging.getLogger(__name__)


class Archiving:
    """Archives ended jobs in the background; failures are only logged.

    ``answers``: returns JSON by path for an ended job. ``written``: called after an archive is written.
    """

    def __init__(
        self,
        archives: JobArchives,
        pool: Pool,
        answers: Callable[[JobId], Awaitable[Mapping[str, str]]],
        written: Callable[[], Awaitable[None]],
    ) -> None:
        self._archives = archives
        self._pool = pool
        self._answers = answers
        self._written = written
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()

    def job_terminated(self, job_id: JobId) -> None:
        task = asyncio.create_task(self._archive(job_id), name=f"archive-{job_id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def settled(self) -> None:
        """Waits until all ended jobs are archived."""
        await asyncio.gather(*self._running)

    async def _archive(self, job_id: JobId) -> None:
        answers = await self._answers(job_id)
        try:
            await self._pool.submit(partial(self._archives.write, job_id, answers))
        except TidegateError as error:
            _log.error("%s", with_ids(f"the job is not archived: {error.message}", job=job_id))
            return
        _log.info("%s", with_ids(f"archived in {self._archives.directory}", job=job_id))
        async with self._one_at_a_time:
            await self._written()
