"""Event time: timestamps from records or columns, watermarks and idleness by a ``WatermarkStrategy``.

    batch ─▶ assign timestamps ─▶ highest timestamp of its split ─▶ watermark = min over splits - bound - 1

Watermarks leave at most every ``pipeline.auto-watermark-interval``: at the end of a batch when the interval is over, else
by a timer; an interval of 0 means none but the last. They never go back. A watermark from upstream is dropped but for the last one (Flink:
``TimestampsAndWatermarksOperator.java``); without a strategy bound no watermarks are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taskmanager.operators.base import Operator, OperatorContext
from taskmanager.operators.user_code import user_error
from tidegate.common.batch import MAX_TIMESTAMP, MIN_TIMESTAMP, ArrowBatch, Batch, RecordsBatch
from tidegate.common.record_codec import decode
from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy, event_times
from tidegate.model.errors import SchemaMismatch
from tidegate.model.units import parse_duration_ms

INTERVAL_KEY = "pipeline.auto-watermark-interval"
DEFAULT_INTERVAL_MS = 200


class EventTimes:
    """Timestamps and watermarks of one stream. ``type_info`` is of its records: a record function may have to read
    an Arrow batch."""

    def __init__(
        self,
        context: OperatorContext,
        strategy: WatermarkStrategy,
        type_info: TypeInformation,
        finished_splits: Callable[[], set[str]] | None = None,
    ) -> None:
        self._context = context
        self._strategy = strategy
        self._type_info = type_info
        self._finished_splits = finished_splits
        self._interval_ms = parse_duration_ms(context.configuration.get(INTERVAL_KEY, f"{DEFAULT_INTERVAL_MS} ms"))
        self._highest: dict[str, int] = {}
        self._emitted = MIN_TIMESTAMP
        self._emitted_at_ms = -1.0
        self._quiet_since_ms: float | None = None
        self._is_idle = False
        self._timer: object | None = None

    def open(self) -> None:
        self._quiet_since_ms = self._context.clock.monotonic_ms()
        if self._interval_ms > 0:
            self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._context.timers.cancel(self._timer)
            self._timer = None

    def assign(self, batch: Batch, split: str = "") -> Batch:
        """The batch with its timestamps; remembers the highest. Raises ``UserFunctionError``, ``SchemaMismatch``."""
        self._quiet_since_ms = None
        if self._is_idle:
            self._is_idle = False
            self._context.output.emit_idle(False)
        timed = self._with_timestamps(batch)
        highest = _highest(timed)
        if highest is not None and highest > self._highest.get(split, MIN_TIMESTAMP):
            self._highest[split] = highest
        return timed

    def after_batch(self) -> None:
        """Emit the watermark when it is time."""
        now_ms = self._context.clock.monotonic_ms()
        self._quiet_since_ms = now_ms
        is_due = self._emitted_at_ms < 0 or now_ms - self._emitted_at_ms >= self._interval_ms
        if is_due and self._interval_ms > 0:
            self._emit(now_ms)

    def forward_end(self) -> None:
        self.close()
        self._context.output.emit_watermark(MAX_TIMESTAMP)

    def note_busy(self) -> None:
        """The stream did not stand still for want of records."""
        self._quiet_since_ms = None

    def note_quiet(self) -> None:
        """There was nothing to read."""
        if self._quiet_since_ms is None:
            self._quiet_since_ms = self._context.clock.monotonic_ms()

    def _emit(self, now_ms: float) -> None:
        self._emitted_at_ms = now_ms
        watermark = self._watermark()
        if watermark > self._emitted:
            self._emitted = watermark
            self._context.output.emit_watermark(watermark)

    def _watermark(self) -> int:
        bound_ms = self._strategy.max_out_of_orderness_ms
        if bound_ms is None or not self._highest:
            return MIN_TIMESTAMP
        if len(self._highest) > 1 and self._finished_splits is not None:
            newest = max(self._highest.values())
            for split in self._finished_splits():
                self._highest.pop(split, None)
            if not self._highest:
                self._highest = {"": newest}
        return max(min(self._highest.values()) - bound_ms - 1, MIN_TIMESTAMP)

    def _on_timer(self, at_ms: int) -> None:
        now_ms = self._context.clock.monotonic_ms()
        self._emit(now_ms)
        timeout_ms, quiet_since_ms = self._strategy.idle_timeout_ms, self._quiet_since_ms
        is_quiet = timeout_ms is not None and quiet_since_ms is not None and now_ms - quiet_since_ms >= timeout_ms
        if is_quiet and not self._is_idle:
            self._is_idle = True
            self._context.output.emit_idle(True)
        self._schedule()

    def _schedule(self) -> None:
        at_ms = self._context.clock.now_ms() + self._interval_ms
        self._timer = self._context.timers.schedule(at_ms, self._on_timer)

    def _with_timestamps(self, batch: Batch) -> Batch:
        strategy, name = self._strategy, self._context.operator_name
        if strategy.timestamp_column is not None:
            return _from_column(batch, strategy.timestamp_column, self._type_info, name)
        if strategy.timestamp_assigner is None:
            return batch
        if isinstance(batch, ArrowBatch):
            stamps = None if batch.timestamps is None else batch.timestamps.to_pylist()
            batch = RecordsBatch(decode(self._type_info, batch.data, name), stamps)
        return RecordsBatch(batch.values, self._extract(batch))

    def _extract(self, batch: RecordsBatch) -> list[int | None]:
        assert self._strategy.timestamp_assigner is not None
        extract = self._strategy.timestamp_assigner.extract_timestamp
        old = batch.timestamps or [None] * len(batch.values)
        try:
            return [
                int(extract(value, MIN_TIMESTAMP if stamp is None else stamp))
                for value, stamp in zip(batch.values, old, strict=True)
            ]
        except Exception as error:
            raise user_error(self._context.operator_name, error) from error


def _from_column(batch: Batch, column: str, type_info: TypeInformation, operator: str) -> ArrowBatch:
    if not isinstance(batch, ArrowBatch):
        raise SchemaMismatch(f"operator '{operator}': event time of column '{column}' needs a stream of columns")
    if column not in batch.data.schema.names:
        raise SchemaMismatch(
            f"operator '{operator}': no timestamp column '{column}' among {', '.join(batch.data.schema.names)}"
        )
    stamps = event_times(batch.data.column(column), column)
    if stamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': the timestamp column '{column}' of {type_info!r} has a null: filter it out"
        )
    return ArrowBatch(batch.data, stamps)


def _highest(batch: Batch) -> int | None:
    if not len(batch) or batch.timestamps is None:
        return None
    if isinstance(batch, ArrowBatch):
        stamps: Any = batch.timestamps
        if stamps.null_count:
            stamps = stamps.drop_null()
        return int(np.max(stamps.to_numpy())) if len(stamps) else None
    found = [stamp for stamp in batch.timestamps if stamp is not None]
    return max(found) if found else None


class TimestampsWatermarksOperator(Operator):
    """``assign_timestamps_and_watermarks``. Works on columns when the strategy names one."""

    def __init__(self, strategy: WatermarkStrategy, input_type: TypeInformation) -> None:
        self._strategy = strategy
        self._input_type = input_type
        if strategy.timestamp_column is not None:
            self.works_on = "arrow"  # type: ignore[misc]  # depends on the strategy: the chain asks the instance
        elif strategy.timestamp_assigner is None:
            self.works_on = "any"  # type: ignore[misc]  # likewise

    def open(self) -> None:
        self._times = EventTimes(self.context, self._strategy, self._input_type)
        self._times.open()

    def process(self, batch: Batch, input_index: int) -> None:
        self.context.output.emit(self._times.assign(batch))
        self._times.after_batch()

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_TIMESTAMP:
            self._times.forward_end()

    def on_idle(self, idle: bool) -> None:
        """Idleness is told by this operator's own strategy."""

    def close(self) -> None:
        if hasattr(self, "_times"):
            self._times.close()
