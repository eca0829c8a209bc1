"""Keeps accepted requests of clients in the job store until they are done, so that the next JobManager finishes them.

    cancel, savepoint, stop ─▶ job store ─▶ machine ─▶ ReportSnapshot ─▶ out of the store ─▶ client
    rescale ─────────────────▶ job store ─▶ machine       (it stays there as long as the job: another one replaces it)
                                   └─ this JobManager is lost ─▶ JobRecovered.requests of the next one

A client gets the outcome only when the store accepts that this JobManager still leads: a leader that was suspended, and that another one has
followed, may see a savepoint fail that the next leader takes, or one succeed that does not count.

A checkpoint that a user triggers is not stored: the next JobManager takes others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tidegate.aio.logs import with_ids
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import ClientRequest, SnapshotRequested
from tidegate.jobmanager.service.clients.snapshot_requests import SnapshotRequests
from tidegate.jobmanager.service.high_availability.kept_jobs import Jobs
from tidegate.model.errors import StorageError, Unreachable
from tidegate.model.ids import JobId
from tidegate.model.states import JobState

_log = logging.getLogger("jobmanager")


class PendingRequests:
    """The open requests of clients in the job store. Belongs to the loop's thread."""

    def __init__(
        self,
        jobs: Jobs,
        snapshots: SnapshotRequests,
        state_of: Callable[[JobId], JobState | None],
        is_ended: Callable[[JobId], Awaitable[bool]],
    ) -> None:
        """Creates it without requests. ``is_ended``: waits until it is known whether the result of an ended job is durable."""
        self._jobs = jobs
        self._snapshots = snapshots
        self._state_of = state_of
        self._is_ended = is_ended
        self._kept: set[str] = set()
        """Ids of snapshot requests that are in the store."""

    async def keep(self, request: ClientRequest) -> None:
        """Stores a request; returns when it is durable. Raises ``Unreachable`` once another JobManager leads."""
        is_checkpoint = isinstance(request, SnapshotRequested) and not request.snapshot_type.is_savepoint
        if is_checkpoint or self._is_over(request.job_id):
            return
        try:
            await self._jobs.note_request(request)
        except Deposed as error:
            raise Unreachable(
                f"this JobManager is no longer the leader and did nothing; send the request to the new leader ({error.message})"
            ) from None
        except StorageError as error:
            what = f"should this JobManager be lost, the next one will not know what was asked for: {error.message}"
            _log.warning("%s", with_ids(what, job=request.job_id))
            return
        if isinstance(request, SnapshotRequested):
            self._kept.add(request.request_id)

    def went_on(self, requests: tuple[ClientRequest, ...]) -> None:
        """Takes over requests that an earlier JobManager stored."""
        for one in requests:
            if isinstance(one, SnapshotRequested):
                self._snapshots.go_on(one)
                self._kept.add(one.request_id)

    async def reported(self, report: ReportSnapshot) -> None:
        """Reports the outcome of a snapshot request to its client and removes it from the store. Requests of an ended job are removed with the
        job.
        """
        job_id = self._snapshots.job_of(report.request_id)
        if job_id is not None and report.request_id in self._kept:
            self._kept.discard(report.request_id)
            if not await self._is_agreed(job_id, report.request_id):
                self._snapshots.lost(report.request_id)
                return
        self._snapshots.reported(report)

    async def _is_agreed(self, job_id: JobId, request_id: str) -> bool:
        if self._is_over(job_id):
            return await self._is_ended(job_id)
        try:
            await self._jobs.forget_request(job_id, request_id)
        except Deposed:
            return False
        except StorageError as error:
            _log.warning(
                "%s",
                with_ids(
                    f"the end of a request could not be stored, so a new JobManager may repeat it: {error.message}",
                    job=job_id,
                ),
            )
        return True

    def _is_over(self, job_id: JobId) -> bool:
        state = self._state_of(job_id)
        return state is None or state.is_terminal
