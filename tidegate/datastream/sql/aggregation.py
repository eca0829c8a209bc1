"""Translation of DuckDB's aggregates to aggregates of columnar windows: what is computed before, in and after the window.

    sum(x), x of 64 bits    x >> 32, x & (2^32 - 1) ─▶ sum, sum              ─▶ high * 2^32 + low      (HUGEINT: decimal(38, 0))
    avg(x), x of 64 bits    the same                ─▶ sum, sum, count       ─▶ that sum / count
    max(x), x floating      x, x where it is NaN    ─▶ max, count            ─▶ NaN where there is one
    first(x), last(x)       {value: x}, never null  ─▶ first, last           ─▶ value                  (nulls count, as in DuckDB)

Any other is one aggregate of one column. Laws: the result has DuckDB's type, and its value wherever that does not depend on
the order of additions of floating numbers; what cannot have them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.datastream.aggregates import Aggregate, AggregateFunctionName
from tidegate.datastream.sql.query import Node, arguments_of
from tidegate.functions.expressions import Datum, Expression, call, col, if_else, lit
from tidegate.functions.sql.kernels import Kernel, cast_to
from tidegate.model.errors import InvalidJob, SchemaMismatch

AGGREGATES: dict[str, AggregateFunctionName] = {
    "count_star": "count",
    "count": "count",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "mean": "avg",
    "first": "first",
    "last": "last",
    "stddev": "stddev",
    "stddev_samp": "stddev",
    "approx_count_distinct": "approx_distinct",
    "approx_quantile": "quantile",
}
HUGEINT = pa.decimal128(38, 0)
"""DuckDB's HUGEINT in Arrow."""
_INSTEAD = {"median": "median needs all values at once; approx_quantile(x, 0.5) is near it"}


@dataclass(frozen=True)
class Parts:
    """The parts of a translated aggregate. ``columns``: computed before the window; ``result``: computed from the window's output."""

    columns: tuple[tuple[str, Expression], ...]
    aggregates: tuple[Aggregate, ...]
    result: Expression


def check_aggregate(node: Node, text: str) -> None:
    """Raises ``InvalidJob`` for an aggregate, or a form of one, that streams do not support."""
    name, arguments = node["function_name"], arguments_of(node)
    listed = ", ".join(list(AGGREGATES)[1:])
    if name in _INSTEAD:
        raise InvalidJob(f"sql on a stream does not support the aggregate {name}: {_INSTEAD[name]}: {text}")
    if name not in AGGREGATES or node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
        what = "DISTINCT, FILTER and ORDER BY in an aggregate" if name in AGGREGATES else f"the aggregate {name}"
        raise InvalidJob(f"sql on a stream does not support {what}, only {listed}: {text}")
    wanted = {"count_star": 0, "approx_quantile": 2}.get(name, 1)
    if len(arguments) != wanted:
        raise InvalidJob(f"in sql on a stream, {name} takes {wanted} arguments, not {len(arguments)}: {text}")
    if any(argument["name"] for argument in node["arguments"]):
        raise InvalidJob(f"in sql on a stream, arguments of {name} cannot be named: {text}")
    share_of(node, text)


def share_of(node: Node, text: str) -> float | None:
    """Returns the share that ``approx_quantile(x, share)`` asks for, and ``None`` for other aggregates."""
    if node["function_name"] != "approx_quantile":
        return None
    literal = arguments_of(node)[1].get("literal", {})
    share = float(literal["text"]) if literal.get("kind") in ("INTEGER", "NUMERIC") else -1.0
    if not 0.0 <= share <= 1.0:
        raise InvalidJob(f"sql: approx_quantile takes a column and a number from 0 to 1: {text}")
    return share


def parts_of(
    node: Node, name: str, argument: Expression | None, rows: pa.Schema, result: pa.DataType, text: str
) -> Parts:
    """Translates an aggregate. ``argument`` is computed from ``rows``; ``result``: the type by DuckDB. Raises ``InvalidJob`` for a column type that
    cannot be aggregated so."""
    try:
        return _parts_of(node, name, argument, rows, result, share_of(node, text))
    except SchemaMismatch as error:
        kind = "" if argument is None else f" of {argument.output_field(rows).type}"
        raise InvalidJob(f"sql on a stream does not support {node['function_name']}{kind}: {text}") from error


