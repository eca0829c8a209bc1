"""Tracks snapshots that users requested, and keeps their outcomes for a while.

    begin, go_on ─▶ SnapshotRequested ─▶ machine ─▶ ReportSnapshot ─▶ reported ─▶ waiting and later callers

A caller that stops waiting does not stop the snapshot. Outcomes are dropped after ``KEPT_MS`` (Flink: ``rest.async.store-duration``).
"""

from __future__ import annotations

import asyncio
import secrets

from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import SnapshotRequested
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import Misuse, Unreachable
from tidegate.model.ids import JobId
from tidegate.store.client_places import ClientPlace

KEPT_MS = 300_000
"""How long an outcome is kept, in ms: Flink's default of ``rest.async.store-duration``."""


class SnapshotRequests:
    """Open and recently finished snapshot requests. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._ends: dict[tuple[JobId, str], asyncio.Future[ReportSnapshot]] = {}
        self._jobs: dict[str, JobId] = {}

    def begin(
        self,
        job_id: JobId,
        snapshot_type: SnapshotType,
        target_directory: ClientPlace | None = None,
        *,
        is_full: bool = False,
        request_id: str = "",
    ) -> SnapshotRequested:
        """Registers a request and returns its event for the machine. ``request_id``: chosen by the client; empty: a random one."""
        request = SnapshotRequested(
            job_id, request_id or secrets.token_hex(16), snapshot_type, target_directory, is_full
        )
        self.go_on(request)
        return request

    def go_on(self, request: SnapshotRequested) -> None:
        """Registers a request that an earlier JobManager accepted, so that clients can ask for its outcome."""
        self._jobs[request.request_id] = request.job_id
        self._ends[request.job_id, request.request_id] = asyncio.get_running_loop().create_future()

    def is_known(self, job_id: JobId, request_id: str) -> bool:
        """Tells whether the request is in progress, or ended recently."""
        return (job_id, request_id) in self._ends

    def job_of(self, request_id: str) -> JobId | None:
        """Returns the job of a request in progress; ``None`` when it is unknown or over."""
        return self._jobs.get(request_id)

    def reported(self, report: ReportSnapshot) -> None:
        """Sets the outcome of a request; waiting callers get it."""
        end = self._open(report.request_id)
        if end is not None:
            end.set_result(report)

    def lost(self, request_id: str) -> None:
        """Fails the callers of a request with ``Unreachable``, because another JobManager leads and knows its outcome."""
        end = self._open(request_id)
        if end is not None:
            end.set_exception(Unreachable("this JobManager leads no more; ask the next one how it ended"))
            end.exception()  # retrieved, so that asyncio does not log it as unhandled

    def _open(self, request_id: str) -> asyncio.Future[ReportSnapshot] | None:
        job_id = self._jobs.pop(request_id, None)
        end = self._ends.get((job_id, request_id)) if job_id is not None else None
        if job_id is None or end is None or end.done():
            return None
        asyncio.get_running_loop().call_later(KEPT_MS / 1000, self._ends.pop, (job_id, request_id), None)
        return end

    async def end_of(self, job_id: JobId, request_id: str, wait_ms: int) -> ReportSnapshot | None:
        """Waits up to ``wait_ms`` for the outcome; ``None`` when the snapshot is still in progress.

        Raises ``Misuse`` for an unknown request, and ``Unreachable`` when another JobManager knows the outcome.
        """
        end = self._ends.get((job_id, request_id))
        if end is None:
            raise Misuse(
                f"job {job_id} has no savepoint or checkpoint request {request_id}; results are kept for 5 minutes"
            )
        done, _ = await asyncio.wait([end], timeout=wait_ms / 1000)
        return end.result() if done else None
