"""Computes metrics under Flink's names from ``TaskMetrics`` messages, for the JobManager's REST API and a TaskManager's Prometheus endpoint.

Rates are over the last seconds between two messages, and absent until there were two.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.channel_events import NO_WATERMARK
from tidegate.pb.common_pb2 import TaskMetrics

RATE_WINDOW_MS = 5_000
"""The shortest period of rates, in ms, once the attempt has reported for so long."""
PROFILE = "profile."
"""The prefix of the user metrics with the profile of a subtask: ms by kind of work."""
NANOS_PER_MS = 1_000_000
"""The factor of a metric that Flink has in nanoseconds."""

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
FAILING_COMMIT_TIME = "failingCommitTime"
"""The metric of each committing sink: for how long its commits have failed, in ms; 0 while they succeed. It is tidegate's own."""

BUSY_TIME = "accumulateBusyTimeMs"
"""Flink's name of a task's busy time; here each operator of a chain has it too."""

RESIDENT_MEMORY = "Memory.Resident"
"""The metric of each subtask with a process of its own: its resident bytes without mapped files. It is tidegate's own."""

COUNTERS = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    BUSY_TIME: "busy_ms",
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

INPUT, OUTPUT = "Shuffle.Netty.Input", "Shuffle.Netty.Output"
"""Flink's scopes of an exchange, whatever transport it uses."""
MAIL_LATENCY = "mailboxLatencyMs"
QUANTILES = {"median": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p98": 98.0, "p99": 99.0, "p999": 99.9}
"""The percentiles of a histogram by the names that REST uses."""
_RECEIVED = ("numBuffersInLocal", "numBuffersInRemote", "numBytesInLocal", "numBytesInRemote")
_METRIC_RATES = {
    **{f"{name}PerSecond": name for name in (*_RECEIVED, "numBuffersOut", "numFiredTimers")},
    "mailboxMailsPerSecond": "mailboxMails",
}
_OPERATOR_RATES = {
    "numRecordsInPerSecond": "numRecordsIn",
    "numRecordsOutPerSecond": "numRecordsOut",
    "numBytesInPerSecond": "numBytesIn",
    "numBytesOutPerSecond": "numBytesOut",
    "busyTimeMsPerSecond": BUSY_TIME,
}
_SHARES = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")
"""Rates that are limited to 1,000 ms per second, since two reports may be closer together than the work between them took."""
_WITHOUT_HARD = {"hardBackPressuredTimeMsPerSecond": 0.0, "maxHardBackPressureTimeMs": 0.0}
"""The metrics of hard backpressure, always 0: no subtask waits inside a function, where it could process no mail, so all backpressure is soft."""

Value = int | float | str
Reading = tuple[int, TaskMetrics]
"""A report with the time of its arrival (Unix ms)."""


@dataclass(frozen=True, slots=True)
class ReadingSpan:
    """Two reports on one attempt, and the time between them."""

    earlier: TaskMetrics
    later: TaskMetrics
    duration_ms: int
    until_ms: int

    def per_second(self, counter: str) -> float:
        """Returns the growth of a counter per second."""
        return self._rate(getattr(self.later, counter) - getattr(self.earlier, counter))

    def metric_per_second(self, name: str) -> float:
        """Returns the growth of a runtime metric per second."""
        return self._rate(self.later.figures[name] - self.earlier.figures[name])

    def user_per_second(self, name: str) -> float:
        return self._rate(self.later.user[name] - self.earlier.user[name])

    def _rate(self, growth: float) -> float:
        return float(max(0, growth)) * 1000 / self.duration_ms


@dataclass(slots=True)
class Readings:
    """The last report on an attempt, and an earlier one from which rates are computed."""

    later: Reading
    earlier: Reading | None = None

    def add(self, reading: Reading) -> None:
        if self.earlier is None or self.later[0] - self.earlier[0] >= RATE_WINDOW_MS:
            self.earlier = self.later
        self.later = reading

    def span(self) -> ReadingSpan | None:
        """Returns the pair of reports for rates; ``None`` until there are two with time between them."""
        if self.earlier is None or self.later[0] <= self.earlier[0]:
            return None
        (earlier_ms, earlier), (later_ms, later) = self.earlier, self.later
        return ReadingSpan(earlier, later, later_ms - earlier_ms, later_ms)


def late_records_dropped(counters: TaskMetrics) -> dict[str, int]:
    """Returns the numbers of dropped late records by operator, without operators that dropped none."""
    if not counters.late_records_dropped:
        return {}
    suffix = f".{LATE_RECORDS_DROPPED}"
    return {name.removesuffix(suffix): int(n) for name, n in counters.user.items() if name.endswith(suffix) and n}


def failing_commits(counters: TaskMetrics) -> dict[str, int]:
    """Returns for how many ms the commits of a sink have failed, by operator, without operators whose commits succeed."""
    suffix = f".{FAILING_COMMIT_TIME}"
    return {name.removesuffix(suffix): int(ms) for name, ms in counters.user.items() if name.endswith(suffix) and ms}


def named(counters: TaskMetrics, span: ReadingSpan | None) -> dict[str, Value]:
    """Returns the counters, rates and gauges of a task, without those of its operators (``of_operators``)."""
    found: dict[str, Value] = {name: getattr(counters, field) for name, field in COUNTERS.items()}
    found |= {name: value for name, value in counters.figures.items() if name != "mailboxMails"}
    found["currentInputWatermark"] = counters.watermark_ms if counters.HasField("watermark_ms") else NO_WATERMARK
    if counters.HasField("alignment_ms"):
        found["checkpointAlignmentTime"] = round(counters.alignment_ms * NANOS_PER_MS)
        found["checkpointStartDelayNanos"] = round(counters.start_delay_ms * NANOS_PER_MS)
    if span is not None:
        found.update({name: span.per_second(field) for name, field in RATES.items()})
        found |= {name: min(1000.0, span.per_second(RATES[name])) for name in _SHARES}
        known = counters.figures.keys() & span.earlier.figures.keys() & span.later.figures.keys()
        found |= {rate: span.metric_per_second(name) for rate, name in _METRIC_RATES.items() if name in known}
        found["softBackPressuredTimeMsPerSecond"] = found["backPressuredTimeMsPerSecond"]
        found |= _WITHOUT_HARD
    found |= {f"{INPUT}.{name}": value for name, value in found.items() if name.removesuffix("PerSecond") in _RECEIVED}
    return found


def of_operators(counters: TaskMetrics, span: ReadingSpan | None) -> dict[str, float]:
    """Returns the metrics of operators as ``<operator>.<name>``: those of the runtime with their rates, and those of operators and functions."""
    found = dict(counters.user)
    if span is None:
        return found
    for operator in counters.operator_ids:
        for rate, name in _OPERATOR_RATES.items():
            counted = f"{operator}.{name}"
            if counted in span.earlier.user and counted in span.later.user:
                found[f"{operator}.{rate}"] = span.user_per_second(counted)
    return found


def busy_operators(span: ReadingSpan) -> dict[str, float]:
    """Returns the share of its time, 0 to 1, in which the subtask worked on each operator of its chain, by name."""
    found: dict[str, float] = {}
    for operator in span.later.operator_ids:
        name = f"{operator}.{BUSY_TIME}"
        if name in span.earlier.user and name in span.later.user:
            found[operator] = min(1.0, span.user_per_second(name) / 1000)
    return found
