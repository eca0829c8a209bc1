"""Nodes of a query as expressions over Arrow kernels, where these mean the same. What has no translation is DuckDB's to compute.

Numbers: ``1.5`` is a double; integers wrap on overflow; ``/`` is a fraction; NaN compares as in IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa

from tidegate.datastream.sql.query import Node, arguments_of
from tidegate.functions.expressions import Expression, call, coalesce, col, if_else, lit
from tidegate.model.errors import InvalidJob, SchemaMismatch

_MOST_ALTERNATIVES = 16
_BINARY: dict[str, Callable[[Expression, Expression], Expression]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "||": lambda a, b: call("binary_join_element_wise", a, b, ""),
    "COMPARE_EQUAL": lambda a, b: a == b,
    "COMPARE_NOTEQUAL": lambda a, b: a != b,
    "COMPARE_LESSTHAN": lambda a, b: a < b,
    "COMPARE_LESSTHANOREQUALTO": lambda a, b: a <= b,
    "COMPARE_GREATERTHAN": lambda a, b: a > b,
    "COMPARE_GREATERTHANOREQUALTO": lambda a, b: a >= b,
}
_UNARY = {"upper": "utf8_upper", "lower": "utf8_lower", "abs": "abs", "-": "negate", "floor": "floor", "ceil": "ceil"}
_CASTS = {"double": "float64", "float": "float32", "real": "float32", "float8": "float64", "float4": "float32"}
_MOMENTS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")


class Untranslatable(Exception):
    """Not an error: another engine computes it."""


def translated(node: Node, schema: pa.Schema, tables: Sequence[str]) -> Expression | None:
    """``None``: it has no translation, or its types do not fit. Raises ``SchemaMismatch`` for a column that is not there."""
    try:
        expression = _translate(node, schema, tables)
        expression.output_field(schema)
    except (Untranslatable, SchemaMismatch, InvalidJob):
        return None
    return expression


def is_moment(node: Node, schema: pa.Schema) -> bool:
    """``current_date`` and its likes are parsed as columns; they are functions unless the stream has such a column."""
    name = node["column_names"][0].lower()
    return len(node["column_names"]) == 1 and name in _MOMENTS and name not in map(str.lower, schema.names)


def column_name(node: Node, schema: pa.Schema, tables: Sequence[str]) -> str:
    """The column that a COLUMN_REF means; its case does not count unless several differ only by that."""
    *qualifier, name = node["column_names"]
    if len(qualifier) > 1 or any(part.lower() not in tables for part in qualifier):
        raise SchemaMismatch(f"sql: no table {'.'.join(qualifier)!r}: the stream is called {' or '.join(tables)}")
    if name in schema.names:
        return str(name)
    found = [one for one in schema.names if one.lower() == name.lower()]
    if len(found) != 1:
        raise SchemaMismatch(f"sql: no column {name!r}: the stream has {', '.join(schema.names)}")
    return str(found[0])


def _translate(node: Node, schema: pa.Schema, tables: Sequence[str]) -> Expression:
    def of(child: Node) -> Expression:
        return _translate(child, schema, tables)

    match node["class"]:
        case "COLUMN_REF":
            return col(column_name(node, schema, tables))
        case "CONSTANT":
            return _constant(node["literal"])
        case "COMPARISON" if node["type"] in _BINARY:
            return _BINARY[node["type"]](of(node["left"]), of(node["right"]))
        case "CONJUNCTION":
            parts = [of(child) for child in node["children"]]
            if node["type"] == "CONJUNCTION_AND":
                return reduce(lambda a, b: a & b, parts)
            return reduce(lambda a, b: a | b, parts)
        case "BETWEEN":
            return of(node["input"]).between(of(node["lower"]), of(node["upper"]))
        case "OPERATOR":
            return _operator(node["type"], [of(child) for child in node["children"]])
        case "CASE":
            return _case(node, of)
        case "CAST" if not node["try_cast"] and node["type_expr"]["type_name"].lower() in _CASTS:
            return of(node["child"]).cast(_CASTS[node["type_expr"]["type_name"].lower()])
        case "FUNCTION" if not any(argument["name"] for argument in node["arguments"]):
            return _function(node["function_name"], [of(child) for child in arguments_of(node)])
        case _:
            raise Untranslatable


def _constant(literal: Node) -> Expression:
    match literal["kind"]:
        case "INTEGER" if -(2**63) <= int(literal["text"]) < 2**63:
            return lit(int(literal["text"]))
        case "NUMERIC":
            return lit(float(literal["text"]))
        case "STRING":
            return lit(literal["text"])
        case "BOOLEAN":
            return lit(literal["text"] == "true")
        case _:
            raise Untranslatable


def _operator(kind: str, children: list[Expression]) -> Expression:
    match kind:
        case "OPERATOR_NOT":
            return ~children[0]
        case "OPERATOR_IS_NULL":
            return children[0].is_null()
        case "OPERATOR_IS_NOT_NULL":
            return children[0].is_not_null()
        case "OPERATOR_COALESCE":
            return coalesce(*children)
        case "COMPARE_IN" if len(children) <= _MOST_ALTERNATIVES:
            first, *others = children
            return reduce(lambda a, b: a | b, [first == other for other in others])
        case _:
            raise Untranslatable


def _case(node: Node, of: Callable[[Node], Expression]) -> Expression:
    found = of(node["else_expr"])
    for check in reversed(node["case_checks"]):
        condition = of(check["when_expr"])
        found = if_else(coalesce(condition, False), of(check["then_expr"]), found)  # null is not true
    return found


def _function(name: str, arguments: list[Expression]) -> Expression:
    if len(arguments) == 2 and name in _BINARY:
        return _BINARY[name](*arguments)
    if len(arguments) == 1 and name in _UNARY:
        return call(_UNARY[name], *arguments)
    raise Untranslatable
