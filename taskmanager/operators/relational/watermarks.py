"""Watermarks of a table (Flink: ``WatermarkAssignerOperator.java``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.calc import CalcFunction
from tidegate.functions.sql.scalar import EvaluationContext, EvaluationError, compile_expression
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.configuration import Configuration
from tidegate.model.options import PipelineOptions
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType
from tidegate.plan.nodes import Calc1
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Operator, OperatorContext


class WatermarkAssigner(Operator):
    """Emits watermarks that an expression computes from rows, in ms.

    As in Flink, a watermark is due after a row that advances event time by more than an interval; the latest one is emitted at the end of each batch. One that
    is due within a batch is emitted only if a row between it and the next one is not after it, so that this row is as late as in Flink. Otherwise no operator
    of a table can tell that it was left out, and the batch stays whole. Watermarks before 1970 are not emitted, and until the first one no row is late.

    ``time``: the position of the column with the event time. ``emits_each``: emits each watermark when it is due, since a function may see which is the
    current one.
    """

    works_on = "arrow"

    def __init__(self, expression: Rex, time: int, row: LogicalType, zone: str, *, emits_each: bool = False) -> None:
        self._emits_each = emits_each
        self._expression = compile_expression(expression, row, EvaluationContext(time_zone=zone))
        self._time = time
        self._last = 0
        self._interval_ms = 0

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        configured = Configuration.from_strings(context.configuration)
        self._interval_ms = configured.get(PipelineOptions.AUTO_WATERMARK_INTERVAL)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        if data.columns[self._time].null_count:
            name = data.schema.names[self._time]
            raise EvaluationError(
                f"the event time {name!r} of a row is null: RowTime field should not be null, please convert it to a non-null long value."
            )
        if not data.num_rows:
            return
        reached = np.maximum.accumulate(_milliseconds(self._expression.evaluate(data)))
        ends = self._due_after(reached)
        if ends and not self._emits_each:
            ends = _needed(ends, reached, _milliseconds(data.columns[self._time]))
        start = 0
        for end in ends:
            self.context.output.emit(ArrowBatch(data.slice(start, end - start)))
            self._advance(int(reached[end - 1]))
            start = end
        if start < data.num_rows:
            self.context.output.emit(ArrowBatch(data.slice(start) if start else data))
        self._advance(int(reached[-1]))

    def _due_after(self, reached: npt.NDArray[np.int64]) -> list[int]:
        """Returns the numbers of rows after which a watermark is due. ``reached``: for each row the watermark that it and those before it allow, in ms."""
        ends: list[int] = []
        last = self._last
        while (at := int(np.searchsorted(reached, last + self._interval_ms, side="right"))) < len(reached):
            ends.append(at + 1)
            last = int(reached[at])
        return ends

    def on_watermark(self, timestamp_ms: int) -> None:
        """Passes on the end of time only. Other watermarks are replaced by those of the expression."""
        if timestamp_ms == END_OF_TIME:
            self._advance(timestamp_ms)

    def _advance(self, timestamp_ms: int) -> None:
        if timestamp_ms > self._last:
            self._last = timestamp_ms
            self.context.output.emit_watermark(timestamp_ms)


class WatermarkCalc(Operator):
    """Filters and projects rows with the current watermark, which is the last one that was received."""

    works_on = "arrow"

    def __init__(self, row: LogicalType, node: Calc1, zone: str) -> None:
        self._watermark_ms: int | None = None
        projections = (node.projection,)
        self._calc = CalcFunction(row, node.output_type, projections, node.condition, zone, lambda: self._watermark_ms)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        made = self._calc(batch.data)
        if made.num_rows:
            self.context.output.emit(ArrowBatch(made))

    def on_watermark(self, timestamp_ms: int) -> None:
        self._watermark_ms = timestamp_ms
        super().on_watermark(timestamp_ms)


def _milliseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """Returns points in time as ms; null as no watermark."""
    ms = times.cast(pa.timestamp("ms", times.type.tz), safe=False).view(pa.int64())
    return np.asarray(pc.fill_null(ms, NO_WATERMARK))


def _needed(ends: list[int], reached: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> list[int]:
    """Returns those of ``ends`` whose watermark is followed, before the next one, by a row that is not after it."""
    starts = np.array(ends, np.intp)
    follow = times[starts[0] :] <= np.repeat(reached[starts - 1], np.diff(starts, append=len(times)))
    late = starts[0] + np.flatnonzero(follow)
    return starts[np.unique(np.searchsorted(starts, late, side="right") - 1)].tolist() if len(late) else []
