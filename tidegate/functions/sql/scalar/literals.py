"""Values of a plan's constants: dates are days since 1970, times ms of the day, timestamps a count of their column's unit."""

from __future__ import annotations

import base64
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from tidegate.functions.sql.scalar.arrow_types import arrow_type, time_unit
from tidegate.functions.sql.scalar.calendar import UNITS_PER_SECOND, parse_date, parse_time_ms, parse_timestamp
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.expressions import JsonValue, RexLiteral, python_value
from tidegate.plan.logical_types import LogicalType, TypeRoot

_EXACT = Context(prec=100)
"""A context with more digits than any DECIMAL: the planner may give a constant more digits than its type has; Flink rounds it then."""


def literal_value(rex: RexLiteral) -> Any:
    """Returns the value of a constant: numbers, texts and bytes as in Python, times as numbers, a search argument unchanged."""
    if rex.sarg is not None:
        return rex.sarg
    if rex.symbol is not None:
        return rex.value
    return value_of(python_value(rex.value, rex.type), rex.type)


def value_of(value: JsonValue | Decimal, type: LogicalType) -> Any:
    """Converts a literal or a bound of a search argument to a value. Raises ``UnsupportedPlan``."""
    if value is None:
        return None
    match type.root:
        case TypeRoot.DATE:
            found: int | None = value if isinstance(value, int) else parse_date(str(value))
        case TypeRoot.TIME:
            found = value if isinstance(value, int) else parse_time_ms(str(value))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = parse_timestamp(str(value).replace("T", " ").removesuffix("Z"))
            found = None if nanos is None else nanos // (1_000_000_000 // UNITS_PER_SECOND[time_unit(type)])
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return base64.b64decode(str(value))
        case TypeRoot.DECIMAL:
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-(type.scale or 0)), ROUND_HALF_UP, _EXACT)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(str(value))
        case TypeRoot.CHAR if isinstance(value, str) and type.length is not None:
            return value + " " * (type.length - len(value.encode("utf-16-le", "surrogatepass")) // 2)
        case TypeRoot.INTERVAL_DAY_TIME | TypeRoot.INTERVAL_YEAR_MONTH | TypeRoot.BIGINT:
            return int(str(value))
        case _:
            return value
    if found is None:
        raise UnsupportedPlan(f"the constant {value!r} is not a {type}")
    return found


def literal_scalar(value: Any, type: LogicalType) -> pa.Scalar:
    """Returns a constant as Arrow has it."""
    arrow = arrow_type(type)
    if value is not None and pa.types.is_temporal(arrow):
        number = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.scalar(value, number).cast(arrow)
    return pa.scalar(value, arrow)
