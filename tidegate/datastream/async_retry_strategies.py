"""Retry strategies of async functions (PyFlink: ``pyflink.datastream.async_retry_strategies``)."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.functions.async_retry_strategies import (
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)

__all__ = [
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.functions.interfaces", "AsyncRetryPredicate AsyncRetryStrategy"),
    elsewhere("tidegate.common.names.type_variables", "OUT"),
)
