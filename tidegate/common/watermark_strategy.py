"""`WatermarkStrategy`: how event time and watermarks are derived from records (PyFlink: ``pyflink.common.watermark_strategy``).

A strategy is a value; every ``with_*`` returns a new one. The operators read its attributes:

- ``max_out_of_orderness_ms``: the watermark is the highest timestamp seen, less this, less 1; ``None``: no watermarks.
- ``timestamp_assigner``: object with ``extract_timestamp(value, record_timestamp) -> ms``; ``None``: timestamps stay.
- ``timestamp_column`` (ours, columnar streams): an integer column in ms, or a date or timestamp column of any unit.
- ``generator``: makes a ``WatermarkGenerator`` for each split, in place of the bound; ``None``: the bound counts.
- ``alignment``: the group that a source keeps together with; ``None``: none.
- ``idle_timeout_ms``: after this long without a record a split, and then the stream, is idle; ``None``: never.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.common.names.java_only import refusing
from tidegate.common.time import Duration
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.values import Record
from tidegate.records.time import to_millis

__all__ = ["TimestampAssigner", "Watermark", "WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Extracts the event time of records."""

    @abstractmethod
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        """Returns the event time of a record in ms since the epoch. ``record_timestamp``: its timestamp so far; without one the smallest int64."""


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """A watermark: no record with this or an earlier timestamp follows. In ms since the epoch."""

    timestamp: int


class WatermarkOutput(ABC):
    """Receives the watermarks and the idleness of a generator."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark | int) -> None:
        """Emits a watermark; one before the last has no effect. Ends idleness."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Marks the input as idle: other inputs do not wait for it until it is active again."""

    @abstractmethod
    def mark_active(self) -> None:
        """Marks the input as active after ``mark_idle``."""