def _parts_of(
    node: Node, name: str, argument: Expression | None, rows: pa.Schema, result: pa.DataType, share: float | None
) -> Parts:
    function = AGGREGATES[node["function_name"]]
    if argument is None:
        return _one(function, name, None)
    kind = argument.output_field(rows).type
    if pa.types.is_boolean(kind) and function in ("sum", "avg"):
        argument, kind = cast_to(argument, pa.int8()), pa.int8()
    if function in ("sum", "avg") and pa.types.is_integer(kind) and kind.bit_width == 64:
        return _wide(function, name, argument)
    if function == "max" and pa.types.is_floating(kind):
        return _largest(name, argument, kind)
    if function in ("first", "last"):
        made = _one(function, name, call("make_struct", argument, field_names=["value"]))
        return _typed(
            Parts(made.columns, made.aggregates, call("struct_field", made.result, indices=[0])), kind, result
        )
    made = _one(function, name, argument, share)
    return _typed(made, made.aggregates[0].output_field(pa.schema([(f"{name}_of", kind)])).type, result)


def check_result(parts: Parts, after: pa.Schema, result: pa.DataType, node: Node, text: str) -> None:
    """Raises ``InvalidJob`` unless the aggregate's result has DuckDB's type, on a window with the columns ``after``."""
    try:
        found = parts.result.output_field(after).type
    except SchemaMismatch:
        found = None
    if found != result:
        raise InvalidJob(
            f"sql on a stream cannot compute {node['function_name']} of this column, whose result has the type {result} in DuckDB; "
            f"cast its argument to BIGINT or DOUBLE: {text}"
        )


def _one(function: AggregateFunctionName, name: str, argument: Expression | None, share: float | None = None) -> Parts:
    columns = () if argument is None else ((f"{name}_of", argument),)
    made = Aggregate(function, None if argument is None else f"{name}_of", name, share)
    return Parts(columns, (made,), col(name))


def _typed(parts: Parts, kind: pa.DataType, result: pa.DataType) -> Parts:
    if kind == result:
        return parts
    found = parts.result
    if pa.types.is_integer(result) and pa.types.is_floating(kind):
        found = call("round", found)
    return Parts(parts.columns, parts.aggregates, cast_to(found, result))


def _wide(function: AggregateFunctionName, name: str, argument: Expression) -> Parts:
    """Translates a sum or average of 64-bit integers to sums of their halves, which do not overflow."""
    halves = ((f"{name}_high_of", Kernel(_high, argument)), (f"{name}_low_of", Kernel(_low, argument)))
    sums = tuple(Aggregate("sum", f"{name}_{half}_of", f"{name}_{half}") for half in ("high", "low"))
    total: Expression = Kernel(_total, col(f"{name}_high"), col(f"{name}_low"))
    if function == "sum":
        return Parts(halves, sums, total)
    counted = Aggregate("count", f"{name}_low_of", f"{name}_count")
    mean = call("divide", cast_to(total, pa.float64()), cast_to(col(f"{name}_count"), pa.float64()))
    return Parts(halves, (*sums, counted), mean)


def _largest(name: str, argument: Expression, kind: pa.DataType) -> Parts:
    """Translates the maximum of floats: aggregates of columns ignore NaN, while in DuckDB it is the largest number."""
    found = _one("max", name, argument)
    odd = (f"{name}_nan_of", Kernel(_where_nan, argument))
    count = Aggregate("count", odd[0], f"{name}_nan")
    not_a_number = lit(pa.scalar(float("nan"), kind))
    result = if_else(call("greater", col(f"{name}_nan"), 0), not_a_number, col(name))
    return Parts((*found.columns, odd), (*found.aggregates, count), result)


def _high(values: Datum) -> Datum:
    shifted = pc.shift_right(values, pa.scalar(32, values.type))
    return pc.cast(shifted, pa.int64())


def _low(values: Datum) -> Datum:
    return pc.cast(pc.bit_wise_and(values, pa.scalar(2**32 - 1, values.type)), pa.int64())


def _total(high: Datum, low: Datum) -> Datum:
    scaled = pc.multiply(pc.cast(high, pa.decimal128(19, 0)), pa.scalar(Decimal(2**32), pa.decimal128(10, 0)))
    return pc.cast(pc.add(scaled, pc.cast(low, pa.decimal128(19, 0))), HUGEINT)


def _where_nan(values: Datum) -> Datum:
    return pc.if_else(pc.is_nan(values), values, pa.scalar(None, values.type))


def parts_together(parts: Sequence[Parts]) -> tuple[list[Expression], list[Aggregate]]:
    """Returns the columns and the aggregates of several translated aggregates."""
    columns = [expression.alias(name) for one in parts for name, expression in one.columns]
    return columns, [aggregate for one in parts for aggregate in one.aggregates]
