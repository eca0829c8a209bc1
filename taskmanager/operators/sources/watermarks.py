"""Event time of a stream: timestamps, watermarks and idleness by a ``WatermarkStrategy``.

    batch ─▶ assign timestamps ─▶ emit ─▶ watermark of its split: highest timestamp - bound - 1, or of a generator
                                              └▶ combined: the minimum over the splits that are not idle, those
                                                 that are still to be read included

Watermarks by a bound are emitted at most every ``pipeline.auto-watermark-interval``: at the end of a batch when the interval is over, else by a timer; with an
interval of 0 only the last one is. Those that a generator emits for a record directly follow that record. Watermarks never decrease. Watermarks from upstream
are dropped except the last one (Flink: ``TimestampsAndWatermarksOperator.java``); without a bound or generator no watermarks are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import (
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    event_times,
)
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.model.units import parse_duration_ms
from tidegate.model.values import Record
from tidegate.model.whole_numbers import as_whole, whole_number
from tidegate.records.batch import MIN_TIMESTAMP, ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_codec import decode
from tidegate.taskmanager.machines.split_watermarks import SplitWatermarks
from tidegate.taskmanager.operators.operator import Operator, OperatorContext
from tidegate.taskmanager.operators.user_code.boundary import Blamed, user_error

INTERVAL_KEY = "pipeline.auto-watermark-interval"
DEFAULT_INTERVAL_MS = 200
"""Flink's default of ``pipeline.auto-watermark-interval``, in milliseconds."""
MOST_REMOTE_MS = 2**62
"""The largest distance of an event time from 1970. A window around such a time still ends below 2**63, whatever its size."""
_INT = frozenset({int})


