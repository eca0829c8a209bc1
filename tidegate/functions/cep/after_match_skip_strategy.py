"""After-match skip strategies: which matches are discarded after one was found (Flink: ``AfterMatchSkipStrategy``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.errors import UserFunctionError

EventId: TypeAlias = tuple[int, int]
"""The id of an event: its time in ms, and its number among the events of that time."""
Match: TypeAlias = Mapping[str, Sequence[EventId]]


class AfterMatchSkipStrategy(ABC):
    """Decides which other matches and partial matches are discarded when a match is found."""

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Returns the strategy that emits every possible match."""
        return NoSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Returns the strategy that emits only the first of the matches that start with the same event."""
        return SkipToNextStrategy()

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Returns the strategy that discards matches which start before or with the last event of a match."""
        return SkipPastLastStrategy()

    @staticmethod
    def skip_to_first(pattern_name: str) -> SkipToElementStrategy:
        """Returns the strategy that discards matches which start before the first event of that stage in a match."""
        return SkipToElementStrategy(pattern_name, is_last=False)

    @staticmethod
    def skip_to_last(pattern_name: str) -> SkipToElementStrategy:
        """Returns the strategy that discards matches which start before the last event of that stage in a match."""
        return SkipToElementStrategy(pattern_name, is_last=True)

    @property
    def is_skip_strategy(self) -> bool:
        """Returns whether the strategy discards any matches."""
        return True

    @property
    def pattern_name(self) -> str | None:
        """Returns the stage that is skipped to; ``None``: there is none."""
        return None

    @abstractmethod
    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        """Returns the event before which no other match may start, and whether one may not start with it either; ``None``: no match is discarded."""


@dataclass(frozen=True, slots=True)
class NoSkipStrategy(AfterMatchSkipStrategy):
    """Keeps every match."""

    @property
    def is_skip_strategy(self) -> bool:
        """Returns false: no match is discarded."""
        return False

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return None


@dataclass(frozen=True, slots=True)
class SkipToNextStrategy(AfterMatchSkipStrategy):
    """Discards the other matches that start with the same event as an emitted one."""

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return min(events[0] for events in match.values()), True


@dataclass(frozen=True, slots=True)
class SkipPastLastStrategy(AfterMatchSkipStrategy):
    """Discards the matches that start before or with the last event of an emitted one."""

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return max(events[-1] for events in match.values()), True


@dataclass(frozen=True, slots=True)
class SkipToElementStrategy(AfterMatchSkipStrategy):
    """Skips to the first or the last event of a stage."""

    name: str
    is_last: bool
    throws: bool = False

    def throw_exception_on_miss(self) -> SkipToElementStrategy:
        """Makes a match fail the job if it has no event of that stage, or has it as its first one; by default nothing is skipped then."""
        return SkipToElementStrategy(self.name, self.is_last, True)

    @property
    def pattern_name(self) -> str | None:
        return self.name

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        events = match.get(self.name)
        if not events:
            if self.throws:
                raise UserFunctionError(
                    f"Could not skip to {self.name}. No such element in the found match {dict(match)}. Name a stage of the pattern that every match has"
                )
            return None
        found = events[-1 if self.is_last else 0]
        if self.throws and found == min(one[0] for one in match.values()):
            raise UserFunctionError(
                f"Could not skip to first element of a match. The match begins with the stage '{self.name}', so that it would be found again for ever: "
                "let the skip strategy name another stage"
            )
        return found, False


__all__ = ["AfterMatchSkipStrategy", "EventId", "Match", "SkipToElementStrategy"]
