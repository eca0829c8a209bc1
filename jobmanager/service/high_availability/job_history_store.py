"""Stores the history of running jobs for the next JobManager: failures, restarts, checkpoints, and last metrics of ended subtasks.

    JobChanged ─▶ (a second) ─▶ Dispatcher.history ─▶ a file next to the job store

No decision depends on it, so nothing waits for it, and a kill loses the last second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tidegate.aio.logs import with_ids
from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.views import JobHistory
from tidegate.jobmanager.service.high_availability.job_store import JobStore
from tidegate.model.ids import JobId

KEEP_S = 1.0
"""The delay before a changed history is written, in seconds. Chosen, not measured: at most one small file a second."""

_log = logging.getLogger("jobmanager")


class JobHistoryStore:
    """Writes the histories of jobs. Belongs to the loop's thread. ``store``: ``None`` when jobs end with their JobManager, and nothing is stored."""

    def __init__(self, store: JobStore | None, pool: Pool, history_of: Callable[[JobId], JobHistory | None]) -> None:
        self._store = store
        self._pool = pool
        self._history_of = history_of
        self._due: dict[JobId, asyncio.TimerHandle] = {}
        self._writing: set[JobId] = set()

    def changed(self, job_id: JobId) -> None:
        """Notes that the history of a job changed; it is written after ``KEEP_S``."""
        if self._store is not None and job_id not in self._due:
            self._due[job_id] = asyncio.get_running_loop().call_later(KEEP_S, self._keep, job_id)

    async def flush(self) -> None:
        """Writes the job histories that have changed to the high-availability storage; returns when they are written."""
        due = list(self._due)
        self.stop()
        for job_id in due:
            history = self._history_of(job_id)
            if self._store is not None and history is not None:
                await asyncio.wait([self._pool.submit(partial(self._store.keep_history, job_id, history))])

    def stop(self) -> None:
        """Drops changed histories that are not written yet."""
        for timer in self._due.values():
            timer.cancel()
        self._due.clear()

    def _keep(self, job_id: JobId) -> None:
        del self._due[job_id]
        history = self._history_of(job_id)
        if self._store is None or history is None:
            return
        if job_id in self._writing:  # a slow disk: write it again later
            self.changed(job_id)
            return
        self._writing.add(job_id)
        writing = self._pool.submit(partial(self._store.keep_history, job_id, history))
        writing.add_done_callback(partial(self._kept, job_id))

    def _kept(self, job_id: JobId, writing: asyncio.Future[None]) -> None:
        self._writing.discard(job_id)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            _log.warning(
                "%s",
                with_ids(
                    f"the job's history could not be stored, so a new JobManager will not show it: {error}", job=job_id
                ),
            )
