"""Which operator of a chain is busy: the time of the subtask's thread, by the operator that it is in.

    enter(a) ─▶ a works ─▶ enter(b) ─▶ b works ─▶ leave ─▶ a works again ─▶ leave

An operator calls the next one while it emits, so time counts for the innermost that was entered, and each moment for one at most.
The clock is read when a batch, a watermark or a timer goes from one to another, never for a record. Serialising what leaves
the chain counts for the operator that emitted it. Flink measures the busy time of a task, not of its operators.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.taskmanager.operators.base import ProcessingTimers

OUTSIDE = -1
"""The loop itself: mails, channels, and what no operator was entered for."""


class OperatorTimes:
    """For the thread of one chain alone. ``operators``: how many it has; ``now_ms``: a clock that never goes back."""

    def __init__(self, operators: int, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._spent_ms = [0.0] * (operators + 1)  # the last one is OUTSIDE
        self._inside = OUTSIDE
        self._since_ms = now_ms()

    def enter(self, operator: int) -> int:
        """What comes now is the work of this one. Returns what ``leave`` has to be given."""
        before = self._inside
        self._count_until_now()
        self._inside = operator
        return before

    def leave(self, before: int) -> None:
        """The work of the operator that was entered last is done."""
        self._count_until_now()
        self._inside = before

    def spent_ms(self, operator: int) -> float:
        """Since the start of the attempt."""
        return self._spent_ms[operator]

    def _count_until_now(self) -> None:
        now_ms = self._now_ms()
        self._spent_ms[self._inside] += now_ms - self._since_ms
        self._since_ms = now_ms


class OperatorTimers:
    """Implements ``tidegate.taskmanager.operators.base.ProcessingTimers`` for one operator: what its timers do is its work."""

    def __init__(self, timers: ProcessingTimers, times: OperatorTimes, operator: int) -> None:
        self._timers = timers
        self._times = times
        self._operator = operator

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        def counted(due_ms: int) -> None:
            before = self._times.enter(self._operator)
            callback(due_ms)
            self._times.leave(before)

        return self._timers.schedule(at_ms, counted)

    def cancel(self, token: object) -> None:
        self._timers.cancel(token)
