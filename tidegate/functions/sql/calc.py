"""Projections and filters of a plan (Flink: ``StreamExecCalc``, ``StreamExecExpand``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.scalar import (
    CompiledFilter,
    CompiledProjection,
    EvaluationContext,
    arrow_schema,
    batch_of,
    compile_filter,
    compile_projection,
)
from tidegate.plan.expressions import Rex
from tidegate.plan.logical_types import LogicalType


def _no_watermark() -> int | None:
    return None


class CalcFunction:
    """Filters rows by a condition and emits one row for each projection; compiled in the subtask. Rows keep their kinds.

    ``watermark_ms``: returns the current watermark, for CURRENT_WATERMARK; it is not pickled, so only an operator of the subtask can give it. Without it there
    is no watermark, as in batch mode.
    """

    def __init__(
        self,
        input_type: LogicalType,
        output_type: LogicalType,
        projections: tuple[tuple[Rex, ...], ...],
        condition: Rex | None,
        time_zone: str,
        watermark_ms: Callable[[], int | None] = _no_watermark,
    ) -> None:
        self._watermark_ms = watermark_ms
        self._arguments = (input_type, output_type, projections, condition, time_zone)
        self._compiled: tuple[list[CompiledProjection], CompiledFilter | None, pa.Schema] | None = None

    def __getstate__(self) -> tuple[object, ...]:
        return self._arguments

    def __setstate__(
        self, arguments: tuple[LogicalType, LogicalType, tuple[tuple[Rex, ...], ...], Rex | None, str]
    ) -> None:
        self.__init__(*arguments)  # type: ignore[misc]

    def compile(self) -> tuple[list[CompiledProjection], CompiledFilter | None, pa.Schema]:
        """Compiles projections and condition. Raises ``UnsupportedPlan`` that names the function and its types."""
        if self._compiled is None:
            input_type, output_type, projections, condition, time_zone = self._arguments
            context = EvaluationContext(time_zone=time_zone, watermark_ms=self._watermark_ms)
            kept = None if condition is None else compile_filter(condition, input_type, context)
            compiled = [compile_projection(projection, input_type, context) for projection in projections]
            self._compiled = compiled, kept, arrow_schema(output_type)
        return self._compiled

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        projections, condition, schema = self.compile()
        if condition is not None:
            batch = batch.filter(condition.evaluate(batch))
        kinds = []
        if has_kinds(batch.schema):
            kinds, schema = [batch.columns[-1]], with_kinds(schema)
        made = [batch_of([*projection.evaluate(batch), *kinds], schema, batch.num_rows) for projection in projections]
        if len(made) == 1:
            return made[0]
        each_row = np.arange(len(made) * batch.num_rows).reshape(len(made), -1).T.ravel()
        return pa.concat_batches(made).take(pa.array(each_row))


__all__ = ["CalcFunction"]
