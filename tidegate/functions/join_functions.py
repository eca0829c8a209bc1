"""Functions of two streams that are joined. PyFlink's DataStream has no joins: these have the names of Flink's Java API
(``JoinFunction.java``, ``FlatJoinFunction.java``, ``CoGroupFunction.java``, ``ProcessJoinFunction.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from tidegate.functions.base import Function

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class JoinFunction(Function):
    """One result for each pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any: ...


class FlatJoinFunction(Function):
    """Any number of results for each pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None: ...


class CoGroupFunction(Function):
    """Sees the records of both streams of one key and window; one of them may be empty."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None: ...


class JoinContext(ABC):
    """The context of a pair. Its timestamp is the larger of the two."""

    @abstractmethod
    def get_left_timestamp(self) -> int: ...

    @abstractmethod
    def get_right_timestamp(self) -> int: ...

    @abstractmethod
    def get_timestamp(self) -> int: ...


class ProcessJoinFunction(Function):
    """Any number of results for each pair of an interval join; ``yield tag, value`` goes to a side output."""

    Context: TypeAlias = JoinContext

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: JoinContext) -> Iterable[Any] | None: ...
