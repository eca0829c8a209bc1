"""How often starts of TaskManagers fail: no more are made while that is too often. Follows Flink's ``ThresholdMeter.java``."""

from __future__ import annotations

import math
from collections import deque

RATE_WINDOW_MS = 60_000
"""A rate is a number in a minute, as in Flink."""


class ThresholdMeter:
    """Failures of the last minute, with what is known of each, for people."""

    def __init__(self, max_per_minute: float) -> None:
        self._max_per_minute = max_per_minute
        self._failures: deque[tuple[int, str]] = deque()

    def mark(self, detail: str, now_ms: int) -> None:
        """A start has failed."""
        self._failures.append((now_ms, detail))
        while self._failures[0][0] <= now_ms - RATE_WINDOW_MS:
            self._failures.popleft()

    @property
    def is_exceeded(self) -> bool:
        """Whether more starts had failed within a minute, at the last failure, than may."""
        return self.count > self._max_per_minute

    @property
    def count(self) -> int:
        """Failures in the minute before the last one."""
        return len(self._failures)

    @property
    def last(self) -> str:
        """What is known of the last failure; empty: there was none."""
        return self._failures[-1][1] if self._failures else ""

    @property
    def last_ms(self) -> float:
        """When the last one failed; before all times: none has."""
        return self._failures[-1][0] if self._failures else -math.inf

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when failures are not in the order of their times, or longer apart than a minute."""
        times = [at_ms for at_ms, _ in self._failures]
        assert times == sorted(times), f"failures at {times}"
        assert not times or times[-1] - times[0] < RATE_WINDOW_MS, f"failures at {times} are longer apart than a minute"
