"""Statistics of many samples: count, sum, minimum and maximum of all, percentiles of the last ones.

Follows Flink's ``StatsSummary.java``, whose percentiles are those of commons-math over a window.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW = 10_000
"""How many values percentiles are computed from: Flink's ``CompletedCheckpointStatsSummary``."""
PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles of Flink's checkpoint statistics."""


@dataclass(frozen=True, slots=True)
class StatsSummary:
    """Statistics of samples. ``ranks``: one for each of ``PERCENTS``. Without samples: zeros, and no ranks."""

    count: int = 0
    total: int = 0
    least: int = 0
    greatest: int = 0
    ranks: tuple[float, ...] = ()


NO_SAMPLES = StatsSummary()


class Samples:
    """Collects whole numbers."""

    def __init__(self, window: int = WINDOW) -> None:
        self._last: deque[int] = deque(maxlen=window)
        self._ordered: list[int] = []
        self._count = self._total = self._least = self._greatest = 0

    def add(self, value: int) -> None:
        if len(self._last) == self._last.maxlen:
            del self._ordered[bisect.bisect_left(self._ordered, self._last[0])]
        self._last.append(value)
        bisect.insort(self._ordered, value)
        self._least = min(self._least, value) if self._count else value
        self._greatest = max(self._greatest, value) if self._count else value
        self._count += 1
        self._total += value

    def summary(self) -> StatsSummary:
        ranks = tuple(percentile(self._ordered, percent) for percent in PERCENTS) if self._count else ()
        return StatsSummary(self._count, self._total, self._least, self._greatest, ranks)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns a percentile of a sorted, non-empty sequence (commons-math ``Percentile``, its default estimate)."""
    position = percent * (len(ordered) + 1) / 100
    if position < 1:
        return float(ordered[0])
    if position >= len(ordered):
        return float(ordered[-1])
    below = math.floor(position)
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])
