"""Translation of a query's nodes to Arrow kernels, where these have DuckDB's types and values. DuckDB evaluates the others.

    node ─▶ term: an expression with its type, or a literal, which takes the type of what stands beside it
                                                                             ─▶ kernels for terms of these types, or none

A literal beside a column is the column's type only where it has its value there without rounding; everything else about
literals (decimals, widening) is DuckDB's to know. What kernels do with values is in ``kernels``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.datastream.sql.engine import constant
from tidegate.datastream.sql.query import Node, arguments_of
from tidegate.functions.expressions import Datum, Expression, call, coalesce, col, if_else, lit
from tidegate.functions.sql import kernels
from tidegate.functions.sql.kernels import Kernel, cast_to
from tidegate.model.errors import InvalidJob, SchemaMismatch

_MOST_ALTERNATIVES = 16
"""The most alternatives of an IN that become comparisons; DuckDB looks more of them up in a table."""
_COMPARISONS = {
    "COMPARE_EQUAL": kernels.equal,
    "COMPARE_NOTEQUAL": kernels.not_equal,
    "COMPARE_LESSTHAN": kernels.less,
    "COMPARE_LESSTHANOREQUALTO": kernels.less_equal,
    "COMPARE_GREATERTHAN": kernels.greater,
    "COMPARE_GREATERTHANOREQUALTO": kernels.greater_equal,
}
_OF_A_NUMBER: dict[Callable[..., Datum], Callable[..., Datum]] = {
    kernels.equal: pc.equal,
    kernels.not_equal: pc.not_equal,
    kernels.less: pc.less,
    kernels.less_equal: pc.less_equal,
    kernels.greater: kernels.above,
    kernels.greater_equal: kernels.at_least,
}
"""Comparisons for a right side that is a number and not NaN."""
_MIRRORED: dict[Callable[..., Datum], Callable[..., Datum]] = {
    kernels.less: kernels.greater,
    kernels.less_equal: kernels.greater_equal,
    kernels.greater: kernels.less,
    kernels.greater_equal: kernels.less_equal,
}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
_WHOLE = {"%": kernels.modulo, "//": kernels.quotient}
_OF_TEXT = {"upper": kernels.upper, "ucase": kernels.upper, "lower": kernels.lower, "lcase": kernels.lower}
_ROUNDING = ("floor", "ceil")
_CASTS = {
    **dict.fromkeys(("tinyint", "int1"), pa.int8()),
    **dict.fromkeys(("smallint", "int2", "short"), pa.int16()),
    **dict.fromkeys(("integer", "int", "int4", "signed"), pa.int32()),
    **dict.fromkeys(("bigint", "int8", "long"), pa.int64()),
    **dict.fromkeys(("double", "float8"), pa.float64()),
    **dict.fromkeys(("varchar", "text", "string"), pa.string()),
}
_TIMES = {"timestamp": "TIMESTAMP", "datetime": "TIMESTAMP", "date": "DATE"}
_UNITS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP"}
_LONGEST_EXACT = 15
"""So many decimal digits give the same double by any parser."""
_MOMENTS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")


@dataclass(frozen=True)
class _Typed:
    expression: Expression
    kind: pa.DataType


@dataclass(frozen=True)
class _Literal:
    kind: str
    text: str


_Term = _Typed | _Literal


class Untranslatable(Exception):
    """A node has no translation; not an error: DuckDB evaluates it."""


def translated(node: Node, schema: pa.Schema, tables: Sequence[str]) -> Expression | None:
    """Translates a node to an expression; ``None``: there is no translation."""
    try:
        term = _Translation(schema, tables).of(node)
        expression = term.expression if isinstance(term, _Typed) else _alone(term)
        expression.output_field(schema)
    except (Untranslatable, SchemaMismatch, InvalidJob):
        return None
    return expression


def is_moment(node: Node, schema: pa.Schema) -> bool:
    """Returns whether a node is ``current_date`` or similar, which are parsed as columns; they are functions unless the stream has such a column."""
    name = node["column_names"][0].lower()
    return len(node["column_names"]) == 1 and name in _MOMENTS and name not in map(str.lower, schema.names)


def column_path(node: Node, schema: pa.Schema, tables: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Returns the column of a COLUMN_REF and the nested fields: ``input.st.a.b`` is the column st, and a, b. Case is ignored. Raises ``SchemaMismatch``."""
    parts = list(node["column_names"])
    has_table = len(parts) > 1 and parts[0].lower() in tables and bool(_alike(parts[1], schema.names))
    name, *fields = parts[1:] if has_table else parts
    found = _alike(name, schema.names)
    if len(found) != 1 and fields:
        raise SchemaMismatch(
            f"sql: no table or column {name!r}: the stream is called {' or '.join(tables)} and has {', '.join(schema.names)}"
        )
    if len(found) != 1:
        raise SchemaMismatch(f"sql: no column {name!r}: the stream has {', '.join(schema.names)}")
    kind, path = schema.field(found[0]).type, list[str]()
    for field in fields:
        inside = [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        named = _alike(field, inside)
        if len(named) != 1:
            has = f"which has {', '.join(inside)}" if inside else f"which is {kind}"
            raise SchemaMismatch(f"sql: no field {field!r} in {'.'.join([found[0], *path])!r}, {has}")
        path.append(named[0])
        kind = kind.field(named[0]).type
    return found[0], tuple(path)


def column_name(node: Node, schema: pa.Schema, tables: Sequence[str]) -> str:
    """Returns the name of the column that a column reference of DuckDB's parse tree (COLUMN_REF) names. Raises ``SchemaMismatch``, also for a nested field."""
    name, fields = column_path(node, schema, tables)
    if fields:
        raise SchemaMismatch(f"sql: a column is needed, not a field of one: {'.'.join([name, *fields])}")
    return name


def column_or_field(node: Node, schema: pa.Schema, tables: Sequence[str]) -> Expression:
    """Returns the expression of a COLUMN_REF. Raises ``SchemaMismatch``."""
    name, fields = column_path(node, schema, tables)
    return reduce(lambda found, field: found[field], fields, col(name))


def _alike(name: str, names: Sequence[str]) -> list[str]:
    return [one for one in names if one.lower() == name.lower()]


class _Translation:
    def __init__(self, schema: pa.Schema, tables: Sequence[str]) -> None:
        self._schema = schema
        self._tables = tables

    def of(self, node: Node) -> _Term:
        match node["class"]:
            case "COLUMN_REF":
                return self._column(column_or_field(node, self._schema, self._tables))
            case "CONSTANT":
                return _Literal(node["literal"]["kind"], node["literal"].get("text", ""))
            case "COMPARISON" if node["type"] in _COMPARISONS:
                return _compared(node["type"], self.of(node["left"]), self.of(node["right"]))
            case "CONJUNCTION":
                kernel = "and_kleene" if node["type"] == "CONJUNCTION_AND" else "or_kleene"
                parts = [_condition(self.of(child)) for child in node["children"]]
                return _Typed(reduce(lambda a, b: call(kernel, a, b), parts), pa.bool_())
            case "BETWEEN":
                value, low, high = (self.of(node[name]) for name in ("input", "lower", "upper"))
                _check_text([value, low, high])
                ends = (
                    _compared("COMPARE_GREATERTHANOREQUALTO", value, low),
                    _compared("COMPARE_LESSTHANOREQUALTO", value, high),
                )
                return _Typed(call("and_kleene", *[end.expression for end in ends]), pa.bool_())
            case "OPERATOR":
                return _operator(node["type"], [self.of(child) for child in node["children"]])
            case "CASE":
                return self._case(node)
            case "CAST" if not node["try_cast"] and not node["type_expr"]["children"]:
                return _cast(self.of(node["child"]), node["type_expr"]["type_name"].lower())
            case "FUNCTION" if not any(argument["name"] for argument in node["arguments"]):
                return _function(node["function_name"], [self.of(child) for child in arguments_of(node)])
            case _:
                raise Untranslatable

    def _column(self, found: Expression) -> _Term:
        kind = found.output_field(self._schema).type
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return _Typed(cast_to(found, pa.string()), pa.string())
        if pa.types.is_dictionary(kind):
            if kind.value_type != pa.string():
                raise Untranslatable
            return _Typed(cast_to(found, pa.string()), pa.string())
        return _Typed(found, kind)

    def _case(self, node: Node) -> _Term:
        checks = node["case_checks"]
        results = [self.of(check["then_expr"]) for check in checks] + [self.of(node["else_expr"])]
        kind = _common(results)
        *then, found = [_as(result, kind) for result in results]
        for check, result in zip(reversed(checks), reversed(then), strict=True):
            condition = _condition(self.of(check["when_expr"]))
            found = if_else(coalesce(condition, False), result, found)  # null is not true
        return _Typed(found, kind)


def _compared(kind: str, left: _Term, right: _Term) -> _Typed:
    function: Callable[..., Datum] = _COMPARISONS[kind]
    if isinstance(left, _Literal):
        left, right, function = right, left, _MIRRORED.get(function, function)
    joint = _common([left, right])
    if not _is_ordered(joint) or (joint == pa.float32() and {_kind(left), _kind(right)} != {joint}):
        raise Untranslatable
    sides = _as(left, joint), _as(right, joint)
    if isinstance(right, _Literal):
        function = _OF_A_NUMBER[function]
    return _Typed(Kernel(function, *sides), pa.bool_())


def _operator(kind: str, children: list[_Term]) -> _Term:
    match kind:
        case "OPERATOR_NOT":
            return _Typed(~_condition(children[0]), pa.bool_())
        case "OPERATOR_IS_NULL" if isinstance(children[0], _Typed):
            return _Typed(children[0].expression.is_null(), pa.bool_())
        case "OPERATOR_IS_NOT_NULL" if isinstance(children[0], _Typed):
            return _Typed(children[0].expression.is_not_null(), pa.bool_())
        case "OPERATOR_COALESCE":
            joint = _common(children)
            return _Typed(coalesce(*[_as(child, joint) for child in children]), joint)
        case "COMPARE_IN" if len(children) <= _MOST_ALTERNATIVES:
            first, *others = children
            if isinstance(first, _Literal):
                raise Untranslatable
            _check_text(children)
            found = [_compared("COMPARE_EQUAL", first, other).expression for other in others]
            return _Typed(reduce(lambda a, b: a | b, found), pa.bool_())
        case _:
            raise Untranslatable


def _function(name: str, arguments: list[_Term]) -> _Term:
    match arguments:
        case [_Typed(expression, kind)]:
            return _of_one(name, expression, kind)
        case [left, right] if name == "||":
            return _Typed(Kernel(kernels.joined, _as(left, pa.string()), _as(right, pa.string())), pa.string())
        case [left, right] if name in (*_ARITHMETIC, *_WHOLE, "/"):
            return _arithmetic(name, left, right)
        case _:
            raise Untranslatable


def _of_one(name: str, expression: Expression, kind: pa.DataType) -> _Typed:
    if name in _OF_TEXT and kind == pa.string():
        return _Typed(Kernel(_OF_TEXT[name], expression), kind)
    if name in _ROUNDING and _is_floating(kind):
        return _Typed(call(name, expression), kind)
    if name in ("abs", "-") and (_is_floating(kind) or pa.types.is_signed_integer(kind)):
        return _Typed(call("abs_checked" if name == "abs" else "negate_checked", expression), kind)
    raise Untranslatable


def _arithmetic(name: str, left: _Term, right: _Term) -> _Typed:
    joint = _common([left, right])
    if not (pa.types.is_integer(joint) or _is_floating(joint)) or (
        isinstance(left, _Literal) and isinstance(right, _Literal)
    ):
        raise Untranslatable
    if name == "/" and pa.types.is_integer(joint):
        joint = pa.float64()
    sides = _as(left, joint), _as(right, joint)
    if name == "/":
        return _Typed(call("divide", *sides), joint)
    if name in _WHOLE:
        if not pa.types.is_integer(joint):
            raise Untranslatable
        return _Typed(Kernel(_WHOLE[name], *sides), joint)
    function = _ARITHMETIC[name] + ("_checked" if pa.types.is_integer(joint) else "")
    return _Typed(call(function, *sides), joint)


def _cast(term: _Term, name: str) -> _Term:
    if isinstance(term, _Literal):
        if term.kind == "STRING" and name in _TIMES:
            return _time(term.text, _TIMES[name])
        if term.kind == "INTEGER" and name in _CASTS and pa.types.is_integer(_CASTS[name]):
            return _Typed(_as(term, _CASTS[name]), _CASTS[name])
        raise Untranslatable
    if name == "hugeint" and term.kind == pa.decimal128(38, 0):
        return term  # as it leaves DuckDB, where a sum of integers is one
    kind = _CASTS.get(name)
    fits = pa.types.is_integer(term.kind) or (kind == pa.float64() and _is_floating(term.kind)) or kind == term.kind
    if kind is None or not fits:
        raise Untranslatable
    return _Typed(term.expression if kind == term.kind else cast_to(term.expression, kind), kind)


# --- types


def _check_text(terms: Sequence[_Term]) -> None:
    """Refuses a text literal among several types, which DuckDB casts to their common type, not to its neighbour's."""
    kinds = {term.kind for term in terms if isinstance(term, _Typed)}
    if len(kinds) > 1 and any(isinstance(term, _Literal) and term.kind == "STRING" for term in terms):
        raise Untranslatable


def _kind(term: _Term) -> pa.DataType | None:
    return term.kind if isinstance(term, _Typed) else None


def _common(terms: Sequence[_Term]) -> pa.DataType:
    """Returns the type in which DuckDB compares or adds terms. Literals take the type of the others."""
    kinds = {term.kind for term in terms if isinstance(term, _Typed)}
    if not kinds:
        literals = [term for term in terms if isinstance(term, _Literal) and term.kind != "NULL_LITERAL"]
        if not literals:
            raise Untranslatable
        return _alone(literals[0]).output_field(pa.schema([])).type
    return reduce(_wider, sorted(kinds, key=str))


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right:
        return left
    is_integer = pa.types.is_integer(left), pa.types.is_integer(right)
    if all(is_integer) and pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width > right.bit_width else right
    if (is_integer[0] or _is_floating(left)) and (is_integer[1] or _is_floating(right)):
        floating = [kind for kind in (left, right) if _is_floating(kind)]
        if floating:
            return pa.float64() if pa.float64() in floating else pa.float32()
    if _is_local_time(left) and _is_local_time(right):
        return pa.timestamp("us")
    raise Untranslatable


def _as(term: _Term, kind: pa.DataType) -> Expression:
    """Casts a term to a type that can hold it, for a literal without rounding."""
    if isinstance(term, _Typed):
        if term.kind == kind:
            return term.expression
        if _wider(term.kind, kind) != kind and not _is_floating(kind):
            raise Untranslatable
        return cast_to(term.expression, kind)
    if term.kind == "NULL_LITERAL":
        return lit(pa.scalar(None, kind))
    if term.kind == "STRING" and pa.types.is_string(kind):
        return lit(term.text)
    if term.kind == "BOOLEAN" and pa.types.is_boolean(kind):
        return lit(term.text == "true")
    if term.kind == "STRING" and (_is_local_time(kind) or kind == pa.date32()):
        return _time(term.text, "DATE" if kind == pa.date32() else _UNITS[kind.unit]).expression
    if term.kind in ("INTEGER", "NUMERIC"):
        return lit(_number(term, kind))
    raise Untranslatable


def _number(literal: _Literal, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_integer(kind) and literal.kind == "INTEGER":
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        if (0 if pa.types.is_unsigned_integer(kind) else -(2**bits)) <= int(literal.text) < 2**bits:
            return pa.scalar(int(literal.text), kind)
    digits = literal.text.lower().partition("e")[0].strip("-+").replace(".", "").strip("0")
    number = float(literal.text)
    if kind == pa.float64() and len(digits) <= _LONGEST_EXACT:
        return pa.scalar(number, kind)
    if kind == pa.float32() and literal.kind == "INTEGER" and abs(number) <= 2**24:
        return pa.scalar(number, kind)
    raise Untranslatable


def _alone(literal: _Literal) -> Expression:
    """Returns the expression of a literal whose type depends on nothing else."""
    match literal.kind:
        case "INTEGER":
            small = -(2**31) <= int(literal.text) < 2**31
            return _as(literal, pa.int32() if small else pa.int64())
        case "STRING":
            return _as(literal, pa.string())
        case "BOOLEAN":
            return _as(literal, pa.bool_())
        case _:
            raise Untranslatable


def _time(text: str, kind: str) -> _Typed:
    """Translates a literal of a time; ``today`` and similar words are not constants."""
    found = constant(text, kind) if text[:1].isdigit() else None
    if found is None:
        raise Untranslatable
    return _Typed(lit(found), found.type)


def _condition(term: _Term) -> Expression:
    return _as(term, pa.bool_())


def _is_ordered(kind: pa.DataType) -> bool:
    """Returns whether kernels compare the type as DuckDB does."""
    return (
        pa.types.is_integer(kind)
        or _is_floating(kind)
        or kind in (pa.bool_(), pa.string(), pa.date32())
        or _is_local_time(kind)
    )


def _is_floating(kind: pa.DataType) -> bool:
    return kind in (pa.float32(), pa.float64())


def _is_local_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None and kind.unit in _UNITS
