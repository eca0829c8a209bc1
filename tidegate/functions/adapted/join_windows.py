"""Window joins and coGroup in a subtask: records tagged with their stream, and the window functions that split them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidegate.functions.adapters import Wrapping, key_function
from tidegate.functions.base import Function, RuntimeContext
from tidegate.functions.interfaces import KeySelector, WindowFunction
from tidegate.functions.join_functions import JoinFunction
from tidegate.model.values import AssignedWindow, Key, Record

Selector: TypeAlias = Callable[[Record], Key] | KeySelector


class Tagged:
    """A record of one of two joined streams, in the type that both share."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, value: Record) -> tuple[int, Record, Record]:
        return (0, value, None) if self.side == 0 else (1, None, value)


class TaggedKey(KeySelector):
    """Returns the key of a tagged record by the selector of its stream."""

    def __init__(self, selector1: Selector, selector2: Selector) -> None:
        self.selectors = (selector1, selector2)
        self._calls = (key_function(selector1), key_function(selector2))

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self.selectors:
            if isinstance(selector, Function):
                selector.open(runtime_context)

    def close(self) -> None:
        for selector in self.selectors:
            if isinstance(selector, Function):
                selector.close()

    def get_key(self, value: Record) -> Key:
        """Returns the key of a tagged record by the selector of the stream that it comes from."""
        side = value[0]
        return self._calls[side](value[side + 1])


class CoGroupWindow(Wrapping, WindowFunction[Record, Record, Key, AssignedWindow]):
    """Calls a ``CoGroupFunction`` with the two sides of a window."""

    def apply(self, key: Key, window: AssignedWindow, inputs: Iterable[Record]) -> Iterable[Record]:
        """Splits the window's records by their stream and calls the function once."""
        found: Iterable[Record] | None = self.wrapped.co_group(*_sides(inputs))
        return () if found is None else found


class JoinWindow(Wrapping, WindowFunction[Record, Record, Key, AssignedWindow]):
    """Calls a ``JoinFunction`` with every pair of a window."""

    def apply(self, key: Key, window: AssignedWindow, inputs: Iterable[Record]) -> Iterable[Record]:
        """Yields the function's result for each pair of a left and a right record."""
        first, second = _sides(inputs)
        join = self.wrapped.join if isinstance(self.wrapped, JoinFunction) else self.wrapped
        for left in first:
            for right in second:
                yield join(left, right)


class FlatJoinWindow(Wrapping, WindowFunction[Record, Record, Key, AssignedWindow]):
    """Calls a ``FlatJoinFunction`` with every pair of a window."""

    def apply(self, key: Key, window: AssignedWindow, inputs: Iterable[Record]) -> Iterable[Record]:
        """Yields every element of what the function returns for each pair of a left and a right record."""
        first, second = _sides(inputs)
        for left in first:
            for right in second:
                yield from self.wrapped.join(left, right) or ()


def _sides(inputs: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    sides: tuple[list[Record], list[Record]] = ([], [])
    for side, first, second in inputs:
        sides[side].append(second if side else first)
    return sides
