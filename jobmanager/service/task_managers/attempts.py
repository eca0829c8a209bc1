"""The current attempt of each subtask of a running job, and the last metrics of attempts and TaskManager processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from google.protobuf.message import DecodeError

from tidegate.aio.driver import wall_clock_ms
from tidegate.jobmanager.machines.views import LastMetrics
from tidegate.jobmanager.service.task_managers.commit_outages import CommitOutages
from tidegate.model.ids import AttemptId, JobId, SubtaskId, TaskManagerId
from tidegate.model.late_records import LateRecords
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import Readings, ReadingSpan, late_records_dropped


class CurrentAttempts:
    """Current attempts and their last metrics, by dictionary, since it is used for every message of a task. Metrics outlive the job."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._attempts: dict[JobId, dict[SubtaskId, AttemptId]] = {}
        self._current: set[AttemptId] = set()
        self._counters: dict[JobId, dict[SubtaskId, tuple[int, Readings]]] = {}
        self._last_reported: dict[JobId, dict[SubtaskId, int]] = {}
        self._late_before: dict[JobId, Counter[str]] = {}
        """Late records that replaced attempts dropped, by operator."""
        self._processes: dict[TaskManagerId, Mapping[str, float]] = {}
        self._outages = CommitOutages()

    def submitted(self, attempt: AttemptId) -> None:
        of_job = self._attempts.setdefault(attempt.job_id, {})
        if (before := of_job.get(attempt.subtask_id)) is not None:
            self._current.discard(before)
            self._outages.replaced(before)
        of_job[attempt.subtask_id] = attempt
        self._current.add(attempt)

    def reported(self, attempt: AttemptId) -> None:
        """Makes an attempt current that a TaskManager runs for a job of an earlier JobManager, unless a later one is known."""
        known = self._attempts.get(attempt.job_id, {}).get(attempt.subtask_id)
        if known is None or known.attempt < attempt.attempt:
            self.submitted(attempt)

    def is_current(self, attempt: AttemptId) -> bool:
        return attempt in self._current

    def forget(self, job_id: JobId) -> None:
        """Removes the attempts of a job that has ended; their metrics stay."""
        self._current.difference_update(self._attempts.pop(job_id, {}).values())
        self._outages.forget(job_id)

    def measured(self, attempt: AttemptId, metrics: TaskMetrics) -> None:
        """Stores newer metrics of a current attempt; those of other attempts are dropped."""
        latest = self._counters_of(attempt)
        reading = (self._now_ms(), metrics)
        if self.is_current(attempt):
            self._outages.measured(attempt, metrics, reading[0])
        if latest is not None:
            if not self._has_reported_last(attempt):
                latest.add(reading)
        elif self.is_current(attempt):
            of_job = self._counters.setdefault(attempt.job_id, {})
            if attempt.subtask_id in of_job:
                before = self._late_before.setdefault(attempt.job_id, Counter())
                before.update(late_records_dropped(of_job[attempt.subtask_id][1].later[1]))
            of_job[attempt.subtask_id] = (attempt.attempt, Readings(reading))

    def measured_last(self, attempt: AttemptId, metrics: TaskMetrics) -> None:
        """Stores the final metrics, which came with the attempt's final state; a heartbeat that arrives later does not replace them."""
        self.measured(attempt, metrics)
        self._last_reported.setdefault(attempt.job_id, {})[attempt.subtask_id] = attempt.attempt

    def metrics_of(self, attempt: AttemptId) -> TaskMetrics | None:
        found = self._counters_of(attempt)
        return None if found is None else found.later[1]

    def span_of(self, attempt: AttemptId) -> ReadingSpan | None:
        """Returns the two readings from which rates are computed; ``None`` before the second message."""
        found = self._counters_of(attempt)
        return None if found is None else found.span()

    def late_records(self, job_id: JobId) -> list[LateRecords]:
        """Returns the late records of the operators that dropped some, sorted by name."""
        now = Counter[str]()
        for _, readings in self._counters.get(job_id, {}).values():
            now.update(late_records_dropped(readings.later[1]))
        before = self._late_before.get(job_id, Counter[str]())
        return [LateRecords(name, now[name], before[name]) for name in sorted(now.keys() | before.keys())]

    def metrics_of_ended(self, job_id: JobId) -> tuple[LastMetrics, ...]:
        """Returns the final metrics of ended attempts, which TaskManagers will not report to the next JobManager."""
        ended = self._last_reported.get(job_id, {})
        found = []
        for subtask, (number, readings) in self._counters.get(job_id, {}).items():
            if ended.get(subtask) == number:
                at_ms, metrics = readings.later
                attempt = AttemptId(job_id, subtask.vertex_id, subtask.index, number)
                found.append(LastMetrics(attempt, at_ms, metrics.SerializeToString()))
        return tuple(found)

    def late_before(self, job_id: JobId) -> Mapping[str, int]:
        """Returns the late records that earlier attempts dropped, by operator."""
        return dict(self._late_before.get(job_id, {}))

    def recall(self, job_id: JobId, last_metrics: Iterable[LastMetrics], late_before: Mapping[str, int]) -> None:
        """Takes over the metrics that an earlier JobManager stored. Unreadable ones are left out: nothing depends on them."""
        self._late_before[job_id] = Counter(late_before)
        for one in last_metrics:
            subtask = one.attempt.subtask_id
            with suppress(DecodeError):
                reading = (one.at_ms, TaskMetrics.FromString(one.metrics))
                self._counters.setdefault(job_id, {})[subtask] = (one.attempt.attempt, Readings(reading))
                self._last_reported.setdefault(job_id, {})[subtask] = one.attempt.attempt

    def process_measured(self, task_manager_id: TaskManagerId, metrics: Mapping[str, float]) -> None:
        whole = {name: int(value) if value.is_integer() else value for name, value in metrics.items()}
        self._processes[task_manager_id] = whole

    def process_gone(self, task_manager_id: TaskManagerId) -> None:
        self._processes.pop(task_manager_id, None)

    def process_metrics_of(self, task_manager_id: TaskManagerId) -> Mapping[str, float]:
        """Returns the metrics of a TaskManager process, by Flink's names where it has them; empty before the first report."""
        return self._processes.get(task_manager_id, {})

    def _has_reported_last(self, attempt: AttemptId) -> bool:
        return self._last_reported.get(attempt.job_id, {}).get(attempt.subtask_id) == attempt.attempt

    def _counters_of(self, attempt: AttemptId) -> Readings | None:
        number, readings = self._counters.get(attempt.job_id, {}).get(attempt.subtask_id, (None, None))
        return readings if number == attempt.attempt else None
