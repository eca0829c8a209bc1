"""Which attempts count: the last one that was submitted for each subtask of a job that is not over. And their counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.aio.driver import wall_clock_ms
from tidegate.model.ids import AttemptId, JobId, SubtaskId
from tidegate.pb.common_pb2 import TaskMetrics

RATE_WINDOW_MS = 5_000
"""Rates are over at least this time, when the attempt has been heard of so long."""

Reading = tuple[int, TaskMetrics]
"""When it came, and what it said."""


@dataclass(slots=True)
class _Counters:
    attempt: int
    earlier: Reading | None
    later: Reading

    def add(self, reading: Reading) -> None:
        if self.earlier is None or self.later[0] - self.earlier[0] >= RATE_WINDOW_MS:
            self.earlier = self.later
        self.later = reading


class CurrentAttempts:
    """Looked up for every message of a task, so by dictionary. Counters outlive the job: they are its last figures."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._attempts: dict[JobId, dict[SubtaskId, AttemptId]] = {}
        self._current: set[AttemptId] = set()
        self._counters: dict[JobId, dict[SubtaskId, _Counters]] = {}

    def submitted(self, attempt: AttemptId) -> None:
        of_job = self._attempts.setdefault(attempt.job_id, {})
        if (before := of_job.get(attempt.subtask_id)) is not None:
            self._current.discard(before)
        of_job[attempt.subtask_id] = attempt
        self._current.add(attempt)

    def is_current(self, attempt: AttemptId) -> bool:
        return attempt in self._current

    def forget(self, job_id: JobId) -> None:
        """The job is over."""
        self._current.difference_update(self._attempts.pop(job_id, {}).values())

    def measured(self, attempt: AttemptId, metrics: TaskMetrics) -> None:
        """Newer figures; those of an attempt that is over are dropped."""
        latest = self._counters_of(attempt)
        reading = (self._now_ms(), metrics)
        if latest is not None:
            latest.add(reading)
        elif self.is_current(attempt):
            of_job = self._counters.setdefault(attempt.job_id, {})
            of_job[attempt.subtask_id] = _Counters(attempt.attempt, None, reading)

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None:
        found = self._counters_of(attempt)
        return None if found is None else found.later[1]

    def readings_of(self, attempt: AttemptId) -> tuple[Reading, Reading] | None:
        """An earlier and the last reading, to compute rates from; ``None`` before the second."""
        found = self._counters_of(attempt)
        return None if found is None or found.earlier is None else (found.earlier, found.later)

    def _counters_of(self, attempt: AttemptId) -> _Counters | None:
        found = self._counters.get(attempt.job_id, {}).get(attempt.subtask_id)
        return found if found is not None and found.attempt == attempt.attempt else None
