"""The processing-time timers of one subtask: a heap that is checked between two steps of the mailbox loop.

Laws: timers fire in the order of their time, equal times in the order of scheduling, never before their time, and never
after ``quiesce`` (Flink: ``ProcessingTimeService.quiesce`` at the end of data).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.taskmanager.operators.operator import Clock

MAX_FIRE_MS = 5.0
"""The longest time in milliseconds that is spent on timers in one step, so that mails do not wait long."""


@dataclass(order=True, slots=True)
class TimerHandle:
    """A scheduled timer, which is also the token to cancel it."""

    at_ms: int
    sequence: int
    callback: Callable[[int], None] | None = field(compare=False)


class TimerQueue:
    """Implements ``tidegate.taskmanager.operators.operator.ProcessingTimers``; used from the subtask's thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[TimerHandle] = []
        self._sequence = 0
        self._quiesced = False

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        timer = TimerHandle(at_ms, self._sequence, callback)
        self._sequence += 1
        if not self._quiesced:
            heapq.heappush(self._heap, timer)
        return timer

    def cancel(self, token: object) -> None:
        assert isinstance(token, TimerHandle), f"not a timer's token: {token!r}"
        token.callback = None

    def next_ms(self) -> int | None:
        """Returns the wall-clock time of the first timer, in milliseconds; ``None`` if there is none."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0].at_ms if self._heap else None

    def fire(self) -> bool:
        """Calls the timers that are due. Returns whether there were any."""
        fired = False
        started_ms = self._clock.monotonic_ms()
        while (at_ms := self.next_ms()) is not None and at_ms <= self._clock.now_ms():
            callback, fired = heapq.heappop(self._heap).callback, True
            if callback is not None:
                callback(at_ms)
            if self._clock.monotonic_ms() - started_ms >= MAX_FIRE_MS:
                break
        return fired

    def quiesce(self) -> None:
        self._quiesced = True
        self._heap.clear()
