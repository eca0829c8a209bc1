"""Mini-batches: rows that an operator gathers and then processes together (Flink: ``MapBundleOperator``), and the marks that end them.

    source ─▶ assigner, a watermark every interval ─▶ … ─▶ operator: batches ─▶ mini-batch ─▶ rows so far of each input at once

A mini-batch ends when it has so many rows, at a watermark, before a barrier and at the end of the input.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.records.batch import Batch
from tidegate.taskmanager.operators.operator import Operator


class MiniBatch:
    """Rows of the inputs of an operator that are not processed yet. ``size``: the number of rows with which it is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows = 0
        self._batches: dict[int, list[pa.RecordBatch]] = {}

    def add(self, data: pa.RecordBatch, input_index: int) -> bool:
        """Adds rows of an input. Returns whether the mini-batch is full."""
        self._batches.setdefault(input_index, []).append(data)
        self._rows += data.num_rows
        return self._rows >= self._size

    def take(self) -> list[tuple[int, pa.RecordBatch]]:
        """Removes all rows. Returns the number of each input that has some, in order, with its rows as they came."""
        batches, self._batches, self._rows = self._batches, {}, 0
        return [
            (index, found[0] if len(found) == 1 else pa.concat_batches(found))
            for index, found in sorted(batches.items())
        ]


class ProcessingTimeMiniBatchAssigner(Operator):
    """Ends mini-batches by the clock: each ``interval_ms`` it emits the beginning of the interval as a watermark, whether rows come or not. Watermarks of its
    input are not passed on, but for the end of time (Flink: ``ProcTimeMiniBatchAssignerOperator``).
    """

    works_on = "arrow"

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._scheduled: object = None
        self._last = 0

    def open(self) -> None:
        super().open()
        self._schedule()

    def process(self, batch: Batch, input_index: int) -> None:
        self._emit_mark()
        self.context.output.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == END_OF_TIME and self._last != END_OF_TIME:
            self._last = timestamp_ms
            self.context.output.emit_watermark(timestamp_ms)

    def on_idle(self, idle: bool) -> None:
        """Ignores it: marks are emitted by an idle input too, and others must not end without them."""

    def close(self) -> None:
        if self._scheduled is not None:
            self.context.timers.cancel(self._scheduled)
        super().close()

    def _schedule(self) -> None:
        now_ms = self.context.clock.now_ms()
        due_ms = now_ms - now_ms % self._interval_ms + self._interval_ms
        self._scheduled = self.context.timers.schedule(due_ms, self._on_time)

    def _on_time(self, time_ms: int) -> None:
        del time_ms
        self._scheduled = None
        self._emit_mark()
        self._schedule()

    def _emit_mark(self) -> None:
        now_ms = self.context.clock.now_ms()
        mark = now_ms - now_ms % self._interval_ms
        if mark > self._last:
            self._last = mark
            self.context.output.emit_watermark(mark)


class EventTimeMiniBatchAssigner(Operator):
    """Ends mini-batches by event time: passes on the first watermark in each interval of ``interval_ms`` and the last one of all (Flink:
    ``RowTimeMiniBatchAssginerOperator``, so spelt there).
    """

    works_on = "arrow"

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._current = self._passed = NO_WATERMARK
        self._next = 0

    def process(self, batch: Batch, input_index: int) -> None:
        self.context.output.emit(batch)

    def on_watermark(self, timestamp_ms: int) -> None:
        self._current = max(self._current, timestamp_ms)
        if timestamp_ms == END_OF_TIME or self._current >= self._next:
            self._pass_on()

    def finish(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        if self._current > self._passed:
            self._passed = self._current
            self.context.output.emit_watermark(self._current)
            end = self._current - self._current % self._interval_ms + self._interval_ms - 1
            self._next = end if end > self._current else end + self._interval_ms


__all__ = ["EventTimeMiniBatchAssigner", "MiniBatch", "ProcessingTimeMiniBatchAssigner"]
