"""Functions of two streams that are joined. PyFlink's DataStream has no joins: these have the names of Flink's Java API
(``JoinFunction.java``, ``FlatJoinFunction.java``, ``CoGroupFunction.java``, ``ProcessJoinFunction.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeAlias

from tidegate.functions.base import Function
from tidegate.model.values import Record

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class JoinFunction(Function):
    """Turns each pair of a join into one record (Flink: ``JoinFunction.java``)."""

    @abstractmethod
    def join(self, first: Record, second: Record) -> Record:
        """Returns the record that is emitted for a pair."""


class FlatJoinFunction(Function):
    """Turns each pair of a join into any number of records (Flink: ``FlatJoinFunction.java``)."""

    @abstractmethod
    def join(self, first: Record, second: Record) -> Iterable[Record] | None:
        """Yields or returns the records that are emitted for a pair."""


class CoGroupFunction(Function):
    """Sees the records of both streams of one key and window, of which one side may be empty (Flink:
    ``CoGroupFunction.java``)."""

    @abstractmethod
    def co_group(self, first: Iterable[Record], second: Iterable[Record]) -> Iterable[Record] | None:
        """Yields or returns what is emitted for the two groups."""


class JoinContext(ABC):
    """The context of a pair. Its timestamp is the larger of the two."""

    @abstractmethod
    def get_left_timestamp(self) -> int:
        """Returns the event time of the left record, in milliseconds."""

    @abstractmethod
    def get_right_timestamp(self) -> int:
        """Returns the event time of the right record, in milliseconds."""

    @abstractmethod
    def get_timestamp(self) -> int:
        """Returns the later of the two event times, which the result gets."""


class ProcessJoinFunction(Function):
    """Turns each pair of an interval join into any number of records (Flink: ``ProcessJoinFunction.java``)."""

    Context: TypeAlias = JoinContext

    @abstractmethod
    def process_element(self, left: Record, right: Record, ctx: JoinContext) -> Iterable[Record] | None:
        """Handles one pair; yields or returns what is emitted. ``yield tag, value`` goes to a side output."""
