"""Joins of rows with a built-in table function: UNNEST, with or without ordinality, and replication of rows in set operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.sql.changelog import has_kinds, with_kinds
from tidegate.functions.sql.scalar import (
    CompiledFilter,
    CompiledProjection,
    EvaluationContext,
    arrow_schema,
    compile_filter,
    compile_projection,
)
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import Rex, RexCall, RexCorrelVariable, RexFieldAccess, RexInputRef
from tidegate.plan.logical_types import LogicalType

Made: TypeAlias = tuple[npt.NDArray[np.int64], list[pa.Array]]
"""The rows that a table function made: for each the position of its input row, ascending, and their columns."""


class Correlate:
    """Joins rows with a table function. ``is_left``: a row without results is kept, with nulls. ``condition``: over the made rows. Compiled in the
    subtask."""

    def __init__(
        self,
        call: Rex,
        condition: Rex | None,
        input_type: LogicalType,
        output_type: LogicalType,
        is_left: bool,
        time_zone: str,
    ) -> None:
        self._arguments = (call, condition, input_type, output_type, is_left, time_zone)
        self._compiled: tuple[CompiledProjection, Callable[[list[pa.Array]], Made], CompiledFilter | None] | None = None

    def __getstate__(self) -> tuple[object, ...]:
        return self._arguments

    def __setstate__(self, arguments: tuple[Any, ...]) -> None:
        self.__init__(*arguments)  # type: ignore[misc]

    def compile(self) -> tuple[CompiledProjection, Callable[[list[pa.Array]], Made], CompiledFilter | None]:
        """Compiles the arguments and the condition. Raises ``UnsupportedPlan`` that names the function and its types."""
        if self._compiled is None:
            call, condition, input_type, output_type, _, time_zone = self._arguments
            function = _FUNCTIONS.get(call.function) if isinstance(call, RexCall) else None
            if function is None:
                name = call.function if isinstance(call, RexCall) else type(call).__name__
                raise UnsupportedPlan(
                    f"tidegate has no table function {name} of its own; make one in Python with udtf(), and register it with create_temporary_function"
                )
            assert isinstance(call, RexCall)
            context = EvaluationContext(time_zone)
            operands = [_of_input(operand) for operand in call.operands]
            made = LogicalType(output_type.root, fields=output_type.fields[len(input_type.fields) :])
            kept = None if condition is None else compile_filter(condition, made, context)
            self._compiled = compile_projection(operands, input_type, context), function, kept
        return self._compiled

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arguments, function, condition = self.compile()
        _, _, input_type, output_type, is_left, _ = self._arguments
        width = len(input_type.fields)
        schema = arrow_schema(output_type)
        parents, columns = function(arguments.evaluate(batch))
        fields = list(schema)[width:]
        columns = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
        if condition is not None:
            made = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
            mask = condition.evaluate(made)
            parents = parents[mask.to_numpy(zero_copy_only=False)]
            columns = [column.filter(mask) for column in columns]
        if is_left:
            alone = np.flatnonzero(np.bincount(parents, minlength=batch.num_rows) == 0)
            order = np.argsort(np.concatenate([parents, alone]), kind="stable")
            found = pa.array(order, mask=order >= len(parents))
            parents = np.concatenate([parents, alone])[order]
            columns = [column.take(found) for column in columns]
        kinds: list[pa.Array] = []
        if has_kinds(batch.schema):
            kinds, schema = [batch.columns[-1].take(pa.array(parents))], with_kinds(schema)
        left = [column.take(pa.array(parents)) for column in batch.columns[:width]]
        return pa.RecordBatch.from_arrays([*left, *columns, *kinds], schema=schema)


def _of_input(rex: Rex) -> Rex:
    """Rewrites fields of the correlated row as fields of the input."""
    if isinstance(rex, RexFieldAccess) and isinstance(rex.expr, RexCorrelVariable):
        position = rex.expr.type.field_names.index(rex.name)
        return RexInputRef(position, rex.expr.type.fields[position].type)
    if isinstance(rex, RexFieldAccess):
        return msgspec.structs.replace(rex, expr=_of_input(rex.expr))
    if isinstance(rex, RexCall):
        return msgspec.structs.replace(rex, operands=tuple(map(_of_input, rex.operands)))
    return rex


def _elements(array: pa.Array) -> Made:
    """Returns the elements of arrays, and the pairs of maps."""
    if pa.types.is_map(array.type):
        pairs = [(row, pair) for row, value in enumerate(array.to_pylist()) for pair in value or ()]
        parents = np.array([row for row, _ in pairs], np.int64)
        keys = pa.array([key for _, (key, _) in pairs], array.type.key_type)
        return parents, [keys, pa.array([item for _, (_, item) in pairs], array.type.item_type)]
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(array), dtype=np.int64), lengths)
    flat = array.flatten()
    return parents, flat.flatten() if pa.types.is_struct(flat.type) else [flat]


def _unnest(arguments: Sequence[pa.Array]) -> Made:
    return _elements(arguments[0])


def _unnest_with_ordinality(arguments: Sequence[pa.Array]) -> Made:
    parents, columns = _elements(arguments[0])
    first = np.searchsorted(parents, parents, side="left")
    return parents, [*columns, pa.array(np.arange(len(parents)) - first + 1, pa.int32())]


def _replicate(arguments: Sequence[pa.Array]) -> Made:
    count, *columns = arguments
    times = np.maximum(count.fill_null(0).to_numpy(zero_copy_only=False), 0)
    parents = np.repeat(np.arange(len(count), dtype=np.int64), times)
    return parents, [column.take(pa.array(parents)) for column in columns]


_FUNCTIONS: Final[dict[str, Callable[[list[pa.Array]], Made]]] = {
    "$UNNEST_ROWS$1": _unnest,
    "$UNNEST_ROWS_WITH_ORDINALITY$1": _unnest_with_ordinality,
    "$REPLICATE_ROWS$1": _replicate,
}


__all__ = ["Correlate"]
