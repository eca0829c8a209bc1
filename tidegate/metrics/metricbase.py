"""Metrics that a function registers in ``open`` (PyFlink: ``pyflink.metrics.metricbase``).

They count in the subtask, and are reported with its other metrics as ``<operator>.<group ...>.<name>``: a counter as its count, a gauge as
what its function returns, a meter as its rate per second, a distribution as ``<name>.count``, ``.sum``, ``.min``, ``.max``, ``.mean``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class Metric(ABC):  # noqa: B024  (a common name)
    """A metric of a function: the base of all metrics."""


class Counter(Metric, ABC):
    """A metric that counts up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Adds ``n``."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtracts ``n``."""

    @abstractmethod
    def get_count(self) -> int:
        """Returns the count of this subtask."""


class Meter(Metric, ABC):
    """A metric with the rate of an event, per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Counts ``value`` events."""

    @abstractmethod
    def get_count(self) -> int:
        """Returns the number of events since the start of the attempt."""


class Distribution(Metric, ABC):
    """A metric with count, sum, minimum, maximum and mean of values."""

    @abstractmethod
    def update(self, value: float) -> None:
        """Adds a value."""


class MetricGroup(ABC):
    """Registers the metrics of a function. A name that is registered twice is one metric."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns a group inside this one; with ``extra`` two nested groups, for a key and its value."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Registers a counter."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Registers a gauge. ``obj``: returns its value; called between two steps of the subtask whenever metrics are reported. A gauge that raises is
        left out."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Registers a meter, whose rate is the mean over the last ``time_span_in_seconds``."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Registers a distribution."""
