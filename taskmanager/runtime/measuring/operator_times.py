"""Measures the busy time of each operator of a chain, by the operator that the subtask's thread is in.

    enter(a) ─▶ a works ─▶ enter(b) ─▶ b works ─▶ leave ─▶ a works again ─▶ leave

An operator calls the next one while it emits, so time counts for the innermost operator that was entered, and for no other. The clock is read when a batch, a
watermark or a timer passes from one operator to another, never for a record. The serialization of the chain's output counts for the operator that emitted it.
Flink measures the busy time of a task, not of its operators.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.taskmanager.operators.operator import ProcessingTimers

OUTSIDE = -1
"""The position that stands for time outside all operators: mails, channels, the loop itself."""


class OperatorTimes:
    """The busy times of the operators of one chain, used in the subtask's thread. ``operators``: their number. ``now_ms``: a monotonic clock."""

    def __init__(self, operators: int, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._spent_ms = [0.0] * (operators + 1)  # the last one is OUTSIDE
        self._inside = OUTSIDE
        self._since_ms = now_ms()

    def enter(self, operator: int) -> int:
        """Counts the time from now on for this operator. Returns the token for ``leave``."""
        before = self._inside
        self._count_until_now()
        self._inside = operator
        return before

    def leave(self, before: int) -> None:
        """Ends the work of the operator that was entered last; time counts for the operator before it again."""
        self._count_until_now()
        self._inside = before

    def spent_ms(self, operator: int) -> float:
        """Returns the milliseconds spent in an operator since the start of the attempt."""
        return self._spent_ms[operator]

    def _count_until_now(self) -> None:
        now_ms = self._now_ms()
        self._spent_ms[self._inside] += now_ms - self._since_ms
        self._since_ms = now_ms


class OperatorTimers:
    """Schedules the timers of one operator, and counts what they do as its busy time. Implements ``ProcessingTimers``."""

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
