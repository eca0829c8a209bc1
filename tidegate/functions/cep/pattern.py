"""Patterns: a sequence of stages, each with a condition, a quantifier, and how it follows the previous one (Flink: ``Pattern``).

    Pattern.begin("start").where(...).followed_by("middle").where(...).one_or_more().next("end").where(...).within(Duration.of_seconds(10))

Every method returns the pattern that it was called on, or the next stage, which knows the ones before.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn, Self

from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.conditions import (
    AndCondition,
    Condition,
    IterativeCondition,
    OrCondition,
    SubtypeCondition,
    TrueCondition,
    condition_of,
)
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.quantifier import ConsumingStrategy, Quantifier, QuantifierProperty, Times
from tidegate.records.time import Duration, Time, to_millis

TimeGiven = int | Time | Duration
"""A length of time; an ``int`` is milliseconds."""
GivenCondition = IterativeCondition | Condition | Callable[..., Any]
_OPTIONAL_BEFORE_NOT = (
    "Specifying a pattern with an optional path to NOT condition is not supported yet. You can simulate such pattern with two independent patterns, "
    "one with and the other without the optional part."
)


class WithinType(Enum):
    """Between which events the time of ``within`` is measured."""

    FIRST_AND_LAST = "FIRST_AND_LAST"
    PREVIOUS_AND_CURRENT = "PREVIOUS_AND_CURRENT"


class Pattern:
    """A stage of a pattern, linked to the stages before it. Made by ``Pattern.begin``."""

    def __init__(
        self,
        name: str,
        previous: Pattern | None,
        strategy: ConsumingStrategy,
        after_match_skip_strategy: AfterMatchSkipStrategy,
    ) -> None:
        self._name = name
        self._previous = previous
        self._skip = after_match_skip_strategy
        self._quantifier = Quantifier.one(strategy)
        self._condition: Condition | None = None
        self._until: Condition | None = None
        self._times: Times | None = None
        self._windows: dict[WithinType, int] = {}

    @staticmethod
    def begin(first: str | Pattern, after_match_skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
        """Starts a pattern with a first stage of that name, or with a group. Without a strategy every match is emitted."""
        skip = after_match_skip_strategy or AfterMatchSkipStrategy.no_skip()
        return _stage(first, None, ConsumingStrategy.STRICT, skip)

    def where(self, condition: GivenCondition) -> Self:
        """Adds a condition that events must meet, besides earlier ones."""
        self._add(condition_of(condition, "where"), AndCondition)
        return self

    def or_(self, condition: GivenCondition) -> Self:
        """Adds an alternative condition: events must meet it or the earlier ones."""
        self._add(condition_of(condition, "or_"), OrCondition)
        return self

    def subtype(self, subtype_class: type) -> Self:
        """Restricts events to a class, besides earlier conditions."""
        self._add(SubtypeCondition(subtype_class), AndCondition)
        return self

    def until(self, until_condition: GivenCondition) -> Self:
        """Sets the condition that ends a stage of ``one_or_more`` or ``times_or_more``: it takes no events from the first on that meets it."""
        if self._until is not None:
            raise MalformedPatternException("Only one until condition can be applied.")
        if not self._quantifier.has_property(QuantifierProperty.LOOPING):
            raise MalformedPatternException("The until condition is only applicable to looping states.")
        self._until = condition_of(until_condition, "until")
        return self

    def within(self, window_time: TimeGiven | None, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Self:
        """Limits the time between the first and last event of a match; with ``PREVIOUS_AND_CURRENT``, between the event of this stage and the previous
        one."""
        if window_time is not None:
            self._windows[within_type] = to_millis(window_time, "within")
        return self

    def next(self, following: str | Pattern) -> Pattern:
        """Appends a stage or group whose first event follows immediately."""
        return _stage(following, self, ConsumingStrategy.STRICT, self._skip)

    def followed_by(self, following: str | Pattern) -> Pattern:
        """Appends a stage or group; events that do not match may occur in between."""
        return _stage(following, self, ConsumingStrategy.SKIP_TILL_NEXT, self._skip)

    def followed_by_any(self, following: str | Pattern) -> Pattern:
        """Appends a stage or group; any events may occur in between, also matching ones."""
        return _stage(following, self, ConsumingStrategy.SKIP_TILL_ANY, self._skip)

    def not_next(self, name: str) -> Pattern:
        """Appends a negated stage: the immediately following event must not match it."""
        return self._negated(name, ConsumingStrategy.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """Appends a negated stage: no event before the next stage may match it; at the end of a pattern, none within its time."""
        return self._negated(name, ConsumingStrategy.NOT_FOLLOW)

    def optional(self) -> Self:
        """Makes the stage optional."""
        if self._previous is not None and self._previous._quantifier.has_property(QuantifierProperty.GREEDY):
            raise MalformedPatternException("Optional pattern cannot be preceded by greedy pattern")
        self._quantifier.optional()
        return self

    def one_or_more(self, window_time: TimeGiven | None = None) -> Self:
        """Makes the stage take at least one event. ``window_time``: limits the time between two of them."""
        return self.times_or_more(1, window_time)

    def times(self, from_times: int, to_times: int | None = None, window_time: TimeGiven | None = None) -> Self:
        """Makes the stage take ``from_times`` events, or up to ``to_times``; from 0 makes it optional."""
        self._check_can_have_quantifier()
        if to_times is None:
            if from_times <= 0:
                raise MalformedPatternException(
                    f"You should give a positive number greater than 0. times() got {from_times}."
                )
            to_times = from_times
        self._quantifier = Quantifier.times(self._quantifier.get_consuming_strategy())
        if from_times == 0:
            self._quantifier.optional()
            from_times = 1
        self._times = Times(from_times, to_times, _ms_or_none(window_time))
        return self

    def times_or_more(self, times: int, window_time: TimeGiven | None = None) -> Self:
        """Makes the stage take at least ``times`` events."""
        self._check_can_have_quantifier()
        self._quantifier = Quantifier.looping(self._quantifier.get_consuming_strategy())
        self._times = Times(times, times, _ms_or_none(window_time))
        return self

    def greedy(self) -> Self:
        """Makes the stage take as many events as possible before the next stage takes one."""
        self._check_is_not_negated()
        if isinstance(self, GroupPattern):
            raise MalformedPatternException("Option not applicable to group pattern")
        self._quantifier.greedy()
        return self

    def allow_combinations(self) -> Self:
        """Allows any events between two events of the stage, also matching ones."""
        self._quantifier.combinations()
        return self

    def consecutive(self) -> Self:
        """Allows no other events between two events of the stage."""
        self._quantifier.consecutive()
        return self

    def get_name(self) -> str:
        """Returns the name of the stage."""
        return self._name

    def get_previous(self) -> Pattern | None:
        """Returns the previous stage; ``None``: this is the first one."""
        return self._previous

    def get_times(self) -> Times | None:
        """Returns how many events the stage takes; ``None``: one."""
        return self._times

    def get_quantifier(self) -> Quantifier:
        """Returns the quantifier of the stage."""
        return self._quantifier

    def get_condition(self) -> Condition:
        """Returns the condition of the stage, which always holds if none was given."""
        return self._condition or TrueCondition()

    def get_until_condition(self) -> Condition | None:
        """Returns the condition that ends the stage."""
        return self._until

    def get_window_size(self, within_type: WithinType = WithinType.FIRST_AND_LAST) -> int | None:
        """Returns the time of ``within`` in ms."""
        return self._windows.get(within_type)

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """Returns the after-match skip strategy."""
        return self._skip

    def __str__(self) -> str:
        return f"Pattern{{name='{self._name}', quantifier={self._quantifier}}}"

    def _add(self, condition: Condition, joined: type[AndCondition | OrCondition]) -> None:
        self._condition = condition if self._condition is None else joined(self._condition, condition)

    def _negated(self, name: str, strategy: ConsumingStrategy) -> Pattern:
        if self._quantifier.has_property(QuantifierProperty.OPTIONAL):
            raise MalformedPatternException(_OPTIONAL_BEFORE_NOT)
        return Pattern(name, self, strategy, self._skip)

    def _check_can_have_quantifier(self) -> None:
        self._check_is_not_negated()
        if not self._quantifier.has_property(QuantifierProperty.SINGLE):
            raise MalformedPatternException(
                f"Already applied quantifier to this Pattern. Current quantifier is: {self._quantifier}"
            )

    def _check_is_not_negated(self) -> None:
        if self._quantifier.is_negated():
            raise MalformedPatternException("Option not applicable to NOT pattern")


class GroupPattern(Pattern):
    """A pattern used as one stage of another."""

    def __init__(
        self,
        previous: Pattern | None,
        group: Pattern,
        strategy: ConsumingStrategy,
        after_match_skip_strategy: AfterMatchSkipStrategy,
    ) -> None:
        super().__init__("GroupPattern", previous, strategy, after_match_skip_strategy)
        self._group = group

    def get_raw_pattern(self) -> Pattern:
        """Returns the pattern of the group."""
        return self._group

    def where(self, condition: GivenCondition) -> NoReturn:
        """Raises ``MalformedPatternException``: conditions belong to the stages of a group."""
        raise MalformedPatternException("GroupPattern does not support where clause.")

    def or_(self, condition: GivenCondition) -> NoReturn:
        """Raises ``MalformedPatternException``: conditions belong to the stages of a group."""
        raise MalformedPatternException("GroupPattern does not support or clause.")

    def subtype(self, subtype_class: type) -> NoReturn:
        """Raises ``MalformedPatternException``: conditions belong to the stages of a group."""
        raise MalformedPatternException("GroupPattern does not support subtype clause.")


def _stage(
    given: str | Pattern, previous: Pattern | None, strategy: ConsumingStrategy, skip: AfterMatchSkipStrategy
) -> Pattern:
    if isinstance(given, Pattern):
        return GroupPattern(previous, given, strategy, skip)
    if not isinstance(given, str):
        raise MalformedPatternException(f"a stage of a pattern is given by a name or another pattern, not by {given!r}")
    return Pattern(given, previous, strategy, skip)


def _ms_or_none(given: TimeGiven | None) -> int | None:
    return None if given is None else to_millis(given, "the time of a pattern")


__all__ = ["GivenCondition", "GroupPattern", "Pattern", "WithinType"]