class EventTimes:
    """Assigns timestamps and emits watermarks for one stream. ``type_info``: of its records, for record functions on Arrow batches."""

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
        self._splits = SplitWatermarks(strategy.idle_timeout_ms)
        self._generators: dict[str, tuple[WatermarkGenerator, _SplitOutput]] = {}
        self.emitted = NO_WATERMARK
        """The watermark that was emitted last."""
        self.is_idle = False
        self._emitted_at_ms = 0.0
        """When the last watermark was emitted, or the stream was opened: as in Flink, a short unordered input is read before the first watermark."""
        self._quiet_since_ms: float | None = None
        self._has_emitted = False
        """Whether records were emitted since the last tick of the timer."""
        self._timer: object | None = None

    @property
    def makes_watermarks(self) -> bool:
        """Whether there are watermarks besides the last one."""
        has_bound = self._strategy.max_out_of_orderness_ms is not None and self._interval_ms > 0
        return has_bound or self._strategy.generator is not None

    def open(self) -> None:
        self._quiet_since_ms = self._emitted_at_ms = self._context.clock.monotonic_ms()
        if self._interval_ms > 0:
            self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._context.timers.cancel(self._timer)
            self._timer = None

    def emit(self, batch: Batch, split: str = "") -> None:
        """Emits a batch with its timestamps, and watermarks that are due. Raises ``UserFunctionError``, ``SchemaMismatch``."""
        self._quiet_since_ms = None
        self._set_idle(False)
        self._has_emitted = True
        timed = self._with_timestamps(batch)
        self._splits.seen(split)
        if self._strategy.generator is not None:
            self._emit_in_parts(timed, split)
        else:
            bound_ms = self._strategy.max_out_of_orderness_ms
            highest = None if bound_ms is None else _highest(timed)
            if highest is not None and bound_ms is not None:
                self._splits.advanced(split, max(highest - bound_ms - 1, MIN_TIMESTAMP))
            self._context.output.emit(timed)
        self._after_batch()

    def assigned(self, split: str) -> None:
        self._splits.assigned(split)

    def expected(self, split: str, first: Batch | None = None) -> int | None:
        """Adds a split that is read later (implements ``tidegate.connectors.base.SplitTimes``). Returns the time of its first record, if known.

        With a bound, the first record limits how old the others may be; with a generator nothing is known in advance.
        """
        time = None if first is None else _highest(self._with_timestamps(first))
        bound_ms = self._strategy.max_out_of_orderness_ms
        if time is None or bound_ms is None:
            self._splits.expected(split)
        else:
            self._splits.expected(split, max(time - bound_ms - 1, MIN_TIMESTAMP))
        return time

    def forward_end(self) -> None:
        self.close()
        self._context.output.emit_watermark(END_OF_TIME)

    def note_busy(self) -> None:
        """Notes that the stream did not wait for records."""
        self._quiet_since_ms = None

    def note_quiet(self) -> None:
        """Records the time from which a source has had nothing to read, for idleness."""
        if self._quiet_since_ms is None:
            self._quiet_since_ms = self._context.clock.monotonic_ms()

    def _after_batch(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        self._quiet_since_ms = now_ms
        if self._interval_ms > 0 and now_ms - self._emitted_at_ms >= self._interval_ms:
            self._emit_periodic(now_ms)

    def _emit_periodic(self, now_ms: float) -> None:
        self._emitted_at_ms = now_ms
        if self._finished_splits is not None and (len(self._splits) > 1 or self._splits.are_expected):
            finished = self._finished_splits()
            self._splits.retired(finished)
            for split in finished:
                self._generators.pop(split, None)
        try:
            for generator, output in list(self._generators.values()):
                generator.on_periodic_emit(output)
        except Exception as error:
            raise user_error(self._context.operator_name, error) from error
        self._emit_watermark()

    def _emit_watermark(self) -> bool:
        """Emits the combined watermark if it has advanced. Returns whether it has."""
        watermark = self._splits.watermark()
        if watermark <= self.emitted:
            return False
        self.emitted = watermark
        self._context.output.emit_watermark(watermark)
        return True

    def _emit_in_parts(self, batch: Batch, split: str) -> None:
        """Emits each record, followed by the watermark that the generator emits for it."""
        if split not in self._generators:
            self._generators[split] = (
                self._new_generator(),
                _SplitOutput(self._splits, split, self._context.operator_name),
            )
        generator, output = self._generators[split]
        values, stamps = self._values(batch), _stamps(batch)
        emitted = 0
        for place, (value, stamp) in enumerate(zip(values, stamps, strict=True), 1):
            try:
                generator.on_event(value, MIN_TIMESTAMP if stamp is None else stamp, output)
            except Exception as error:
                raise user_error(self._context.operator_name, error, value) from error
            if output.is_changed and self._splits.watermark() > self.emitted:
                self._context.output.emit(batch.slice(emitted, place))
                emitted = place
                self._emit_watermark()
            output.is_changed = False
        if emitted < len(batch):
            self._context.output.emit(batch.slice(emitted, len(batch)) if emitted else batch)

    def _new_generator(self) -> WatermarkGenerator:
        assert self._strategy.generator is not None
        try:
            made = self._strategy.generator()
        except Exception as error:
            raise user_error(self._context.operator_name, error) from error
        if not isinstance(made, WatermarkGenerator):
            raise InvalidJob(
                f"operator '{self._context.operator_name}': the supplier of for_generator returned {made!r}, which is not a "
                "WatermarkGenerator"
            )
        return made

    def _on_timer(self, at_ms: int) -> None:
        now_ms = self._context.clock.monotonic_ms()
        if self._has_emitted or self._quiet_since_ms is not None:
            self._splits.passed(self._interval_ms)
            self._has_emitted = False
        self._emit_periodic(now_ms)
        timeout_ms, quiet_since_ms = self._strategy.idle_timeout_ms, self._quiet_since_ms
        is_quiet = timeout_ms is not None and quiet_since_ms is not None and now_ms - quiet_since_ms >= timeout_ms
        if (is_quiet and not self._splits.are_expected) or self._splits.is_idle():
            self._set_idle(True)
        self._schedule()

    def _set_idle(self, is_idle: bool) -> None:
        if is_idle != self.is_idle:
            self.is_idle = is_idle
            self._context.output.emit_idle(is_idle)

    def _schedule(self) -> None:
        at_ms = self._context.clock.now_ms() + self._interval_ms
        self._timer = self._context.timers.schedule(at_ms, self._on_timer)

    def _values(self, batch: Batch) -> list[Record]:
        if isinstance(batch, RecordsBatch):
            return batch.values
        return decode(self._type_info, batch.data, self._context.operator_name)

    def _with_timestamps(self, batch: Batch) -> Batch:
        strategy, name = self._strategy, self._context.operator_name
        if strategy.timestamp_column is not None:
            return _from_column(batch, strategy.timestamp_column, self._type_info, name)
        if strategy.timestamp_assigner is None:
            return batch
        if isinstance(batch, ArrowBatch):
            batch = RecordsBatch(self._values(batch), None if batch.timestamps is None else _stamps(batch))
        return RecordsBatch(batch.values, self._extract(batch))

    def _extract(self, batch: RecordsBatch) -> list[int | None]:
        assert self._strategy.timestamp_assigner is not None
        extract = self._strategy.timestamp_assigner.extract_timestamp
        old, name, taken = _stamps(batch), self._context.operator_name, Blamed(batch.values)
        try:
            given = [
                extract(value, MIN_TIMESTAMP if stamp is None else stamp)
                for value, stamp in zip(taken, old, strict=True)
            ]
        except Exception as error:
            raise user_error(name, error, *taken.record()) from error
        if not _INT.issuperset(map(type, given)):
            given = [_whole(stamp, value, name) for stamp, value in zip(given, batch.values, strict=True)]
        found: list[int | None] = list(given)
        valid = [stamp for stamp in found if stamp is not None and stamp != MIN_TIMESTAMP]  # that one says: no time
        if valid:
            _check_range(min(valid), max(valid), name)
        return found


def _whole(stamp: int, value: Record, operator: str) -> int:
    found = as_whole(stamp)
    if found is None:
        raise SchemaMismatch(
            f"operator '{operator}': extract_timestamp gave {stamp!r} of type {type(stamp).__name__} for the record {repr(value)[:200]}: it must be a time in "
            "ms since 1970, a whole number, so convert it with int(...), or round it"
        )
    return found


class _SplitOutput(WatermarkOutput):
    """The output of one split's watermark generator."""

    def __init__(self, splits: SplitWatermarks, split: str, operator: str) -> None:
        self.is_changed = False
        self._operator = operator
        self._splits = splits
        self._split = split

    def emit_watermark(self, watermark: Watermark | int) -> None:
        given = watermark.timestamp if isinstance(watermark, Watermark) else watermark
        timestamp = whole_number(given, f"operator '{self._operator}': emit_watermark of the WatermarkGenerator")
        self._splits.marked(self._split, is_idle=False)
        self._splits.advanced(self._split, timestamp)
        self.is_changed = True

    def mark_idle(self) -> None:
        self._splits.marked(self._split, is_idle=True)
        self.is_changed = True

    def mark_active(self) -> None:
        self._splits.marked(self._split, is_idle=False)


def _stamps(batch: Batch) -> list[int | None]:
    if batch.timestamps is None:
        return [None] * len(batch)
    stamps: Any = batch.timestamps
    found: list[int | None] = stamps.to_pylist() if isinstance(batch, ArrowBatch) else stamps
    return found


def _from_column(batch: Batch, column: str, type_info: TypeInformation, operator: str) -> ArrowBatch:
    if not isinstance(batch, ArrowBatch):
        raise SchemaMismatch(
            f"operator '{operator}': event time of column '{column}' needs a stream of columns: give the operator before it an output_type, such as "
            "Types.ROW_NAMED([...], [...])"
        )
    if column not in batch.data.schema.names:
        raise SchemaMismatch(
            f"operator '{operator}': no timestamp column '{column}' among {', '.join(batch.data.schema.names)}"
        )
    try:
        stamps = event_times(batch.data.column(column), column)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"operator '{operator}': a time of column '{column}' is out of range: {error}; correct such times or filter them out"
        ) from None
    if stamps.null_count:
        raise SchemaMismatch(
            f"operator '{operator}': the timestamp column '{column}' of {type_info!r} has a null: filter it out"
        )
    if len(stamps):
        times = stamps.to_numpy()
        _check_range(int(np.min(times)), int(np.max(times)), operator)
    return ArrowBatch(batch.data, stamps)


