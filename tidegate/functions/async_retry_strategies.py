"""Retries of async functions (PyFlink: ``pyflink.datastream.async_retry_strategies``; Flink: ``AsyncRetryStrategy.java``).

One strategy object serves all records of a subtask: it keeps nothing between calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Record

__all__ = [
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Record]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which outcomes are retried (PyFlink: ``AsyncRetryPredicate``)."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Returns the predicate of results that are retried, or ``None``."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Returns the predicate of exceptions that are retried, or ``None``."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides how often a call is retried, and after which delay (PyFlink: ``AsyncRetryStrategy``)."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Returns whether a retry follows the given number of attempts, the first included."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the delay before the next attempt, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Returns which outcomes are retried."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Record]:
        """Returns the strategy without retries."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Record]:
        """Returns a strategy with a delay of ``backoff_time_millis`` before every retry."""
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
        """Returns a strategy whose delay starts at ``initial_delay`` ms and grows by ``multiplier`` up to ``max_retry_delay`` ms."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Predicates of results and of exceptions; either may be ``None``."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Returns the predicate of results, or ``None``."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Returns the predicate of exceptions, or ``None``."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """A strategy without retries."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> RetryPredicate[Record]:
        """Returns a predicate that is true for nothing."""
        return RetryPredicate(None, None)


class _Retries(AsyncRetryStrategy[OUT]):
    def __init__(self, max_attempts: int, predicate: RetryPredicate[Record], **positive: float) -> None:
        for name, number in {"max_attempts": max_attempts, **positive}.items():
            if not number > 0:
                raise InvalidJob(f"{name} should be greater than zero, not {number}")
        self._max_attempts = max_attempts
        self._predicate = predicate

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> RetryPredicate[Record]:
        return self._predicate


class FixedDelayRetryStrategy(_Retries[OUT]):
    """Retries up to ``max_attempts`` times, after a fixed delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        predicate: RetryPredicate[Record] = RetryPredicate(result_predicate, exception_predicate)
        super().__init__(max_attempts, predicate, backoff_time_millis=backoff_time_millis)
        self._backoff_time_millis = backoff_time_millis

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_Retries[OUT]):
    """Retries up to ``max_attempts`` times, after a delay that grows by ``multiplier`` up to ``max_retry_delay`` (ms)."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(
            max_attempts,
            RetryPredicate(result_predicate, exception_predicate),
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = self._initial_delay
        for _ in range(1, current_attempts):
            delay = int(min(delay * self._multiplier, self._max_retry_delay))
        return delay


NO_RETRY_STRATEGY: AsyncRetryStrategy[Record] = NoRetryStrategy()
