"""The real clock: the one place of the runtime that asks the operating system for the time."""

from __future__ import annotations

import time


class SystemClock:
    """Implements ``tidegate.taskmanager.operators.base.Clock``."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.perf_counter() * 1000.0
