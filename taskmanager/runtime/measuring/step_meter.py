"""What a step of the mailbox loop cost its subtask.

Time in which other processes had the processor is not the step's: on a busy machine it would make slices tiny, and a
tiny slice costs as much as one of some hundred records. Time in which the step itself waited is its own, if it waited about once
for every few records, as functions do that call a service; now and then every step waits for the interpreter's lock.
"""

from __future__ import annotations

import resource
import sys
import time

_COUNTS_WAITS = sys.platform.startswith("linux")
"""Other systems do not report the waits of a single thread; there all time is the step's."""
_MANY = 16
"""So many waits are no accident, however many records there were."""
_FEW_RECORDS = 8
"""A function that calls a service waits for each of them or each few; the interpreter's lock is waited for far less often."""


class StepMeter:
    """For one thread, which makes all calls."""

    def __init__(self) -> None:
        self._cpu_ns = 0
        self._waits = 0

    def start(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._waits = _waits()

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        """Returns how much of the ``elapsed_ms`` since ``start``, in which this many records were processed, the step
        itself cost."""
        if not _COUNTS_WAITS or _waits() - self._waits >= min(_MANY, max(1, records // _FEW_RECORDS)):
            return elapsed_ms
        return min(elapsed_ms, (time.thread_time_ns() - self._cpu_ns) / 1e6)


def _waits() -> int:
    """How often the thread gave up the processor to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if _COUNTS_WAITS else 0