class WatermarkGenerator(ABC):
    """Generates watermarks from records (``on_event``: "punctuated") or every ``pipeline.auto-watermark-interval`` (``on_periodic_emit``). A source has
    one generator for each split (as in Flink's Java API; PyFlink has none)."""

    @abstractmethod
    def on_event(self, event: Record, event_timestamp: int, output: WatermarkOutput) -> None:
        """Is called for each record with its timestamp (the smallest int64: none). A watermark that is emitted here directly follows the record."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Is called every ``pipeline.auto-watermark-interval``; may emit a watermark."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """A group of sources with aligned watermarks: none is ahead of the slowest by more than ``max_drift_ms``."""

    group: str
    max_drift_ms: int
    update_ms: int


@dataclass(frozen=True)
class WatermarkStrategy:
    """Defines how timestamps and watermarks are derived from records (PyFlink: ``WatermarkStrategy``). Methods that change a strategy return a new
    one::

        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_idleness(Duration.of_minutes(1))
    """

    max_out_of_orderness_ms: int | None = 0
    timestamp_assigner: TimestampAssigner | None = None
    timestamp_column: str | None = None
    idle_timeout_ms: int | None = None
    generator: Callable[[], WatermarkGenerator] | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Creates a strategy for timestamps that never decrease within a split."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Creates a strategy for records that are late by at most this duration."""
        bound_ms = to_millis(max_out_of_orderness)
        if bound_ms < 0:
            raise InvalidJob(f"the bound of out-of-orderness must not be negative: {bound_ms} ms")
        return WatermarkStrategy(bound_ms)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Creates a strategy without watermarks, for programs in processing time."""
        return WatermarkStrategy(None)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Creates a strategy with a user-defined generator, as in Flink's Java API. ``generator_supplier``: called in the subtask, once for each split;
        may be a class without parameters."""
        if isinstance(generator_supplier, WatermarkGenerator) or not callable(generator_supplier):
            raise InvalidJob(
                f"for_generator needs something to call that makes a WatermarkGenerator (such as its class), not "
                f"{generator_supplier!r}: each split gets one of its own"
            )
        return WatermarkStrategy(None, generator=generator_supplier)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Record, int], int]
    ) -> WatermarkStrategy:
        """Sets the assigner of timestamps: a ``TimestampAssigner`` or, beyond PyFlink, a function ``value, old -> ms``."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            if not callable(timestamp_assigner):
                raise InvalidJob(f"not a TimestampAssigner: {timestamp_assigner!r}")
            timestamp_assigner = FunctionTimestampAssigner(timestamp_assigner)
        return replace(self, timestamp_assigner=timestamp_assigner, timestamp_column=None)

    def with_timestamp_column(self, column: str) -> WatermarkStrategy:
        """Sets the column with the timestamps, which are read without leaving Arrow. This method is tidegate's own."""
        return replace(self, timestamp_column=column, timestamp_assigner=None)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Marks an input without records for this long as idle, so that it holds back no watermark. Raises ``InvalidJob`` unless the time is positive."""
        timeout_ms = to_millis(idle_timeout)
        if timeout_ms <= 0:
            raise InvalidJob(f"the idle timeout must be positive: {timeout_ms} ms")
        return replace(self, idle_timeout_ms=timeout_ms)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """Pauses a source of this strategy while its watermark is ahead of the slowest source of the group (any source of the job with the same group,
        in any subtask) by more than the drift. ``update_interval``: how often sources exchange watermarks, 1 s by default. Only for ``from_source``:
        after a source there is nothing to pause."""
        drift_ms, update_ms = to_millis(max_allowed_watermark_drift), 1000
        if update_interval is not None:
            update_ms = to_millis(update_interval)
        if not watermark_group or drift_ms <= 0 or update_ms <= 0:
            raise InvalidJob(
                "watermark alignment needs a group with a name, and a drift and an update interval that are positive, not "
                f"{watermark_group!r}, {drift_ms} ms and {update_ms} ms"
            )
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, update_ms))


class FunctionTimestampAssigner(TimestampAssigner):
    """A function ``value, old timestamp -> ms`` as an assigner."""

    def __init__(self, function: Callable[[Record, int], int]) -> None:
        self.function = function

    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return self.function(value, record_timestamp)


def makes_watermarks(strategy: WatermarkStrategy | None) -> bool:
    """Tells whether a strategy generates watermarks before the end of the input."""
    return strategy is not None and (strategy.max_out_of_orderness_ms is not None or strategy.generator is not None)


def check_timestamp_type(name: str, kind: pa.DataType) -> None:
    """Checks that a column of this type can be event time. Raises ``SchemaMismatch``."""
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SchemaMismatch(
            f"timestamp column {name!r} is of type {kind}: event time needs an integer column (ms since the epoch), "
            "a timestamp or a date"
        )


def event_times(column: pa.Array, name: str = "timestamp") -> pa.Array:
    """Converts a column to event time: int64, ms since the epoch. Timestamps are rounded down; integers are ms already. A timestamp without a zone is
    in UTC. Raises ``SchemaMismatch`` for other types."""
    if column.type == pa.int64():  # most are; a small batch has little other work
        return column
    check_timestamp_type(name, column.type)
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms")).cast(pa.int64())
    ticks = column.cast(pa.int64())
    if column.type.unit == "s":
        return pc.multiply_checked(ticks, 1000)
    if column.type.unit == "ms":
        return ticks
    # Arrow's division truncates; before 1970 that would round up, so shift by the remainder first.
    per_ms = {"us": 1000, "ns": 1_000_000}[column.type.unit]
    quotient = pc.divide(ticks, per_ms)
    rounded_up = pc.and_(pc.less(ticks, 0), pc.not_equal(pc.multiply(quotient, per_ms), ticks))
    return pc.subtract(quotient, pc.cast(rounded_up, pa.int64()))


__getattr__ = refusing(
    __name__,
    "AssignerWithPeriodicWatermarksWrapper",
    "use WatermarkStrategy.for_bounded_out_of_orderness(...), or for_generator(...) with a generator in Python",
)
