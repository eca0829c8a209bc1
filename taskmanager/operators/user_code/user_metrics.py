"""Metrics that user functions register, based on the metrics of their operator (PyFlink: ``pyflink.metrics``).

Counters are reported as they change; gauges, meters and distributions are read when metrics are reported: nothing is computed per record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidegate.metrics import Counter, Distribution, Meter, MetricGroup
from tidegate.taskmanager.operators.operator import Clock, Metrics

READ_EVERY_MS = 500.0
"""Milliseconds between two stored counts of a meter, at least."""


class OperatorCounter(Counter):
    """A counter of a user's function, stored among the metrics of its operator."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._count = 0
        metrics.add(name, 0)  # it is there from the beginning

    def inc(self, n: int = 1) -> None:
        self._count += n
        self._metrics.add(self._name, n)

    def dec(self, n: int = 1) -> None:
        self.inc(-n)

    def get_count(self) -> int:
        return self._count


class OperatorMeter(Meter):
    """A meter. ``rate``: the growth of the count over the time span (Flink: ``MeterView.java``), or since the start if that is shorter."""

    def __init__(self, clock: Clock, span_ms: float) -> None:
        self._clock = clock
        self._span_ms = span_ms
        self._count = 0
        self._marks: deque[tuple[float, int]] = deque([(clock.monotonic_ms(), 0)])

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def rate(self) -> float:
        """Returns the events per second."""
        now_ms = self._clock.monotonic_ms()
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - self._span_ms:
            marks.popleft()
        since_ms, before = marks[0]
        if now_ms - marks[-1][0] >= READ_EVERY_MS:
            marks.append((now_ms, self._count))
        return 0.0 if now_ms <= since_ms else 1000 * (self._count - before) / (now_ms - since_ms)


class OperatorDistribution(Distribution):
    """A distribution of a user's function: count, sum, minimum and maximum of the values."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.min = 0.0
        self.max = 0.0

    def update(self, value: float) -> None:
        self.min = value if not self.count else min(self.min, value)
        self.max = value if not self.count else max(self.max, value)
        self.count += 1
        self.sum += value

    def mean(self) -> float:
        return self.sum / self.count if self.count else 0.0


class OperatorMetricGroup(MetricGroup):
    """A group of metrics. ``scope``: the prefix of its names. ``known``: shared by all groups of one function."""

    def __init__(
        self, metrics: Metrics, clock: Clock, scope: str = "", known: dict[tuple[str, str], object] | None = None
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._scope = scope
        self._known: dict[tuple[str, str], object] = {} if known is None else known

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        scope = f"{self._scope}{name}." if extra is None else f"{self._scope}{name}.{extra}."
        return OperatorMetricGroup(self._metrics, self._clock, scope, self._known)

    def counter(self, name: str) -> Counter:
        full = self._scope + name
        found = self._known.get(("counter", full))
        if found is None:
            found = self._known["counter", full] = OperatorCounter(self._metrics, full)
        assert isinstance(found, Counter)
        return found

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        self._metrics.watch(self._scope + name, obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        full = self._scope + name
        found = self._known.get(("meter", full))
        if found is None:
            found = self._known["meter", full] = meter = OperatorMeter(self._clock, 1000 * time_span_in_seconds)
            self._metrics.watch(full, meter.rate)
        assert isinstance(found, Meter)
        return found

    def distribution(self, name: str) -> Distribution:
        full = self._scope + name
        found = self._known.get(("distribution", full))
        if found is None:
            found = self._known["distribution", full] = made = OperatorDistribution()
            for part in ("count", "sum", "min", "max"):
                self._metrics.watch(f"{full}.{part}", _field(made, part))
            self._metrics.watch(f"{full}.mean", made.mean)
        assert isinstance(found, Distribution)
        return found


def _field(distribution: OperatorDistribution, name: str) -> Callable[[], float]:
    return lambda: getattr(distribution, name)
