"""Functions that process matches (Flink: ``PatternProcessFunction``, ``PatternSelectFunction`` and others).

A match is a dict: the events of each stage that took some, as lists in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tidegate.functions.base import Function
from tidegate.functions.cep.nfa import Found
from tidegate.functions.interfaces import RuntimeContext
from tidegate.functions.output_tag import OutputTag


class PatternContext(ABC):
    """The context of a function that processes matches."""

    @abstractmethod
    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Emits a value to a side output."""

    @abstractmethod
    def timestamp(self) -> int:
        """Returns the time of the match in ms: that of its last event, or of its timeout; in processing time, its arrival."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the current processing time in ms."""


class PatternProcessFunction(Function):
    """Turns each match into any number of records."""

    Context: TypeAlias = PatternContext

    @abstractmethod
    def process_match(self, match: Found, ctx: PatternContext) -> Iterable[Any] | None:
        """Yields or returns what is emitted for a match; ``(OutputTag, value)`` goes to a side output."""


class TimedOutPartialMatchHandler(ABC):
    """A ``PatternProcessFunction`` that also inherits this class handles partial matches that exceeded the time of ``within``."""

    @abstractmethod
    def process_timed_out_match(self, match: Found, ctx: PatternContext) -> Iterable[Any] | None:
        """Handles a partial match that timed out. Emits to side outputs: ``ctx.output``, or ``(OutputTag, value)`` that are yielded."""


class PatternSelectFunction(Function):
    """Turns each match into one record."""

    @abstractmethod
    def select(self, pattern: Found) -> Any:
        """Returns the record that is emitted for a match of the pattern."""


class PatternFlatSelectFunction(Function):
    """Turns each match into any number of records."""

    @abstractmethod
    def flat_select(self, pattern: Found) -> Iterable[Any] | None:
        """Yields or returns what is emitted for a match."""


class PatternTimeoutFunction(Function):
    """Turns each timed-out partial match into one record."""

    @abstractmethod
    def timeout(self, pattern: Found, timeout_timestamp: int) -> Any:
        """Returns the record that is emitted for a partial match, with the time in ms at which it timed out."""


class PatternFlatTimeoutFunction(Function):
    """Turns each timed-out partial match into any number of records."""

    @abstractmethod
    def timeout(self, pattern: Found, timeout_timestamp: int) -> Iterable[Any] | None:
        """Yields or returns what is emitted for a partial match, with the time in ms at which it timed out."""


class Selecting(PatternProcessFunction):
    """Adapts a select function to a process function. ``is_flat``: it returns any number of records."""

    def __init__(self, function: Any, call: Callable[..., Any], *, is_flat: bool) -> None:
        self._function, self._call, self._is_flat = function, call, is_flat

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._function, Function):
            self._function.close()

    def process_match(self, match: Found, ctx: PatternContext) -> Iterable[Any] | None:
        found = self._call(match)
        return found if self._is_flat else (found,)


class SelectingWithTimeouts(Selecting, TimedOutPartialMatchHandler):
    """Adapts a select function and one for timed-out partial matches, whose records go to a side output."""

    def __init__(
        self,
        function: Any,
        call: Callable[..., Any],
        tag: OutputTag,
        timeout: Any,
        call_timeout: Callable[..., Any],
        *,
        is_flat: bool,
    ) -> None:
        super().__init__(function, call, is_flat=is_flat)
        self._tag, self._timeout, self._call_timeout = tag, timeout, call_timeout

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        if isinstance(self._timeout, Function):
            self._timeout.open(runtime_context)

    def close(self) -> None:
        super().close()
        if isinstance(self._timeout, Function):
            self._timeout.close()

    def process_timed_out_match(self, match: Found, ctx: PatternContext) -> Iterable[Any] | None:
        found = self._call_timeout(match, ctx.timestamp())
        for value in (found or ()) if self._is_flat else (found,):
            ctx.output(self._tag, value)
        return None


__all__ = [
    "PatternContext",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternTimeoutFunction",
    "Selecting",
    "SelectingWithTimeouts",
    "TimedOutPartialMatchHandler",
]
