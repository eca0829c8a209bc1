"""Functions that wait for answers from elsewhere, many at a time (PyFlink: ``pyflink.datastream.functions``, which re-exports
them; Flink: ``AsyncFunction.java``)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from tidegate.functions.base import Function

__all__ = ["AsyncFunction"]

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """``async_invoke`` runs in an event loop of the subtask, at the same time as for other records. It must not block the loop,
    and must not use state. A record whose results had not been emitted at a checkpoint is invoked again after a restore."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results of one record, any number of them. What it raises fails the job, unless it is tried
        again."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results of a record that took too long; also called in the event loop. By default it raises."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")
