"""A TaskManager with one sink: it obeys the highest term it has seen, and commits what is confirmed to it."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.laws import Law, require
from tidegate.model import fencing
from tidegate.model.ids import Generation


class SimTaskManager:
    def __init__(self, is_over: Callable[[], bool]) -> None:
        """``is_over``: the job has a result."""
        self._is_over = is_over
        self.highest: Generation | None = None
        self.attempt = -1
        self.committed = 0
        """The newest checkpoint whose rows are visible."""

    def _obeys(self, generation: Generation) -> bool:
        if fencing.fenced_off(generation, self.highest) is not None:
            return False
        if self.highest is not None:
            term, seen = fencing.term_of(generation), fencing.term_of(self.highest)
            is_newer = term > seen or generation == self.highest
            require(Law.OBEDIENCE, is_newer, f"obeyed {generation} after {self.highest}")
        self.highest = fencing.highest_of(generation, self.highest)
        return True

    def deploy(self, generation: Generation, attempt: int, restored: int) -> bool:
        is_repeated = generation == self.highest and attempt == self.attempt
        if is_repeated or not self._obeys(generation):
            return is_repeated
        require(Law.RESULT, not self._is_over(), "a job with a result runs again")
        require(Law.OBEDIENCE, self.committed <= restored, f"restored {restored}, and {self.committed} was committed")
        require(Law.OBEDIENCE, attempt > self.attempt, f"attempt {attempt} after {self.attempt}")
        self.attempt, self.committed = attempt, restored
        return True

    def trigger(self, generation: Generation, attempt: int) -> bool:
        return self._obeys(generation) and attempt == self.attempt

    def confirm(self, generation: Generation, attempt: int, number: int) -> bool:
        """Whether it was answered; a refusal is an answer too."""
        if self._obeys(generation) and attempt == self.attempt:
            self.committed = max(self.committed, number)
        return True
