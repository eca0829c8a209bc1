"""Which matches are left out after one was found (Flink: ``AfterMatchSkipStrategy``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.errors import UserFunctionError

EventId: TypeAlias = tuple[int, int]
"""The time of an event in ms, and its number among those of that time."""
Match: TypeAlias = Mapping[str, Sequence[EventId]]


class AfterMatchSkipStrategy(ABC):
    """Decides which other matches, and what may become one, go when a match is found."""

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Every possible match is found."""
        return NoSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """The first one of the matches that begin with the same event is found."""
        return SkipToNextStrategy()

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """No match begins before the last event of this one, or with it."""
        return SkipPastLastStrategy()

    @staticmethod
    def skip_to_first(pattern_name: str) -> SkipToElementStrategy:
        """No match begins before the first event of that stage in this one."""
        return SkipToElementStrategy(pattern_name, is_last=False)

    @staticmethod
    def skip_to_last(pattern_name: str) -> SkipToElementStrategy:
        """No match begins before the last event of that stage in this one."""
        return SkipToElementStrategy(pattern_name, is_last=True)

    @property
    def is_skip_strategy(self) -> bool:
        """Whether any other match goes when one is found."""
        return True

    @property
    def pattern_name(self) -> str | None:
        """The stage that is skipped to."""
        return None

    @abstractmethod
    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        """The event before which no other match may begin, and whether one may not begin with it either. ``None``: any stay."""


@dataclass(frozen=True, slots=True)
class NoSkipStrategy(AfterMatchSkipStrategy):
    @property
    def is_skip_strategy(self) -> bool:
        """Whether any other match goes when one is found: none."""
        return False

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return None


@dataclass(frozen=True, slots=True)
class SkipToNextStrategy(AfterMatchSkipStrategy):
    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return min(events[0] for events in match.values()), True


@dataclass(frozen=True, slots=True)
class SkipPastLastStrategy(AfterMatchSkipStrategy):
    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        return max(events[-1] for events in match.values()), True


@dataclass(frozen=True, slots=True)
class SkipToElementStrategy(AfterMatchSkipStrategy):
    """Skips to the first or the last event of a stage."""

    name: str
    is_last: bool
    throws: bool = False

    def throw_exception_on_miss(self) -> SkipToElementStrategy:
        """A match without an event of that stage, or with it as its first one, fails the job; by default nothing is skipped then."""
        return SkipToElementStrategy(self.name, self.is_last, True)

    @property
    def pattern_name(self) -> str | None:
        return self.name

    def first_kept(self, match: Match) -> tuple[EventId, bool] | None:
        events = match.get(self.name)
        if not events:
            if self.throws:
                raise UserFunctionError(
                    f"Could not skip to {self.name}. No such element in the found match {dict(match)}"
                )
            return None
        found = events[-1 if self.is_last else 0]
        if self.throws and found == min(one[0] for one in match.values()):
            raise UserFunctionError("Could not skip to first element of a match.")
        return found, False


__all__ = ["AfterMatchSkipStrategy", "EventId", "Match", "SkipToElementStrategy"]
