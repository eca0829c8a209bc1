"""Functions that wait for answers from elsewhere, many at a time (PyFlink: ``pyflink.datastream.functions``, which re-exports
them; Flink: ``AsyncFunction.java``, ``AsyncRetryStrategy.java``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from tidegate.functions.base import Function
from tidegate.model.values import Record

__all__ = ["AsyncFunction", "AsyncRetryPredicate", "AsyncRetryStrategy"]

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Record]], bool]
ExceptionPredicate = Callable[[Exception], bool]


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


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which outcomes are worth another attempt (PyFlink: ``AsyncRetryPredicate``)."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Returns the test of results that are to be tried again, or ``None``."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Returns the test of exceptions that are to be tried again, or ``None``."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides how often a call is tried again, and after how long (PyFlink: ``AsyncRetryStrategy``)."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """After so many attempts, the first included."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns how long to wait before the next one."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Returns which outcomes are worth another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Record]:
        """Returns the strategy that never tries again."""
        from tidegate.functions.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Record]:
        """Returns a strategy with the same pause of ``backoff_time_millis`` before every further attempt."""
        from tidegate.functions.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Record]:
        """Returns a strategy whose pause begins at ``initial_delay`` ms and grows by ``multiplier`` up to
        ``max_retry_delay`` ms."""
        from tidegate.functions.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )
