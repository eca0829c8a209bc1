"""Metrics that were measured and not yet reported, of tasks and of this process. The next heartbeat takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from tidegate.aio.driver import wall_clock_ms
from tidegate.model.ids import AttemptId
from tidegate.pb.common_pb2 import CheckpointMetrics, TaskMetrics
from tidegate.wire.task_metrics import Readings


class PendingMetrics:
    """The metrics of the tasks on this TaskManager, for the next heartbeat. The last ones of an ended task stay as long as its attempt is reported."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._tasks: dict[AttemptId, Readings] = {}
        self._acknowledged: dict[AttemptId, CheckpointMetrics] = {}
        self._fresh_tasks: set[AttemptId] = set()
        self._is_process_fresh = False
        self.process: Mapping[str, float] = {}

    def measured(self, attempt: AttemptId, metrics: TaskMetrics) -> None:
        """Takes the metrics of a task, and adds those of its last checkpoint."""
        if (acknowledged := self._acknowledged.get(attempt)) is not None:
            metrics.alignment_ms, metrics.start_delay_ms = acknowledged.alignment_ms, acknowledged.start_delay_ms
        reading = (self._now_ms(), metrics)
        if (readings := self._tasks.get(attempt)) is not None:
            readings.add(reading)
        else:
            self._tasks[attempt] = Readings(reading)
        self._fresh_tasks.add(attempt)

    def acknowledged(self, attempt: AttemptId, metrics: CheckpointMetrics) -> None:
        self._acknowledged[attempt] = metrics

    def process_measured(self, metrics: Mapping[str, float]) -> None:
        self.process, self._is_process_fresh = metrics, True

    def keep_only(self, attempts: Set[AttemptId]) -> None:
        """Forgets the metrics of all other attempts."""
        for attempt in self._tasks.keys() - attempts:
            del self._tasks[attempt]
        for attempt in self._acknowledged.keys() - attempts:
            del self._acknowledged[attempt]
        self._fresh_tasks &= attempts

    def tasks(self) -> Iterator[tuple[AttemptId, Readings]]:
        return iter(self._tasks.items())

    def take_tasks(self) -> dict[str, TaskMetrics]:
        """Returns the metrics that are new since the last call, by attempt."""
        fresh = {str(attempt): self._tasks[attempt].later[1] for attempt in self._fresh_tasks}
        self._fresh_tasks.clear()
        return fresh

    def last_of(self, attempt: AttemptId) -> TaskMetrics | None:
        """Returns the last metrics of an attempt; ``None`` if it has reported none."""
        found = self._tasks.get(attempt)
        return None if found is None else found.later[1]

    def take_process(self) -> Mapping[str, float]:
        """Returns the new metrics of the process; empty when there are none."""
        fresh = self.process if self._is_process_fresh else {}
        self._is_process_fresh = False
        return fresh
