"""``partition_custom``: the subtask of a record by functions of the user."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.functions.base import Function, RuntimeContext
from tidegate.functions.interfaces import KeySelector, Partitioner
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key, Record, UserObject

__all__ = ["CustomTarget"]


class CustomTarget:
    """Chooses the subtask of a record by the user's partitioner, once ``bound`` to a number of subtasks. The runtime opens ``selector``."""

    def __init__(
        self,
        partitioner: Callable[[Key, int], int] | Partitioner,
        key_selector: Callable[[Record], Key] | KeySelector,
        targets: int,
    ) -> None:
        self.selector = _BothFunctions(partitioner, key_selector)
        self._partitioner = partitioner
        self._key_selector = key_selector
        self._partition = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        self._key = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        self._targets = targets

    @staticmethod
    def of(
        partitioner: Callable[[Key, int], int] | Partitioner, key_selector: Callable[[Record], Key] | KeySelector
    ) -> CustomTarget:
        """Wraps a program's partitioner and key selector. Raises ``InvalidJob`` when either cannot be called."""
        if not isinstance(partitioner, Partitioner) and not callable(partitioner):
            raise InvalidJob(f"partition_custom needs a Partitioner or a function, not {partitioner!r}")
        if not isinstance(key_selector, KeySelector) and not callable(key_selector):
            raise InvalidJob(f"partition_custom needs a KeySelector or a function, not {key_selector!r}")
        return CustomTarget(partitioner, key_selector, 0)

    def bound(self, targets: int) -> CustomTarget:
        """Returns the same functions, bound to a number of subtasks."""
        return CustomTarget(self._partitioner, self._key_selector, targets)

    def __call__(self, value: Record) -> int:
        target = self._partition(self._key(value), self._targets)
        if not 0 <= target < self._targets:
            raise InvalidJob(
                f"the partitioner of partition_custom gave {target} for the record {value!r}: there are {self._targets} subtasks, "
                f"0 to {self._targets - 1}"
            )
        return int(target)


class _BothFunctions(Function):
    """Partitioner and key selector, opened and closed together."""

    def __init__(self, *functions: UserObject) -> None:
        self._functions = [function for function in functions if isinstance(function, Function)]

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in self._functions:
            function.open(runtime_context)

    def close(self) -> None:
        for function in self._functions:
            function.close()
