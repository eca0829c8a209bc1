"""Conditions of patterns: which events a stage takes (Flink: ``org.apache.flink.cep.pattern.conditions``).

A user's condition is a function of the event, or of the event and a context, or a class:

    Pattern.begin("start").where(lambda event: event.price > 10)
    Pattern.begin("start").where(lambda event, ctx: event.price > sum(e.price for e in ctx.get_events_for_pattern("start")))

The compiler turns each condition into a function of an ``EventView``: the event, and for iterative conditions the events that were matched before.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from tidegate.functions.cep.errors import MalformedPatternException


class IterativeCondition(ABC):
    """A condition of the event and of those that were matched before it."""

    class Context(ABC):
        """The context of an iterative condition, which gives access to the match."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> Iterable[Any]:
            """Returns the events that a stage has taken so far in this partial match, in order."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the time of the event in ms: its timestamp, or in processing time its arrival."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the current processing time in ms."""

    @abstractmethod
    def filter(self, value: Any, ctx: IterativeCondition.Context) -> bool:
        """Returns whether the stage takes the event."""


class SimpleCondition(IterativeCondition):
    """A condition of the event alone, which is evaluated once for an event, however many partial matches there are."""

    @abstractmethod
    def filter(self, value: Any, ctx: IterativeCondition.Context | None = None) -> bool:
        """Returns whether the stage takes the event."""


class EventView(Protocol):
    """An event as conditions see it. ``known``: results of simple conditions, by their number."""

    value: Any
    known: list[bool | None]

    @property
    def context(self) -> IterativeCondition.Context:
        """Returns the context of iterative conditions."""
        ...


Holds: TypeAlias = Callable[[EventView], bool]
"""A compiled condition; ``None`` in its place: always true."""


class Condition(ABC):
    """A condition of a pattern, which can be compiled."""

    @abstractmethod
    def compiled(self, numbers: list[Condition]) -> Holds | None:
        """Compiles the condition. ``numbers``: the simple conditions of the pattern so far, by their number."""


class TrueCondition(Condition):
    """The condition that is always true."""

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        return None


class EventCondition(Condition):
    """A condition of the event alone."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        if self not in numbers:
            numbers.append(self)
        number, function = numbers.index(self), self._function

        def holds(view: EventView) -> bool:
            known = view.known[number]
            if known is None:
                known = view.known[number] = bool(function(view.value))
            return known

        return holds


class ContextCondition(Condition):
    """A condition of the event and of what was matched before."""

    def __init__(self, function: Callable[[Any, IterativeCondition.Context], Any]) -> None:
        self._function = function

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        function = self._function
        return lambda view: bool(function(view.value, view.context))


class SubtypeCondition(Condition):
    """Is true for events of a class."""

    def __init__(self, subtype: type) -> None:
        self._subtype = subtype

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        subtype = self._subtype
        return lambda view: isinstance(view.value, subtype)


class AndCondition(Condition):
    """Is true where both conditions are; the second is only evaluated where the first is true."""

    def __init__(self, left: Condition, right: Condition) -> None:
        self._left, self._right = left, right

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        left, right = self._left.compiled(numbers), self._right.compiled(numbers)
        if left is None or right is None:
            return right if left is None else left
        return lambda view: left(view) and right(view)


class OrCondition(Condition):
    """Is true where one of the conditions is; the second is only evaluated where the first is false."""

    def __init__(self, left: Condition, right: Condition) -> None:
        self._left, self._right = left, right

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        left, right = self._left.compiled(numbers), self._right.compiled(numbers)
        if left is None or right is None:
            return None
        return lambda view: left(view) or right(view)


class NotCondition(Condition):
    """Is true where the other condition is false."""

    def __init__(self, original: Condition) -> None:
        self._original = original

    def compiled(self, numbers: list[Condition]) -> Holds | None:
        original = self._original.compiled(numbers)
        if original is None:
            return lambda view: False
        return lambda view: not original(view)


def condition_of(given: Any, method: str) -> Condition:
    """Returns the condition for an argument of a pattern's method. Raises ``MalformedPatternException``."""
    if isinstance(given, Condition):
        return given
    if isinstance(given, SimpleCondition):
        return EventCondition(given.filter)
    if isinstance(given, IterativeCondition):
        return ContextCondition(given.filter)
    if not callable(given):
        raise MalformedPatternException(
            f"{method} takes a function of the event, or of the event and a context, or a SimpleCondition or IterativeCondition; {given!r} is neither"
        )
    return ContextCondition(given) if _takes_context(given) else EventCondition(given)


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C
        return False
    needed = [
        one
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    return len(needed) > 1


__all__ = [
    "AndCondition",
    "Condition",
    "EventView",
    "Holds",
    "IterativeCondition",
    "NotCondition",
    "OrCondition",
    "SimpleCondition",
    "SubtypeCondition",
    "TrueCondition",
    "condition_of",
]
