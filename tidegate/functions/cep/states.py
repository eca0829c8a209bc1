"""The states of the automaton of a pattern, and the edges between them (Flink: ``State``, ``StateTransition``)."""

from __future__ import annotations

from enum import Enum

from tidegate.functions.cep.conditions import AndCondition, Condition, Holds, NotCondition


class Action(Enum):
    """The action of an edge for an event that meets its condition.

    ``TAKE``: the event becomes part of the match; ``IGNORE``: it does not; ``PROCEED``: the edges of the next state decide about it.
    """

    TAKE = "TAKE"
    IGNORE = "IGNORE"
    PROCEED = "PROCEED"


class StateKind(Enum):
    """The kind of a state. ``PENDING``: becomes a match once its time has passed; ``STOP``: the partial match is discarded."""

    NORMAL = "NORMAL"
    FINAL = "FINAL"
    STOP = "STOP"
    PENDING = "PENDING"


class Edge:
    """An edge, made by ``State.add``. ``holds``: the condition after ``compile``; ``None``: always true."""

    __slots__ = ("action", "condition", "holds", "target")

    def __init__(self, action: Action, target: State, condition: Condition) -> None:
        self.action, self.target, self.condition = action, target, condition
        self.holds: Holds | None = None

    def unless(self, condition: Condition) -> None:
        """Restricts the edge to events that do not meet ``condition``."""
        self.condition = AndCondition(self.condition, NotCondition(condition))


class State:
    """A state. ``name``: unique; ``stage``: the name of its stage, under which events are found in matches."""

    __slots__ = ("edges", "is_start", "kind", "name", "stage", "window_ms")

    def __init__(self, name: str, stage: str, kind: StateKind) -> None:
        self.name, self.stage, self.kind = name, stage, kind
        self.edges: list[Edge] = []
        self.is_start = False
        self.window_ms = 0
        """The next event comes within this time after the one before; 0: at any time."""

    def add(self, action: Action, target: State, condition: Condition) -> None:
        """Adds an edge to ``target``."""
        self.edges.append(Edge(action, target, condition))

    def __repr__(self) -> str:
        return f"State({self.name!r}, {self.kind.value})"


__all__ = ["Action", "Edge", "State", "StateKind"]
