"""A priority queue with the order of Java's ``PriorityQueue``.

Flink keeps partial matches in such a queue, and iterates over its array. Among matches that begin with the same event, the order in which they are found
therefore depends on the order of that array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tidegate.functions.cep.after_match_skip_strategy import EventId
from tidegate.functions.cep.shared_buffer import NodeId
from tidegate.functions.cep.states import State

_NEVER: EventId = (2**63 - 1, 2**31 - 1)
"""An event id after all events: Java's ``Long.MAX_VALUE`` and ``Integer.MAX_VALUE``, as in Flink."""


class PartialMatch:
    """A partial match: its state, its last node in the shared buffer, and ``first``, its first event; ``None``: no event was taken yet (Flink:
    ``ComputationState``).
    """

    __slots__ = ("first", "node", "order", "previous_ms", "start_ms", "state")

    def __init__(
        self, state: State, node: NodeId | None, start_ms: int, previous_ms: int, first: EventId | None
    ) -> None:
        self.state, self.node = state, node
        self.start_ms, self.previous_ms = start_ms, previous_ms
        """The times of the first and the last event."""
        self.first = first
        self.order: EventId = _NEVER if first is None else first

    def is_as(self, other: PartialMatch) -> bool:
        """Returns whether both are in the same state, with the same events."""
        return self.state is other.state and self.node == other.node and self.first == other.first


Wanted: TypeAlias = Callable[[PartialMatch], bool]


class MatchQueue:
    """A queue of partial matches, ordered by their start."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[PartialMatch] = ()) -> None:
        """Creates the queue. ``items``: in the order of a previous queue."""
        self._items = list(items)

    def __iter__(self) -> Iterator[PartialMatch]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def first(self) -> PartialMatch | None:
        """Returns the match that started first, without removing it; ``None`` where there is none."""
        return self._items[0] if self._items else None

    def add(self, match: PartialMatch) -> None:
        """Adds a match."""
        items, order = self._items, match.order
        at = len(items)
        items.append(match)
        while at:
            parent = (at - 1) >> 1
            if order >= items[parent].order:
                break
            items[at] = items[parent]
            at = parent
        items[at] = match

    def pop(self) -> PartialMatch:
        """Removes and returns the match that started first."""
        items = self._items
        last = items.pop()
        if not items:
            return last
        found = items[0]
        self._sink(0, last)
        return found

    def remove(self, wanted: Wanted) -> list[PartialMatch]:
        """Removes and returns the matches for which ``wanted`` is true."""
        removed = [match for match in self._items if wanted(match)]
        if removed:
            self._items = [match for match in self._items if not wanted(match)]
            for at in range((len(self._items) >> 1) - 1, -1, -1):
                self._sink(at, self._items[at])
        return removed

    def _sink(self, at: int, match: PartialMatch) -> None:
        items, order = self._items, match.order
        size = len(items)
        half = size >> 1
        while at < half:
            child = 2 * at + 1
            if child + 1 < size and items[child].order > items[child + 1].order:
                child += 1
            if order <= items[child].order:
                break
            items[at] = items[child]
            at = child
        items[at] = match


__all__ = ["MatchQueue", "PartialMatch"]
