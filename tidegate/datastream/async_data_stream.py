"""`AsyncDataStream`: applies an AsyncFunction to a stream (PyFlink: ``pyflink.datastream.async_data_stream``)."""

from __future__ import annotations

import inspect

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.time import Duration, Time
from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.datastream.data_stream import DataStream
from tidegate.functions.async_functions import AsyncFunction
from tidegate.functions.async_retry_strategies import NO_RETRY_STRATEGY, AsyncRetryStrategy, NoRetryStrategy
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Record
from tidegate.model.whole_numbers import whole_number
from tidegate.records.time import to_millis

__all__ = ["AsyncDataStream"]


class AsyncDataStream:
    """Applies an AsyncFunction to a stream. ``timeout``: for all attempts of one record together; 0: none. ``capacity``: how many records a subtask
    processes at a time."""

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Record, Record],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Emits results as they complete. No result overtakes a watermark, and no watermark a result."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Record, Record],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Record],
        capacity: int = 100,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Emits results as they complete, with retries of failed calls."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Record, Record],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Emits results in the order of the records."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Record, Record],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Record],
        capacity: int = 100,
        output_type: TypeHint = None,
    ) -> DataStream:
        """Emits results in the order of the records, with retries of failed calls."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True)


def _wait(
    data_stream: DataStream,
    function: AsyncFunction[Record, Record],
    timeout: Time | Duration,
    strategy: AsyncRetryStrategy[Record],
    capacity: int,
    output_type: TypeHint,
    *,
    ordered: bool,
) -> DataStream:
    if not isinstance(function, AsyncFunction):
        raise InvalidJob(f"async I/O needs an AsyncFunction, not {function!r}")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise InvalidJob(
            f"Method 'async_invoke' of class '{type(function).__qualname__}' should be declared as 'async def'."
        )
    if not isinstance(strategy, AsyncRetryStrategy):
        raise InvalidJob(f"{strategy!r} is not an AsyncRetryStrategy")
    if strategy.get_retry_predicate() is None:
        raise InvalidJob(f"the retry predicate of the strategy {type(strategy).__qualname__} is None")
    timeout_ms = to_millis(timeout, "the timeout of async I/O in ms")
    if timeout_ms <= 0 and not isinstance(strategy, NoRetryStrategy):
        raise InvalidJob("Timeout should be configured when do async with retry.")
    capacity = whole_number(capacity, "the capacity of async I/O")
    if capacity < 1:
        raise InvalidJob(f"the capacity of async I/O must be at least 1, not {capacity}")
    options = {
        "func": function,
        "timeout_ms": max(0, timeout_ms),
        "strategy": strategy,
        "capacity": capacity,
        "ordered": ordered,
    }
    return data_stream._transform("async_wait", "async wait operator", options, type_of(output_type))


__getattr__ = finding(
    __name__,
    elsewhere("tidegate.common.typeinfo", "TypeInformation"),
)
