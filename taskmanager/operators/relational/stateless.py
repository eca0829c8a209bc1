"""Operators of one batch at a time: calc, expand, drop-update-before, the checks of a sink, and the watermark assigner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.changelog import UPDATE_BEFORE, has_kinds
from tidegate.functions.sql.scalar import EvaluationContext, compile_expression, compile_filter, compile_projection
from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK
from tidegate.model.errors import UserError
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.taskmanager.operators.base import Operator

WATERMARK_INTERVAL_MS = 200
"""Event time that passes between two watermarks (``pipeline.auto-watermark-interval``)."""


class BatchOperator(Operator):
    """A function of batches."""

    works_on = "arrow"

    def __init__(self, function: Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]) -> None:
        self._function = function

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        for data in self._function(batch.data):
            if data.num_rows:
                self.context.output.emit(ArrowBatch(data))


class Projection:
    """Filter and projection: ``projects`` makes each row once for each of its lists. The kind of a row stays."""

    def __init__(
        self, condition: Rex | None, projects: Sequence[Sequence[Rex]], row: LogicalType, schema: pa.Schema, zone: str
    ) -> None:
        context = EvaluationContext(time_zone=zone)
        self._condition = None if condition is None else compile_filter(condition, row, context)
        self._projects = [compile_projection(rexes, row, context) for rexes in projects]
        self._schema = schema

    def __call__(self, data: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        if self._condition is not None:
            data = data.filter(self._condition.evaluate(data))
        if not data.num_rows:
            return ()
        kinds = [data.columns[-1]] if has_kinds(data.schema) else []
        made = [
            pa.RecordBatch.from_arrays([*project.evaluate(data), *kinds], schema=self._schema)
            for project in self._projects
        ]
        if len(made) == 1:
            return made
        order = np.arange(len(made) * data.num_rows).reshape(len(made), -1).T.ravel()
        return [pa.Table.from_batches(made).combine_chunks().to_batches()[0].take(pa.array(order))]


def without_update_before(data: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
    return [data.filter(pc.not_equal(data.columns[-1], UPDATE_BEFORE))] if has_kinds(data.schema) else [data]


class NotNullCheck:
    """Refuses null in columns of a table that are NOT NULL (``table.exec.sink.not-null-enforcer: ERROR``), or drops such rows."""

    def __init__(self, table: str, columns: Sequence[tuple[int, str]], drops: bool) -> None:
        self._table, self._columns, self._drops = table, columns, drops

    def __call__(self, data: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        for position, name in self._columns:
            column = data.columns[position]
            if column.null_count and not self._drops:
                raise UserError(
                    f"column '{name}' of the table {self._table} is NOT NULL, however, a null value is being written into it. You can set "
                    "'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop such records silently."
                )
            if column.null_count:
                data = data.filter(column.is_valid())
        return [data]


class WatermarkAssigner(Operator):
    """Watermarks by an expression, in ms, that leave behind the row that moves event time on by more than an interval, as Flink's do;
    what is left leaves at the end of each batch."""

    works_on = "arrow"

    def __init__(self, expression: Rex, row: LogicalType, zone: str) -> None:
        self._expression = compile_expression(expression, row, EvaluationContext(time_zone=zone))
        self._last = NO_WATERMARK

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        data = batch.data
        times = self._expression.evaluate(data)
        ms = pc.fill_null(times.cast(pa.timestamp("ms", times.type.tz), safe=False).view(pa.int64()), NO_WATERMARK)
        reached = np.maximum.accumulate(ms.to_numpy())
        start = 0
        while start < data.num_rows:
            limit = self._last if self._last == NO_WATERMARK else self._last + WATERMARK_INTERVAL_MS
            at = int(np.searchsorted(reached, limit, side="right"))
            end = min(max(at, start) + 1, data.num_rows)
            self.context.output.emit(ArrowBatch(data.slice(start, end - start)))
            if at < data.num_rows:
                self._advance(int(reached[end - 1]))
            start = end
        if data.num_rows:
            self._advance(int(reached[-1]))

    def on_watermark(self, timestamp_ms: int) -> None:
        """Of what is before it, only the end of time counts."""
        if timestamp_ms == END_OF_TIME:
            self._advance(timestamp_ms)

    def _advance(self, timestamp_ms: int) -> None:
        if timestamp_ms > self._last:
            self._last = timestamp_ms
            self.context.output.emit_watermark(timestamp_ms)
