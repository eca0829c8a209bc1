"""The accumulators of one user function, reported with the metrics of its operator (Flink: ``StreamingRuntimeContext.java``)."""

from __future__ import annotations

from typing import TypeVar

from tidegate.model.accumulators import UserAccumulator
from tidegate.model.errors import InvalidJob
from tidegate.taskmanager.operators.operator import Metrics

A = TypeVar("A", bound=UserAccumulator)


class FunctionAccumulators:
    """The accumulators of a user function by name. ``operator``: its name in errors."""

    def __init__(self, metrics: Metrics, operator: str) -> None:
        self._metrics = metrics
        self._operator = operator
        self._known: dict[str, UserAccumulator] = {}

    def add(self, name: str, accumulator: UserAccumulator) -> None:
        """Registers an accumulator. Raises ``InvalidJob`` when the name is taken, or when the JobManager cannot merge its type."""
        if name in self._known:
            raise InvalidJob(
                f"operator '{self._operator}' has an accumulator '{name}' already: ask for it with "
                f"get_accumulator('{name}'), or give the other another name"
            )
        self._metrics.accumulate(name, accumulator)
        self._known[name] = accumulator

    def get(self, name: str) -> UserAccumulator:
        """Returns an accumulator. Raises ``InvalidJob`` when there is none of that name."""
        if name not in self._known:
            raise InvalidJob(f"operator '{self._operator}' has no accumulator '{name}': call add_accumulator first")
        return self._known[name]

    def get_or_add(self, name: str, kind: type[A]) -> A:
        """Returns an accumulator, registered if there was none of that name. Raises ``InvalidJob`` when there is one of another type."""
        found = self._known.get(name)
        if found is None:
            self.add(name, found := kind())
        if type(found) is not kind:
            raise InvalidJob(
                f"accumulator '{name}' of operator '{self._operator}' is a {type(found).__name__}, not a {kind.__name__}"
            )
        return found
