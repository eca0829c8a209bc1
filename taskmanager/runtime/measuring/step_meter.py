"""What a step of the mailbox loop cost its subtask.

Time in which other processes had the processor is not the step's: on a busy machine it would make slices tiny, and a
tiny slice costs as much as one of some hundred records. Time in which the step itself waited is its own, if it waited about once
for every few records, as functions do that call a service, and so did the steps before it: now and then every step waits for the
interpreter's lock, and on a busy machine for long, since the thread that has it waits for a processor.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import deque

_COUNTS_WAITS = sys.platform.startswith("linux")
"""Other systems do not report the waits of a single thread; there all time is the step's."""
_MANY = 16
"""So many waits are no accident, however many records there were."""
_FEW_RECORDS = 8
"""A function that calls a service waits for each of them or each few; the interpreter's lock is waited for far less often."""
_STEPS = 4
"""A function that calls a service waits in each of so many steps. Chosen, not measured."""
_LONG_WAIT_MS = 200.0
"""Nothing of ours waits for so long; a function that does so once must not be given many records. Chosen, not measured."""


class StepMeter:
    """For one thread, which makes all calls."""

    def __init__(self) -> None:
        self._cpu_ns = 0
        self._waits = 0
        self._waited_ms: deque[float] = deque(maxlen=_STEPS)
        """For each record of the last steps."""

    def start(self) -> None:
        self._cpu_ns = time.thread_time_ns()
        self._waits = _waits()

    def spent_ms(self, records: int, elapsed_ms: float) -> float:
        """Returns how much of the ``elapsed_ms`` since ``start``, in which this many records were processed, the step
        itself cost."""
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
    """How often the thread gave up the processor to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if _COUNTS_WAITS else 0
