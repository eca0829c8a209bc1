"""Asynchronous functions, which wait for many answers at a time (PyFlink: ``pyflink.datastream.functions``, which re-exports them; Flink:
``AsyncFunction.java``)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from tidegate.functions.base import Function

__all__ = ["AsyncFunction"]

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """A function that requests data asynchronously: ``async_invoke`` runs in an event loop of the subtask, concurrently for several records. It must
    not block the loop, and must not use state. A record whose results were not emitted at a checkpoint is invoked again after a restore."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results of one record, any number of them. An exception fails the job, unless it is retried."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results of a record that timed out; also called in the event loop. Raises by default."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")
