"""Logs that a sink's commits fail, since its job stays RUNNING and its checkpoints complete.

a figure above 0 ─▶ warning ─▶ again every 30 s ─▶ the figure is 0 again: they succeed
                          └─ the attempt is replaced, or its job over ─▶ nothing more is said
"""

from __future__ import annotations

import logging

from tidegate.model.ids import AttemptId, JobId
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import failing_commits

WARN_EVERY_MS = 30_000
"""The interval of repeated warnings, in ms: the same as in the subtask's own log."""

_LOG = logging.getLogger(__name__)


class CommitOutages:
    """Logs a warning when commits of a sink keep failing, repeated at most every ``WARN_EVERY_MS`` for each operator of an attempt."""

    def __init__(self) -> None:
        self._warned_ms: dict[AttemptId, dict[str, int]] = {}
        """When the last warning was written, by attempt and operator whose commits fail."""

    def measured(self, attempt: AttemptId, metrics: TaskMetrics, now_ms: int) -> None:
        failing = failing_commits(metrics)
        before = self._warned_ms.pop(attempt, {})
        for operator, lasting_ms in failing.items():
            if operator in before and now_ms - before[operator] < WARN_EVERY_MS:
                continue
            before[operator] = now_ms
            _LOG.warning(
                "job %s: commits of operator '%s', subtask %d, have not succeeded for %.0f s, so readers see nothing new of it; "
                "the log of its TaskManager says why",
                *(attempt.job_id, operator, attempt.subtask, lasting_ms / 1000),
            )
        for operator in before.keys() - failing.keys():
            _LOG.warning(
                "job %s: commits of operator '%s', subtask %d, succeed again", attempt.job_id, operator, attempt.subtask
            )
        if failing:
            self._warned_ms[attempt] = {operator: before[operator] for operator in failing}

    def replaced(self, attempt: AttemptId) -> None:
        self._warned_ms.pop(attempt, None)

    def forget(self, job_id: JobId) -> None:
        for attempt in [found for found in self._warned_ms if found.job_id == job_id]:
            del self._warned_ms[attempt]
