"""Measures what a step of the mailbox loop cost, without the time in which other processes had the processor.

Time in which other processes had the processor does not count: on a busy machine it would make slices tiny, and a tiny slice costs as much as one of some
hundred records. Waiting time of the step counts if the step, and those before it, waited about once for every few records, as functions that call a service do.
Rare waits do not count: every step sometimes waits for the interpreter's lock, and on a busy machine for long, since the thread that holds it waits for a
processor.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import deque

_COUNTS_WAITS = sys.platform.startswith("linux")
"""Whether the waits of a single thread are known. On other systems all elapsed time counts for the step."""
_MANY = 16
"""A step that waited so often waited by itself, however many records there were."""
_FEW_RECORDS = 8
"""A step waited by itself if it waited at least once for so many records. Waits for the interpreter's lock are far less frequent."""
_STEPS = 4
"""Number of successive steps that must wait before waits count. Chosen, not measured."""
_LONG_WAIT_MS = 200.0
"""A single wait of this length counts for the step at once. Chosen, not measured."""


class StepMeter:
    """Measures the steps of one thread, which makes all calls."""

    def __init__(self) -> None:
        self._cpu_ns = 0
        self._waits = 0
        self._waited_ms: deque[float] = deque(maxlen=_STEPS)
        """Time waited for each record, of the last steps."""

    def start(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._waits = _waits()

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        """Returns what the step itself cost, of the ``elapsed_ms`` since ``start`` in which so many records were processed."""
        if not _COUNTS_WAITS:
            return elapsed_ms
        waits, computed_ms = _waits() - self._waits, (time.thread_time_ns() - self._cpu_ns) / 1e6
        waited_ms = max(0.0, elapsed_ms - computed_ms)
        if waits >= _MANY or (waits and waited_ms >= _LONG_WAIT_MS):
            self._waited_ms.clear()
        elif waits < max(1, records // _FEW_RECORDS):
            waited_ms = 0.0
        self._waited_ms.append(waited_ms / max(1, records))
        return min(elapsed_ms, computed_ms + records * min(self._waited_ms))


def _waits() -> int:
    """Returns how often the thread gave up the processor to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if _COUNTS_WAITS else 0
