"""Watermarks of a table (Flink: ``WatermarkAssignerOperator.java``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar import EvaluationContext, EvaluationError, compile_expression
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.configuration import Configuration
from tidegate.model.options import PipelineOptions
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.operator import Operator, OperatorContext


class WatermarkAssigner(Operator):
    """Emits watermarks that an expression computes from rows, in ms.

    As in Flink, a watermark is emitted after a row that advances event time by more than an interval, and the latest one at the end of each batch. Watermarks
    before 1970 are not emitted, and until the first one no row is late.
    """

    works_on = "arrow"

    def __init__(self, expression: Rex, time: int, row: LogicalType, zone: str) -> None:
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
        times = self._expression.evaluate(data)
        ms = pc.fill_null(times.cast(pa.timestamp("ms", times.type.tz), safe=False).view(pa.int64()), NO_WATERMARK)
        reached = np.maximum.accumulate(ms.to_numpy())
        start = 0
        while start < data.num_rows:
            at = int(np.searchsorted(reached, self._last + self._interval_ms, side="right"))
            end = min(max(at, start) + 1, data.num_rows)
            self.context.output.emit(ArrowBatch(data.slice(start, end - start)))
            if at < data.num_rows:
                self._advance(int(reached[end - 1]))
            start = end
        if data.num_rows:
            self._advance(int(reached[-1]))

    def on_watermark(self, timestamp_ms: int) -> None:
        """Passes on the end of time only. Other watermarks are replaced by those of the expression."""
        if timestamp_ms == END_OF_TIME:
            self._advance(timestamp_ms)

    def _advance(self, timestamp_ms: int) -> None:
        if timestamp_ms > self._last:
            self._last = timestamp_ms
            self.context.output.emit_watermark(timestamp_ms)
