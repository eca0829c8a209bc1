"""The event time column of a stream, traced from the watermark strategy through operators that keep rows unchanged.

A window of SQL names a column of time, while windows of a stream are of the event time of its rows. Only where both are known
to be the same does the query mean what it says.
"""

from __future__ import annotations

from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.datastream._graph.transformation import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.functions.adapters import FieldTimestamp
from tidegate.functions.expressions import Expression
from tidegate.functions.sql.duckdb_values import DuckDbColumns
from tidegate.model.values import UserObject

_KEEPS_ROWS = ("filter", "filter_columns")


def is_event_time(made: Transformation, column: str) -> bool:
    """Returns whether ``column`` of the stream is known to be the event time of its rows."""
    match made:
        case UnionTransformation(inputs=inputs):
            return all(is_event_time(one, column) for one in inputs)
        case PartitionTransformation(input=before):
            return is_event_time(before, column)
        case OperatorTransformation(kind="source" | "enumerated_source"):
            return _assigns(made.options["watermark_strategy"], made.output_type, column) is True
        case OperatorTransformation(kind="timestamps_watermarks"):
            assigned = _assigns(made.options["strategy"], made.output_type, column)
            return is_event_time(made.inputs[0], column) if assigned is None else assigned
        case OperatorTransformation(kind=kind) if kind in _KEEPS_ROWS:
            return is_event_time(made.inputs[0], column)
        case OperatorTransformation(kind="select"):
            source = _column_of_time(dict(made.options["columns"]).get(column))
            return source is not None and is_event_time(made.inputs[0], source)
        case OperatorTransformation(kind="map_batches"):
            func = made.options["func"]
            return isinstance(func, DuckDbColumns) and func.keeps(column) and is_event_time(made.inputs[0], column)
    return False


def _assigns(strategy: WatermarkStrategy, row_type: TypeInformation | None, column: str) -> bool | None:
    """Returns whether a strategy assigns the column as event time; ``None``: it leaves timestamps unchanged."""
    if strategy.timestamp_column is not None:
        return strategy.timestamp_column == column
    assigner: UserObject = strategy.timestamp_assigner
    if assigner is None:
        return None
    if not isinstance(assigner, FieldTimestamp) or assigner.position is None or row_type is None:
        return False
    return bool(row_type.arrow_schema().names[assigner.position] == column)


def _column_of_time(expression: Expression | None) -> str | None:
    """Returns the column that an item of ``select`` passes on unchanged; ``None`` if it computes something."""
    return None if expression is None else expression.plain_column()
