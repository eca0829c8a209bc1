"""Snapshots that users asked for: from the request to its end, which is kept for a while.

    begin ─▶ SnapshotRequested ─▶ machine ─▶ ReportSnapshot ─▶ reported ─▶ waiting and later callers

A caller that stops waiting does not stop the snapshot. Ends are forgotten after ``KEPT_MS`` (Flink: ``rest.async.store-duration``).
"""

from __future__ import annotations

import asyncio
import secrets

from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import SnapshotRequested
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import Misuse
from tidegate.model.ids import JobId

KEPT_MS = 300_000
"""Flink's default of ``rest.async.store-duration``."""


class SnapshotRequests:
    """Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._ends: dict[tuple[JobId, str], asyncio.Future[ReportSnapshot]] = {}
        self._jobs: dict[str, JobId] = {}

    def begin(
        self, job_id: JobId, snapshot_type: SnapshotType, target_directory: str | None = None, *, is_full: bool = False
    ) -> SnapshotRequested:
        """The event to post; its ``request_id`` is the name of the request from now on."""
        request_id = secrets.token_hex(16)
        self._jobs[request_id] = job_id
        self._ends[job_id, request_id] = asyncio.get_running_loop().create_future()
        return SnapshotRequested(job_id, request_id, snapshot_type, target_directory, is_full)

    def reported(self, report: ReportSnapshot) -> None:
        """It is over."""
        job_id = self._jobs.pop(report.request_id, None)
        end = self._ends.get((job_id, report.request_id)) if job_id is not None else None
        if job_id is None or end is None or end.done():
            return
        end.set_result(report)
        asyncio.get_running_loop().call_later(KEPT_MS / 1000, self._ends.pop, (job_id, report.request_id), None)

    async def end_of(self, job_id: JobId, request_id: str, wait_ms: int) -> ReportSnapshot | None:
        """How it ended; ``None`` when it goes on after so long. Raises ``Misuse`` for a request that is not known."""
        end = self._ends.get((job_id, request_id))
        if end is None:
            raise Misuse(
                f"no savepoint or checkpoint request {request_id} of job {job_id}; ends are kept for 5 minutes"
            )
        done, _ = await asyncio.wait([end], timeout=wait_ms / 1000)
        return end.result() if done else None
