"""Requests of clients that an earlier JobManager had accepted and not finished when it was lost: cancellations, stops, savepoints.

    JobRecovered.requests ─┬─ a cancellation ─▶ once it is known which subtasks run: they are canceled, and nothing is deployed
                           └─ snapshots ──────▶ once the job runs: requested again, under their old ids
                                      └──────▶ the job ends before that: reported as failed

In Flink they are lost with the JobManager, and the job goes on.
"""

from __future__ import annotations

from tidegate.jobmanager.machines.command_buffer import CommandBuffer
from tidegate.jobmanager.machines.commands import ReportSnapshot
from tidegate.jobmanager.machines.events import JobCancelRequested, JobRecovered, JobSubmitted, SnapshotRequested
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import JobState


class CarriedOverRequests:
    """Requests of clients that an earlier JobManager had accepted and not finished: a cancellation, stops, savepoints and checkpoints on demand."""

    def __init__(self, event: JobSubmitted | JobRecovered, buffer: CommandBuffer) -> None:
        requests = event.requests if isinstance(event, JobRecovered) else ()
        self._buffer = buffer
        self.is_cancellation = any(isinstance(request, JobCancelRequested) for request in requests)
        self._snapshots = [request for request in requests if isinstance(request, SnapshotRequested)]

    def take(self) -> list[SnapshotRequested]:
        """Returns and removes the requests that are still open."""
        taken, self._snapshots = self._snapshots, []
        return taken

    def close(self, state: JobState) -> None:
        """Reports open requests as failed, because the job has ended in ``state``."""
        for request in self.take():
            text = f"the JobManager that took the request was lost, and the job is {state.value}"
            self._buffer.emit(
                ReportSnapshot(request.request_id, None, "", ErrorInfo("checkpoint-failed", "external", text))
            )

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a request would be reported twice."""
        ids = [request.request_id for request in self._snapshots]
        assert len(set(ids)) == len(ids), f"{ids} has one twice"
