"""Measures how often starts of TaskManagers fail, so that none are made while they fail too often. Follows Flink's ``ThresholdMeter.java``."""

from __future__ import annotations

import math
from collections import deque

RATE_WINDOW_MS = 60_000
"""The window of the failure rate, in ms: a minute, as in Flink."""


class ThresholdMeter:
    """The failed starts of the last minute, with a description of each for humans."""

    def __init__(self, max_per_minute: float) -> None:
        self._max_per_minute = max_per_minute
        self._failures: deque[tuple[int, str]] = deque()

    def mark(self, detail: str, now_ms: int) -> None:
        """Counts a failed start."""
        self._failures.append((now_ms, detail))
        while self._failures[0][0] <= now_ms - RATE_WINDOW_MS:
            self._failures.popleft()

    @property
    def is_exceeded(self) -> bool:
        """Tells whether the number of failed starts in the minute before the last failure exceeds the limit."""
        return self.count > self._max_per_minute

    @property
    def count(self) -> int:
        """Returns the number of failures in the minute before the last one."""
        return len(self._failures)

    @property
    def last(self) -> str:
        """Returns the description of the last failure; empty when there was none."""
        return self._failures[-1][1] if self._failures else ""

    @property
    def last_ms(self) -> float:
        """Returns when the last start failed; minus infinity when none has."""
        return self._failures[-1][0] if self._failures else -math.inf

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when failures are out of order or more than a minute apart."""
        times = [at_ms for at_ms, _ in self._failures]
        assert times == sorted(times), f"failures at {times}"
        assert not times or times[-1] - times[0] < RATE_WINDOW_MS, f"failures at {times} are longer apart than a minute"