def _check_range(lowest: int, highest: int, operator: str) -> None:
    """Raises ``SchemaMismatch`` for a time so remote that the end of its window would overflow."""
    for stamp in (lowest, highest):
        if abs(stamp) > MOST_REMOTE_MS:
            raise SchemaMismatch(
                f"operator '{operator}': the timestamp {stamp} is out of range: event times are ms since 1970, at most "
                f"{MOST_REMOTE_MS} before or after it. Correct the timestamps or filter them out"
            )


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
    """The operator of ``assign_timestamps_and_watermarks``. It works on columns when the strategy names one."""

    def __init__(self, strategy: WatermarkStrategy, input_type: TypeInformation) -> None:
        self._strategy = strategy
        self._input_type = input_type
        if strategy.timestamp_column is not None:
            self.works_on = "arrow"  # type: ignore[misc]  # depends on the strategy: the chain asks the instance
        elif strategy.timestamp_assigner is None and strategy.generator is None:
            self.works_on = "any"  # type: ignore[misc]  # likewise

    def open(self) -> None:
        self._times = EventTimes(self.context, self._strategy, self._input_type)
        self._times.open()

    def process(self, batch: Batch, input_index: int) -> None:
        self._times.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == END_OF_TIME:
            self._times.forward_end()

    def on_idle(self, idle: bool) -> None:
        """Ignores the status of the input: this operator's own strategy decides on idleness."""

    def close(self) -> None:
        if hasattr(self, "_times"):
            self._times.close()
