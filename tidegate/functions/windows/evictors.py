"""Evictors, which remove records from a window when it fires, before or after its function (Flink's Java API:
``org.apache.flink.streaming.api.windowing.evictors``; PyFlink has none).

    window fires ─▶ evict_before ─▶ function sees what is left ─▶ evict_after ─▶ what is left stays in the window

A window with an evictor keeps all its records, also those of ``reduce`` and ``aggregate``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidegate.functions.windows.triggers import Length
from tidegate.functions.windows.windows import Window
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Record
from tidegate.model.whole_numbers import whole_number
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.records.time import to_millis


@dataclass(frozen=True, slots=True)
class TimestampedValue:
    """A record of a window. ``timestamp`` is the smallest int64 for a record without one."""

    value: Record
    timestamp: int

    def get_value(self) -> Record:
        """Returns the record."""
        return self.value

    def get_timestamp(self) -> int:
        """Returns the record's event time in milliseconds."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Returns whether the record has event time."""
        return self.timestamp != MIN_TIMESTAMP


class EvictorScope(Protocol):
    """The context of an evictor: time and metrics."""

    def get_current_processing_time(self) -> int:
        """Returns the clock's time in milliseconds since the epoch."""

    def get_current_watermark(self) -> int:
        """Returns the operator's watermark in milliseconds since the epoch."""

    def get_metric_group(self) -> Record:
        """Returns the group in which the evictor registers metrics."""


class Evictor(ABC):
    """Removes records from a window when it fires (Flink: ``Evictor.java``). Both methods get the window's records in order of arrival, and delete from
    that list."""

    EvictorContext: TypeAlias = EvictorScope

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorScope
    ) -> None:
        """Removes records before the window function sees them."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorScope
    ) -> None:
        """Removes records after the window function has seen them."""


class _OneEvictor(Evictor):
    """Evicts before the function, or after it if so configured."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorScope
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: EvictorScope
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


class CountEvictor(_OneEvictor):
    """Keeps the last ``max_count`` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        max_count = whole_number(max_count, "CountEvictor: the number of records")
        if max_count < 0:
            raise InvalidJob(f"CountEvictor: the number of records must not be negative: {max_count}")
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keeps the last ``max_count`` records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self.max_count)]


class TimeEvictor(_OneEvictor):
    """Keeps the records that are less than ``window_size`` ms older than the latest one."""

    def __init__(self, window_size: Length, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size_ms = to_millis(window_size, "TimeEvictor: the size in ms")

    @staticmethod
    def of(window_size: Length, do_evict_after: bool = False) -> TimeEvictor:
        """Keeps the records that are less than ``window_size`` older than the latest one."""
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements and elements[0].has_timestamp():
            kept_after = max(element.timestamp for element in elements) - self.window_size_ms
            elements[:] = [element for element in elements if element.timestamp > kept_after]


class DeltaEvictor(_OneEvictor):
    """Keeps the records of which ``delta_function(record, last record)`` is less than ``threshold``."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Record, Record], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        delta = getattr(delta_function, "get_delta", delta_function)
        if not callable(delta):
            raise InvalidJob(f"DeltaEvictor needs a function of two records, not {delta_function!r}")
        self.threshold = threshold
        self.delta_function = delta

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Record, Record], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        """Keeps the records whose distance to the last one, by ``delta_function``, is below ``threshold``."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last, delta = elements[-1].value, self.delta_function
            elements[:] = [element for element in elements if delta(element.value, last) < self.threshold]
