"""Windows of the Table API: `Tumble`, `Slide`, `Session`, `Over` (PyFlink: ``pyflink.table.window``).

Tumble.over(lit(10).minutes).on(col("rowtime")).alias("w")
Over.partition_by(col("user")).order_by(col("rowtime")).preceding(UNBOUNDED_RANGE).alias("w")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidegate.table.expression import Expression, to_java

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]


class _Steps:
    """A chain of calls of Java's builder methods, which run when a table is made with the window."""

    def __init__(self, make: Callable[[Planner], Any]) -> None:
        self._make = make

    def _next(self, method: str, *arguments: object) -> Callable[[Planner], Any]:
        def make(planner: Planner) -> Any:
            return getattr(self._make(planner), method)(*to_java(arguments, planner))

        return make


def _start(name: str, method: str, *arguments: object) -> Callable[[Planner], Any]:
    def make(planner: Planner) -> Any:
        return getattr(getattr(planner.api, name), method)(*to_java(arguments, planner))

    return make


class GroupWindow(_Steps):
    """A named group window, for ``Table.window``."""


class _WindowOnTime(_Steps):
    def alias(self, alias: str) -> GroupWindow:
        """Names the window."""
        return GroupWindow(self._next("as", alias))


class _WindowWithSize(_Steps):
    def on(self, time_field: Expression) -> _WindowOnTime:
        """Sets the time attribute."""
        return _WindowOnTime(self._next("on", time_field))


class _SlideWithSize(_Steps):
    def every(self, slide: Expression) -> _WindowWithSize:
        """Sets the distance of the windows' starts."""
        return _WindowWithSize(self._next("every", slide))


class Tumble:
    """Tumbling windows."""

    @staticmethod
    def over(size: Expression) -> _WindowWithSize:
        """Sets the size: a span of time, or ``row_interval(n)``."""
        return _WindowWithSize(_start("Tumble", "over", size))


class Slide:
    """Sliding windows."""

    @staticmethod
    def over(size: Expression) -> _SlideWithSize:
        """Sets the size: a span of time, or ``row_interval(n)``."""
        return _SlideWithSize(_start("Slide", "over", size))


class Session:
    """Session windows."""

    @staticmethod
    def with_gap(gap: Expression) -> _WindowWithSize:
        """Sets the gap."""
        return _WindowWithSize(_start("Session", "withGap", gap))


class OverWindow(_Steps):
    """A named OVER window, for ``Table.over_window``."""


class _OverPreceding(_Steps):
    def alias(self, alias: str) -> OverWindow:
        """Names the window."""
        return OverWindow(self._next("as", alias))

    def following(self, following: Expression) -> _OverPreceding:
        """Sets the end of the window."""
        return _OverPreceding(self._next("following", following))


class _OverOrdered(_Steps):
    def alias(self, alias: str) -> OverWindow:
        """Names the window."""
        return OverWindow(self._next("as", alias))

    def preceding(self, preceding: Expression) -> _OverPreceding:
        """Sets the start of the window."""
        return _OverPreceding(self._next("preceding", preceding))


class _OverPartitioned(_Steps):
    def order_by(self, order_by: Expression) -> _OverOrdered:
        """Sets the time attribute."""
        return _OverOrdered(self._next("orderBy", order_by))


class Over:
    """OVER windows."""

    @staticmethod
    def order_by(order_by: Expression) -> _OverOrdered:
        """Sets the time attribute by which all rows are ordered, without partitions."""
        return _OverOrdered(_start("Over", "orderBy", order_by))

    @staticmethod
    def partition_by(*partition_by: Expression) -> _OverPartitioned:
        """Sets the partition key."""

        def make(planner: Planner) -> Any:
            kind = planner.jvm.org.apache.flink.table.expressions.Expression
            return planner.api.Over.partitionBy(planner.array(kind, to_java(partition_by, planner)))

        return _OverPartitioned(make)


TumbleWithSize = SessionWithGap = SlideWithSizeAndSlide = _WindowWithSize
TumbleWithSizeOnTime = SessionWithGapOnTime = SlideWithSizeAndSlideOnTime = _WindowOnTime
SlideWithSize = _SlideWithSize
OverWindowPartitioned, OverWindowPartitionedOrdered = _OverPartitioned, _OverOrdered
OverWindowPartitionedOrderedPreceding = _OverPreceding
"""PyFlink's names of the builder steps between the first call and ``alias``."""
