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
"""Flink has this metric in nanoseconds."""

LATE_RECORDS_DROPPED = "numLateRecordsDropped"
FAILING_COMMIT_TIME = "failingCommitTime"
"""Ours, of each committing sink: for how long its commits have not succeeded, in ms; 0 while nothing is wrong."""

BUSY_TIME = "accumulateBusyTimeMs"
"""Flink's name for a task; here each operator of a chain has it too."""

RESIDENT_MEMORY = "Memory.Resident"
"""Ours, of each subtask that has a process: its bytes without what it maps from files."""

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
"""Flink's scopes of an exchange, whatever it is made of."""
MAIL_LATENCY = "mailboxLatencyMs"
QUANTILES = {"median": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p98": 98.0, "p99": 99.0, "p999": 99.9}
"""Parts of a histogram's name in REST, by percent."""
_RECEIVED = ("numBuffersInLocal", "numBuffersInRemote", "numBytesInLocal", "numBytesInRemote")
_FIGURE_RATES = {
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
"""A second has 1,000 ms, though two reports may lie closer together than the work between them took."""
_WITHOUT_HARD = {"hardBackPressuredTimeMsPerSecond": 0.0, "maxHardBackPressureTimeMs": 0.0}
"""No subtask waits inside of a function, where it could serve no mail: all backpressure is soft."""

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
        return self._rate(getattr(self.later, counter) - getattr(self.earlier, counter))

    def figure_per_second(self, name: str) -> float:
        """Growth of a figure of the runtime."""
        return self._rate(self.later.figures[name] - self.earlier.figures[name])

    def user_per_second(self, name: str) -> float:
        return self._rate(self.later.user[name] - self.earlier.user[name])

    def _rate(self, growth: float) -> float:
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
    """Counters, rates and gauges of a task; those of its operators apart (``of_operators``)."""
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
        found |= {rate: span.figure_per_second(name) for rate, name in _FIGURE_RATES.items() if name in known}
        found["softBackPressuredTimeMsPerSecond"] = found["backPressuredTimeMsPerSecond"]
        found |= _WITHOUT_HARD
    found |= {f"{INPUT}.{name}": value for name, value in found.items() if name.removesuffix("PerSecond") in _RECEIVED}
    return found


def of_operators(counters: TaskMetrics, span: ReadingSpan | None) -> dict[str, float]:
    """``<operator>.<name>``: what the runtime counts of each operator, and what operators and functions add, with rates of the first."""
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
    """The share of its time, between 0 and 1, in which the subtask worked on each operator of its chain, by name."""
    found: dict[str, float] = {}
    for operator in span.later.operator_ids:
        name = f"{operator}.{BUSY_TIME}"
        if name in span.earlier.user and name in span.later.user:
            found[operator] = min(1.0, span.user_per_second(name) / 1000)
    return found
