"""The clock of the operating system, which the rest of the runtime gets as a parameter."""

from __future__ import annotations

import time


class SystemClock:
    """Implements ``tidegate.taskmanager.operators.operator.Clock``."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.perf_counter() * 1000.0
