"""The operators of ``select``, ``filter`` by an expression and ``map_batches``, which work on columns and never leave Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.functions.base import TimedBatches
from tidegate.functions.expressions import Expression
from tidegate.model.errors import SchemaMismatch
from tidegate.model.values import FieldValue
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.records.shown_values import rows_to_show
from tidegate.taskmanager.operators.operator import Operator
from tidegate.taskmanager.operators.user_code.boundary import batch_error, user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction


class SelectOperator(Operator):
    """Emits one column for each (name, expression)."""

    works_on = "arrow"

    def __init__(self, name: str, columns: Sequence[tuple[str, Expression]], schema: pa.Schema) -> None:
        self._name = name
        self._columns = columns
        self._schema = schema

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        try:
            arrays = [_one_array(expression.compute(batch.data)) for _, expression in self._columns]
        except Exception as error:
            expressions = [expression for _, expression in self._columns]
            raise user_error(self._name, error, *_failing_row(expressions, batch.data)) from error
        data = pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self._columns])
        self.context.output.emit(ArrowBatch(conform(data, self._schema, self._name), batch.timestamps))


class FilterColumnsOperator(Operator):
    """Emits the rows for which the predicate is true. Null is not true."""

    works_on = "arrow"

    def __init__(self, name: str, predicate: Expression) -> None:
        self._name = name
        self._predicate = predicate

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        try:
            mask = _one_array(self._predicate.compute(batch.data))
        except Exception as error:
            raise user_error(self._name, error, *_failing_row([self._predicate], batch.data)) from error
        if not pa.types.is_boolean(mask.type):
            raise SchemaMismatch(
                f"operator '{self._name}': the predicate of the filter returns {mask.type} instead of a boolean"
            )
        kept = mask.true_count
        if kept == len(batch):
            self.context.output.emit(batch)
        elif kept:
            stamps = None if batch.timestamps is None else batch.timestamps.filter(mask)
            self.context.output.emit(ArrowBatch(batch.data.filter(mask), stamps))


class MapBatchesOperator(FunctionOperatorBase):
    """Applies a function to whole record batches. Rows keep their timestamps when their number stays the same, or have those that the function says
    (``TimedBatches``); otherwise the result has none, and event time must be assigned after it.
    """

    works_on = "arrow"

    def __init__(self, name: str, func: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> None:
        self._name = name
        self._func = func
        self._user = UserFunction(func, name)
        self._schema = schema

    def open(self) -> None:
        self._user.open(self.context)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        try:
            result = self._func(batch.data)
        except Exception as error:
            raise batch_error(self._name, error, batch) from error
        if not isinstance(result, pa.RecordBatch):
            raise SchemaMismatch(
                f"operator '{self._name}': the function returned {type(result).__name__}, not a pyarrow.RecordBatch"
            )
        if isinstance(self._func, TimedBatches):
            stamps = self._func.event_time(result)
        else:
            stamps = batch.timestamps if result.num_rows == len(batch) else None
        if result.num_rows:
            self.context.output.emit(ArrowBatch(conform(result, self._schema, self._name), stamps))

    def close(self) -> None:
        self._user.close()


def conform(data: pa.RecordBatch, schema: pa.Schema, operator: str) -> pa.RecordBatch:
    """Returns ``data`` with the schema ``schema``. Names, order and types of the columns must be the same; otherwise raises ``SchemaMismatch`` that names
    the first column that differs.
    """
    if data.schema.names != schema.names:
        different = [n for n in schema.names if n not in data.schema.names] or [
            n for n in data.schema.names if n not in schema.names
        ]
        about = f"column '{different[0]}' is not in both" if different else "their order differs"
        raise SchemaMismatch(
            f"operator '{operator}': the function returned the columns {', '.join(data.schema.names)}, but declared are "
            f"{', '.join(schema.names)}: {about}"
        )
    for found, wanted in zip(data.schema, schema, strict=True):
        if found.type != wanted.type:
            raise SchemaMismatch(
                f"operator '{operator}': column '{wanted.name}' is {found.type}, but {wanted.type} is declared: cast it, or "
                "correct the schema"
            )
    if data.schema is schema or not data.num_columns:  # rows without columns are as many as they were
        return data
    return pa.RecordBatch.from_arrays(data.columns, schema=schema)


def _failing_row(expressions: Sequence[Expression], data: pa.RecordBatch) -> tuple[dict[str, FieldValue], ...]:
    """Returns the first row at which one of ``expressions`` fails, found by bisection; empty if no single row causes the failure. Expressions have no side
    effects, so they may be computed again.
    """
    if not _fails(expressions, data) or _fails(expressions, data.slice(0, 0)):
        return ()
    while data.num_rows > 1:
        half = data.num_rows // 2
        first, second = data.slice(0, half), data.slice(half)
        if _fails(expressions, first):
            data = first
        elif _fails(expressions, second):
            data = second
        else:
            return ()
    return tuple(rows_to_show(data))


def _fails(expressions: Sequence[Expression], data: pa.RecordBatch) -> bool:
    try:
        for expression in expressions:
            expression.compute(data)
    except Exception:  # noqa: BLE001  (whatever a kernel raises: the one that is reported was raised before)
        return True
    return False


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
