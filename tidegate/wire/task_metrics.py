"""What a ``TaskMetrics`` message counts, under Flink's names. Both processes show it: the JobManager by REST, a TaskManager to
Prometheus.

Rates are over the last seconds between two messages, and absent until there were two.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.channel_events import NO_WATERMARK
from tidegate.pb.common_pb2 import TaskMetrics

RATE_WINDOW_MS = 5_000
"""Rates are over at least this time, when the attempt has been heard of so long."""
PROFILE = "profile."
"""Begins the names of user metrics that are the profile of a subtask: ms by kind of work."""
NANOS_PER_MS = 1_000_000

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
FAILING_COMMIT_TIME = "failingCommitTime"
"""Ours, of each committing sink: for how long its commits have not succeeded, in ms; 0 while nothing is wrong."""

COUNTERS = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    "accumulateBusyTimeMs": "busy_ms",
    "accumulateIdleTimeMs": "idle_ms",
    "accumulateBackPressuredTimeMs": "backpressured_ms",
    LATE_RECORDS_DROPPED: "late_records_dropped",
}
RATES = {
    "numRecordsInPerSecond": "records_in",
    "numRecordsOutPerSecond": "records_out",
    "numBytesInPerSecond": "bytes_in",
    "numBytesOutPerSecond": "bytes_out",
    "busyTimeMsPerSecond": "busy_ms",
    "idleTimeMsPerSecond": "idle_ms",
    "backPressuredTimeMsPerSecond": "backpressured_ms",
}

Value = int | float | str
Reading = tuple[int, TaskMetrics]
"""When it came (Unix ms), and what it said."""


@dataclass(frozen=True, slots=True)
class ReadingSpan:
    """Two readings of one attempt's counters, and the time between them."""

    earlier: TaskMetrics
    later: TaskMetrics
    duration_ms: int
    until_ms: int

    def per_second(self, counter: str) -> float:
        """Growth of one counter."""
        growth = getattr(self.later, counter) - getattr(self.earlier, counter)
        return float(max(0, growth)) * 1000 / self.duration_ms


@dataclass(slots=True)
class Readings:
    """The last reading of an attempt, and one from which rates are computed."""

    later: Reading
    earlier: Reading | None = None

    def add(self, reading: Reading) -> None:
        if self.earlier is None or self.later[0] - self.earlier[0] >= RATE_WINDOW_MS:
            self.earlier = self.later
        self.later = reading

    def span(self) -> ReadingSpan | None:
        """``None`` until there are two readings with time between them."""
        if self.earlier is None or self.later[0] <= self.earlier[0]:
            return None
        (earlier_ms, earlier), (later_ms, later) = self.earlier, self.later
        return ReadingSpan(earlier, later, later_ms - earlier_ms, later_ms)


def late_records_dropped(counters: TaskMetrics) -> dict[str, int]:
    """By operator, of those that dropped some: each counts under its own name."""
    if not counters.late_records_dropped:
        return {}
    suffix = f".{LATE_RECORDS_DROPPED}"
    return {name.removesuffix(suffix): int(n) for name, n in counters.user.items() if name.endswith(suffix) and n}


def failing_commits(counters: TaskMetrics) -> dict[str, int]:
    """For how many ms the commits of a sink have not succeeded, by operator, of those whose commits do not."""
    suffix = f".{FAILING_COMMIT_TIME}"
    return {name.removesuffix(suffix): int(ms) for name, ms in counters.user.items() if name.endswith(suffix) and ms}


def named(counters: TaskMetrics, span: ReadingSpan | None) -> dict[str, Value]:
    """Counters, rates and gauges of a task; user metrics apart (``counters.user``)."""
    found: dict[str, Value] = {name: getattr(counters, field) for name, field in COUNTERS.items()}
    found["currentInputWatermark"] = counters.watermark_ms if counters.HasField("watermark_ms") else NO_WATERMARK
    if counters.HasField("alignment_ms"):
        found["checkpointAlignmentTime"] = round(counters.alignment_ms * NANOS_PER_MS)
        found["checkpointStartDelayNanos"] = round(counters.start_delay_ms * NANOS_PER_MS)
    if span is not None:
        found.update({name: span.per_second(field) for name, field in RATES.items()})
    return found
