"""The mailbox of a subtask: the only way in for other threads, and the only place where the subtask's thread waits.

Laws: mails are taken in the order in which they were put; ``wait`` returns at once if a mail or a ``wake`` came before it, so that no wakeup is lost.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias

from tidegate.taskmanager.runtime.ports import Mail

Steps: TypeAlias = Generator[float, None, None]
"""Work of the subtask's thread as a generator: each yield is the most milliseconds to wait for a mail or a wake. Its driver waits, or runs other work
meanwhile, as the simulator does.
"""

AT_ONCE = 0.0
"""The driver takes mails and does not wait."""
_SAMPLES = 60
"""Number of mails whose latencies are kept: as many as in Flink's histogram of mailbox latencies (``TaskIOMetricGroup.java``)."""
UNTIL_WOKEN = math.inf


class Mailbox:
    """The mails of one subtask. ``put`` and ``wake`` may be called from any thread, the rest from the subtask's thread."""

    def __init__(self, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        """Creates an empty mailbox. ``now_ms``: the clock by which the latency of mails is measured."""
        self._now_ms = now_ms
        self._mails: deque[tuple[float, Mail]] = deque()
        self.taken = 0
        """The number of mails that were taken so far."""
        self.waits_ms: deque[float] = deque(maxlen=_SAMPLES)
        """Latencies of the last mails, in milliseconds."""
        self._condition = threading.Condition()
        self._woken = False

    def put(self, mail: Mail) -> None:
        with self._condition:
            self._mails.append((self._now_ms(), mail))
            self._woken = True
            self._condition.notify()

    def wake(self) -> None:
        """Wakes the subtask's thread without a mail, since a frame arrived or an output has space again."""
        if self._woken:
            return  # still set when the subtask last looked, so it looks again before it sleeps
        with self._condition:
            self._woken = True
            self._condition.notify()

    def take_all(self) -> list[Mail]:
        """Returns all mails in order and removes them. Costs next to nothing when there is none."""
        if not self._mails:
            return []
        with self._condition:
            mails = list(self._mails)
            self._mails.clear()
        now_ms = self._now_ms()
        self.taken += len(mails)
        self.waits_ms.extend(now_ms - put_ms for put_ms, _ in mails)
        return [mail for _, mail in mails]

    def size(self) -> int:
        return len(self._mails)

    def wait(self, timeout_ms: float | None) -> None:
        """Waits until there is a mail or a wake, at most ``timeout_ms`` (``None``: without limit)."""
        timeout_s = None if timeout_ms is None else max(0.0, timeout_ms / 1000)
        with self._condition:
            if not self._woken and not self._mails:
                self._condition.wait(timeout_s)
            self._woken = False
