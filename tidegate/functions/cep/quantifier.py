"""Quantifiers: how often a stage of a pattern matches, and which events may occur in between (Flink: ``Quantifier``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.functions.cep.errors import MalformedPatternException


class ConsumingStrategy(Enum):
    """Which events may occur between a matching event and the previous one.

    ``STRICT``: none; ``SKIP_TILL_NEXT``: those that do not match; ``SKIP_TILL_ANY``: any. The other two are those of stages that must not match.
    """

    STRICT = "STRICT"
    SKIP_TILL_NEXT = "SKIP_TILL_NEXT"
    SKIP_TILL_ANY = "SKIP_TILL_ANY"
    NOT_FOLLOW = "NOT_FOLLOW"
    NOT_NEXT = "NOT_NEXT"


class QuantifierProperty(Enum):
    """Properties of a quantifier besides its strategy; it has exactly one of the first three."""

    SINGLE = "SINGLE"
    LOOPING = "LOOPING"
    TIMES = "TIMES"
    OPTIONAL = "OPTIONAL"
    GREEDY = "GREEDY"


_NOT = (ConsumingStrategy.NOT_FOLLOW, ConsumingStrategy.NOT_NEXT)


@dataclass(frozen=True, slots=True)
class Times:
    """The minimum and maximum number of events of a stage. ``window_ms``: the limit of the time between two of them."""

    from_: int
    to: int
    window_ms: int | None = None

    def __post_init__(self) -> None:
        if self.from_ <= 0:
            raise MalformedPatternException(
                f"The from should be a positive number greater than 0. times() got {self.from_}."
            )
        if self.to < self.from_:
            raise MalformedPatternException(
                f"The to should be a number greater than or equal to from: {self.from_}. times() got {self.to}."
            )


class Quantifier:
    """The quantifier of one stage: how its first event follows the previous stage, and how its further events follow each other."""

    def __init__(self, kind: QuantifierProperty, strategy: ConsumingStrategy) -> None:
        self._properties = {kind}
        self._strategy = strategy
        self._inner = ConsumingStrategy.SKIP_TILL_NEXT

    @staticmethod
    def one(strategy: ConsumingStrategy) -> Quantifier:
        """Creates the quantifier of a stage of one event."""
        return Quantifier(QuantifierProperty.SINGLE, strategy)

    @staticmethod
    def looping(strategy: ConsumingStrategy) -> Quantifier:
        """Creates the quantifier of a stage of any number of events."""
        return Quantifier(QuantifierProperty.LOOPING, strategy)

    @staticmethod
    def times(strategy: ConsumingStrategy) -> Quantifier:
        """Creates the quantifier of a stage of some events."""
        return Quantifier(QuantifierProperty.TIMES, strategy)

    def has_property(self, wanted: QuantifierProperty) -> bool:
        """Returns whether the quantifier has a property."""
        return wanted in self._properties

    def get_consuming_strategy(self) -> ConsumingStrategy:
        """Returns which events may occur before the first one of the stage."""
        return self._strategy

    def get_inner_consuming_strategy(self) -> ConsumingStrategy:
        """Returns which events may occur between two of the stage."""
        return self._inner

    def is_negated(self) -> bool:
        """Returns whether the stage is negated."""
        return self._strategy in _NOT

    def combinations(self) -> None:
        """Allows any events between two events of the stage. Raises ``MalformedPatternException``."""
        self._check(QuantifierProperty.SINGLE not in self._properties, f"Combinations not applicable to {self}!")
        self._check_inner(ConsumingStrategy.SKIP_TILL_ANY, ConsumingStrategy.STRICT, "Combinations already applied!")

    def consecutive(self) -> None:
        """Allows no other events between two events of the stage. Raises ``MalformedPatternException``."""
        self._check(QuantifierProperty.SINGLE not in self._properties, f"Consecutive not applicable to {self}!")
        self._check_inner(ConsumingStrategy.STRICT, ConsumingStrategy.SKIP_TILL_ANY, "Consecutive already applied!")

    def optional(self) -> None:
        """Makes the stage optional. Raises ``MalformedPatternException``."""
        self._check(QuantifierProperty.OPTIONAL not in self._properties, "Optional already applied!")
        self._check(not self.is_negated(), "NOT pattern cannot be optional")
        self._properties.add(QuantifierProperty.OPTIONAL)

    def greedy(self) -> None:
        """Makes the stage take as many events as possible. Raises ``MalformedPatternException``."""
        self._check(
            self._inner is not ConsumingStrategy.SKIP_TILL_ANY, "Option not applicable to FollowedByAny pattern"
        )
        self._check(QuantifierProperty.SINGLE not in self._properties, "Option not applicable to singleton quantifier")
        self._properties.add(QuantifierProperty.GREEDY)

    def __str__(self) -> str:
        properties = ", ".join(one.value for one in QuantifierProperty if one in self._properties)
        return f"Quantifier{{properties=[{properties}], consumingStrategy={self._strategy.value}}}"

    def _check_inner(self, wanted: ConsumingStrategy, other: ConsumingStrategy, again: str) -> None:
        self._check(self._inner is not other, "You can apply either combinations or consecutive, not both!")
        self._check(self._inner is not wanted, again)
        self._inner = wanted

    @staticmethod
    def _check(holds: bool, message: str) -> None:
        if not holds:
            raise MalformedPatternException(message)


__all__ = ["ConsumingStrategy", "Quantifier", "QuantifierProperty", "Times"]
