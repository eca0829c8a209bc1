"""Interpretation of a streaming OVER aggregate's specification."""

from __future__ import annotations

from typing import Final, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.rows import Row, changes_of
from tidegate.functions.sql.scalar import compile_projection
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import (
    BoundedWindow,
    CurrentRow,
    RexInputRef,
    UnboundedPreceding,
    python_value,
)
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.nodes import OverAggregate1, PythonOverAggregate1
from tidegate.plan.specs import OverGroup, OverSpec

Over: TypeAlias = OverAggregate1 | PythonOverAggregate1
_OF_WHOLE_PARTITIONS: Final = ("$PERCENT_RANK$1", "$CUME_DIST$1", "$NTILE$1", "$LEAD$1")


def is_by_time(node: Over) -> bool:
    """Returns whether a streaming OVER is ordered by a time attribute, so that each row is emitted once."""
    (group,) = node.over_spec.groups
    return node.output_type.fields[group.order_by.fields[0].index].type.kind is not TimeKind.REGULAR


def over_row_type(spec: OverSpec, row_type: LogicalType) -> LogicalType:
    """Returns the row type with the constants appended."""
    constants = [Field(f"constant{i}", literal.type) for i, literal in enumerate(spec.constants)]
    return LogicalType(row_type.root, fields=(*row_type.fields, *constants))


def over_constants(spec: OverSpec) -> Row:
    """Returns the values of the constants. Raises ``UnsupportedPlan`` for a literal that is not supported."""
    if not spec.constants:
        return ()
    one = pa.RecordBatch.from_arrays([pa.array([0], pa.int8())], names=["unused"])
    columns = compile_projection(spec.constants, LogicalType(TypeRoot.ROW)).evaluate(one)
    names = [f"f{i}" for i in range(len(columns))]
    return changes_of(pa.RecordBatch.from_arrays(columns, names=names))[0][1]


def check_over_functions(group: OverGroup) -> None:
    """Raises ``UnsupportedPlan``, with Flink's message, for functions that need following rows, which a stream does not have."""
    for call in group.agg_calls:
        if call.function in _OF_WHOLE_PARTITIONS:
            raise UnsupportedPlan(f"{call.function.split('$')[1]} Function is not supported in stream mode")


def over_preceding(spec: OverSpec) -> int | None:
    """Returns how many rows, or ms, before the current row a window includes; ``None``: all. Raises ``UnsupportedPlan`` for windows that do not end
    with the current row."""
    (group,) = spec.groups
    if any(not field.is_ascending for field in group.order_by.fields):
        raise UnsupportedPlan("The window can only be ordered in ASCENDING mode")
    if len(group.order_by.fields) != 1:
        raise UnsupportedPlan("The window can only be ordered by a single time column")
    if not isinstance(group.upper_bound, CurrentRow):
        raise UnsupportedPlan("OVER RANGE FOLLOWING windows are not supported yet")
    match group.lower_bound:
        case UnboundedPreceding():
            return None
        case CurrentRow():
            return 0
        case BoundedWindow(offset=RexInputRef(input_index=index), is_preceding=True):
            literal = spec.constants[index - spec.original_input_fields]
            return int(str(python_value(literal.value, literal.type)))
        case _:
            raise UnsupportedPlan("an OVER window that begins after the current row is not supported")
