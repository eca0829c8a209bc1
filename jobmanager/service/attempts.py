"""Which attempts count: the last one that was submitted for each subtask of a job that is not over. And their counters."""

from __future__ import annotations

from tidegate.model.ids import AttemptId, JobId, SubtaskId
from tidegate.pb.common_pb2 import TaskMetrics


class CurrentAttempts:
    """Looked up for every message of a task, so by dictionary. Counters outlive the job: they are its last figures."""

    def __init__(self) -> None:
        self._attempts: dict[JobId, dict[SubtaskId, int]] = {}
        self._metrics: dict[JobId, dict[SubtaskId, tuple[int, TaskMetrics]]] = {}

    def submitted(self, attempt: AttemptId) -> None:
        self._attempts.setdefault(attempt.job_id, {})[attempt.subtask_id] = attempt.attempt

    def is_current(self, attempt: AttemptId) -> bool:
        return self._attempts.get(attempt.job_id, {}).get(attempt.subtask_id) == attempt.attempt

    def forget(self, job_id: JobId) -> None:
        """The job is over."""
        self._attempts.pop(job_id, None)

    def measured(self, attempt: AttemptId, metrics: TaskMetrics) -> None:
        """Newer figures; those of an attempt that is over are dropped."""
        latest = self._metrics.get(attempt.job_id, {}).get(attempt.subtask_id)
        if self.is_current(attempt) or (latest is not None and latest[0] == attempt.attempt):
            self._metrics.setdefault(attempt.job_id, {})[attempt.subtask_id] = (attempt.attempt, metrics)

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None:
        found = self._metrics.get(attempt.job_id, {}).get(attempt.subtask_id)
        return found[1] if found is not None and found[0] == attempt.attempt else None
