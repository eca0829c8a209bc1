"""Operators of columns as DataFrame operations: the same results, or none. Pure: expressions in, Spark's SQL out.

    select, filter, key_by(...).agg(...)   ──▶   Select, KeepRows, GroupBy  ──▶   df.selectExpr, df.where, df.groupBy(...).agg
                                            └▶   NotTheSame: why Spark would give something else

Two engines differ at the edges, so each case is either written so that they agree, or refused:

| | Arrow, as here | Spark | so |
|---|---|---|---|
| whole numbers that overflow | wrap | an error (ANSI) | ``+ - *`` of them are refused; a sum is put together of two halves |
| comparing NaN | false | equal to itself, above all | is looked at first |
| a division by zero | infinity | an error (ANSI) | only by a constant |
| ``min``, ``max`` with NaN | pass over it | NaN is the largest | pass over it |
| keys that are fractions | by their bits | NaN and zeros joined | refused |
| names in another case | two columns | one | refused |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidegate.functions.expressions import Alias, Call, Column, Expression, Literal

_Typed: TypeAlias = tuple[str, pa.DataType]
_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
"""Spark's names of types whose values Arrow and Spark compare alike."""
_PLAIN_TEXT = re.compile(r"[\w ./:@#+=-]*", re.ASCII)
"""A pattern of texts that mean themselves between quotes, however Spark's parser is configured."""
_EXACT_IN_DOUBLE = 1 << 53
"""Up to here every whole number is exact in a 64-bit float (IEEE 754)."""
_LOW_HALF = 0xFFFFFFFF
"""The lower 32 bits of a 64-bit whole number: sums of these, and of the bits above them, do not overflow."""
_SIGNS = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
_LOGIC = {"and_kleene": "AND", "or_kleene": "OR"}


class NotTheSame(Exception):
    """Spark would give another result, or it is not known to give the same. The text is part of a sentence."""


@dataclass(frozen=True, slots=True)
class KeepRows:
    """A filter: rows for which a condition is true."""

    condition: str

    def __str__(self) -> str:
        return f"where {self.condition}"


@dataclass(frozen=True, slots=True)
class Select:
    """A projection: one expression for each column, (name, SQL)."""

    columns: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "select " + ", ".join(_shown(name, text) for name, text in self.columns)


@dataclass(frozen=True, slots=True)
class GroupBy:
    """An aggregation: the keys, then one aggregate for each further column, (name, SQL)."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"group by {', '.join(self.keys)}: " + ", ".join(_shown(name, text) for name, text in self.columns)


FrameStep: TypeAlias = KeepRows | Select | GroupBy


def where(predicate: Expression, schema: pa.Schema) -> KeepRows:
    """Translates a filter over rows of this schema. Raises ``NotTheSame``."""
    _check_names(schema)
    return KeepRows(_translated(predicate, schema)[0])


def select(columns: Sequence[tuple[str, Expression]], schema: pa.Schema) -> Select:
    """Translates a projection of rows of this schema. Raises ``NotTheSame``."""
    _check_names(schema)
    made = []
    for name, expression in columns:
        text, kind = _translated(expression, schema)
        wanted = expression.output_field(schema).type
        if kind != wanted:
            raise NotTheSame(f"{expression!r} is {wanted} here, and {kind} in Spark")
        made.append((name, text))
    return Select(tuple(made))


def group_by(keys: Sequence[str], aggregates: Sequence[tuple[str, str, str | None]], schema: pa.Schema) -> GroupBy:
    """Translates an aggregation without windows; ``aggregates``: (name, function, column). Raises ``NotTheSame``."""
    _check_names(schema)
    for key in keys:
        kind = schema.field(key).type
        if kind not in _NAMES or pa.types.is_floating(kind):
            raise NotTheSame(f"the key {key!r} has the type {kind}, whose values Spark may group differently")
    columns = tuple((name, _aggregate(function, column, schema)) for name, function, column in aggregates)
    return GroupBy(tuple(keys), columns)


def quoted(name: str) -> str:
    """Quotes a column's name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def _shown(name: str, text: str) -> str:
    return name if text == quoted(name) else f"{text} AS {name}"


def _check_names(schema: pa.Schema) -> None:
    names = [name.lower() for name in schema.names]
    twice = next((name for name in schema.names if names.count(name.lower()) > 1), None)
    if twice is not None:
        raise NotTheSame(f"another column differs from {twice!r} in upper and lower case only")


def _translated(expression: Expression, schema: pa.Schema) -> _Typed:
    match expression:
        case Column(name=name):
            return quoted(name), schema.field(name).type
        case Alias(inner=inner):
            return _translated(inner, schema)
        case Literal(value=value):
            return _constant(value)
        case Call(function=function, arguments=arguments, options=options):
            if function in _OF_VALUES:
                return _of_values(expression, function, arguments, options, schema)
            values = [_translated(argument, schema) for argument in arguments]
            if function == "cast":
                return _cast(values[0], options["target_type"])
            if options or function not in _CALLS:
                raise NotTheSame(f"{expression!r} calls a function of Arrow that has no known equivalent in Spark")
            return _CALLS[function](expression, values, arguments)
    raise NotTheSame(f"{expression!r} has no known equivalent in Spark")


def _constant(value: pa.Scalar) -> _Typed:
    found, kind = value.as_py(), value.type
    if found is None:
        return f"CAST(NULL AS {_NAMES[kind]})" if kind in _NAMES else "NULL", kind
    if pa.types.is_boolean(kind):
        return str(found).upper(), kind
    if pa.types.is_integer(kind) and kind in _NAMES:
        return f"CAST({found} AS {_NAMES[kind]})", kind
    if kind == pa.float64() and abs(found) < float("inf"):
        return f"CAST('{found!r}' AS DOUBLE)", kind
    if kind == pa.string():
        return (f"'{found}'" if _PLAIN_TEXT.fullmatch(found) else f"CAST(X'{found.encode().hex()}' AS STRING)"), kind
    raise NotTheSame(f"the constant {found!r} has the type {kind}, which has no known equivalent in Spark")


def _cast(value: _Typed, kind: pa.DataType) -> _Typed:
    """Translates a cast, if every value fits the target type. Raises ``NotTheSame`` otherwise."""
    text, before = value
    is_wider = pa.types.is_signed_integer(before) and (
        (pa.types.is_signed_integer(kind) and kind.bit_width >= before.bit_width)
        or (kind == pa.float64() and before.bit_width <= 32)
    )
    if before == kind or is_wider or (before == pa.float32() and kind == pa.float64()):
        return f"CAST({text} AS {_NAMES[kind]})" if kind in _NAMES else text, kind
    raise NotTheSame(f"a cast from {before} to {kind} fails for different values in Spark")


def _alike(expression: Expression, values: Sequence[_Typed], arguments: Sequence[Expression]) -> list[_Typed]:
    """Casts values to one type. Raises ``NotTheSame`` where Arrow would convert in a way of its own."""
    kinds = {kind for _, kind in values if not pa.types.is_null(kind)}
    if len(kinds) == 1:
        (wanted,) = kinds
    elif all(map(pa.types.is_signed_integer, kinds)):
        wanted = max(kinds, key=lambda kind: kind.bit_width)
    elif pa.float64() in kinds:
        wanted = pa.float64()
    else:
        raise NotTheSame(f"{expression!r} has values of different types: {', '.join(map(str, kinds))}")
    if wanted not in _NAMES:
        raise NotTheSame(f"{expression!r} works on {wanted}, which Spark may treat differently")
    return [_under(value, wanted, argument) for value, argument in zip(values, arguments, strict=True)]


def _under(value: _Typed, kind: pa.DataType, argument: Expression) -> _Typed:
    if value[1] == kind:
        return value
    if pa.types.is_null(value[1]):
        return f"CAST(NULL AS {_NAMES[kind]})", kind
    return _fraction(argument) if kind == pa.float64() and _is_whole_constant(argument) else _cast(value, kind)


def _is_whole_constant(argument: Expression) -> bool:
    """Returns whether an argument is a whole constant that is exact as a float."""
    found = argument.value.as_py() if isinstance(argument, Literal) else None
    return type(found) is int and abs(found) <= _EXACT_IN_DOUBLE


def _fraction(argument: Expression) -> _Typed:
    assert isinstance(argument, Literal)
    return _constant(pa.scalar(float(argument.value.as_py())))


def _compared(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    (left, kind), (right, _) = _alike(expression, values, arguments)
    is_negated = expression.function == "not_equal"
    text = f"({left} {'<>' if is_negated else _SIGNS[expression.function]} {right})"
    if pa.types.is_floating(kind):
        pairs = (left, arguments[0]), (right, arguments[1])
        sides = [side for side, made in pairs if not isinstance(made, Literal) or made.value.as_py() is None]
        nulls = " OR ".join(f"{side} IS NULL" for side in sides) or "FALSE"
        nans = " OR ".join(f"isnan({side})" for side in sides) or "FALSE"
        text = f"CASE WHEN {nulls} THEN NULL WHEN {nans} THEN {str(is_negated).upper()} ELSE {text} END"
    return text, pa.bool_()


def _computed(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    (left, kind), (right, _) = _alike(expression, values, arguments)
    if kind != pa.float64():
        raise NotTheSame(f"{expression!r} is {kind}, where whole numbers wrap when they overflow, and Spark's do not")
    return f"({left} {_ARITHMETIC[expression.function]} {right})", kind


def _divided(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    divisor = arguments[1]
    if not isinstance(divisor, Literal) or not divisor.value.as_py():
        raise NotTheSame(f"{expression!r} may divide by zero, which is an error in Spark and not here")
    if any(not pa.types.is_signed_integer(kind) and kind != pa.float64() for _, kind in values):
        raise NotTheSame(
            f"{expression!r} divides {' by '.join(str(kind) for _, kind in values)}, which Spark does differently"
        )
    left, right = (
        _fraction(argument)[0] if _is_whole_constant(argument) else f"CAST({text} AS DOUBLE)"
        for (text, _), argument in zip(values, arguments, strict=True)
    )
    return f"({left} / {right})", pa.float64()


def _negated(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    ((text, kind),) = values
    if kind != pa.float64():
        raise NotTheSame(f"{expression!r} is {kind}, where the smallest number wraps, and Spark's does not")
    return f"(- {text})", kind


def _logical(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    return f"({values[0][0]} {_LOGIC[expression.function]} {values[1][0]})", pa.bool_()


def _coalesced(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    alike = _alike(expression, values, arguments)
    return f"coalesce({', '.join(text for text, _ in alike)})", alike[0][1]


def _chosen(expression: Call, values: Sequence[_Typed], arguments: Sequence[Expression]) -> _Typed:
    condition = values[0][0]
    then, otherwise = _alike(expression, values[1:], arguments[1:])
    return f"CASE WHEN {condition} THEN {then[0]} WHEN NOT {condition} THEN {otherwise[0]} END", then[1]


_CALLS: dict[str, Callable[[Call, Sequence[_Typed], Sequence[Expression]], _Typed]] = {
    **dict.fromkeys((*_SIGNS, "not_equal"), _compared),
    **dict.fromkeys(_ARITHMETIC, _computed),
    **dict.fromkeys(_LOGIC, _logical),
    "/": _divided,
    "negate": _negated,
    "invert": lambda expression, values, arguments: (f"(NOT {values[0][0]})", pa.bool_()),
    "is_null": lambda expression, values, arguments: (f"({values[0][0]} IS NULL)", pa.bool_()),
    "is_valid": lambda expression, values, arguments: (f"({values[0][0]} IS NOT NULL)", pa.bool_()),
    "coalesce": _coalesced,
    "if_else": _chosen,
}
_OF_VALUES = frozenset({"is_in"})


def _of_values(
    expression: Expression,
    function: str,
    arguments: Sequence[Expression],
    options: Mapping[str, object],
    schema: pa.Schema,
) -> _Typed:
    text, kind = _translated(arguments[0], schema)
    wanted = options.get("value_set")
    if set(options) != {"value_set"} or not isinstance(wanted, pa.Array) or not len(wanted) or wanted.null_count:
        raise NotTheSame(f"{expression!r}: IN of Spark gives another result when the set is empty or has nulls in it")
    both_whole = pa.types.is_signed_integer(kind) and pa.types.is_signed_integer(wanted.type)
    if not both_whole and (kind != wanted.type or kind != pa.string()):
        raise NotTheSame(
            f"{expression!r} looks for a {kind} among values of {wanted.type}, which Spark does differently"
        )
    values = ", ".join(_constant(wanted[i])[0] for i in range(len(wanted)))
    return f"coalesce({text} IN ({values}), FALSE)", pa.bool_()


def _aggregate(function: str, column: str | None, schema: pa.Schema) -> str:
    if column is None:
        return "count(1)"
    name, kind = quoted(column), schema.field(column).type
    if function == "count":
        return f"count({name})"
    if kind not in _NAMES or pa.types.is_string(kind):
        raise NotTheSame(f"{function}({column!r}) is of a column of {kind}, which Spark aggregates differently")
    match function:
        case "sum":
            return _sum(name, kind)
        case "avg":  # the sum of no value is null, and so is its average
            return f"({_sum_as_double(name, kind)} / CAST(nullif(count({name}), 0) AS DOUBLE))"
        case "min" | "max" if pa.types.is_floating(kind):  # where there is nothing but NaN, it is NaN
            return f"coalesce({function}(CASE WHEN NOT isnan({name}) THEN {name} END), {function}({name}))"
        case "min" | "max":
            return f"{function}({name})"
    raise NotTheSame(f"{function}({column!r}) has no known equivalent in Spark")


def _sum(name: str, kind: pa.DataType) -> str:
    if not pa.types.is_integer(kind):
        return f"sum(CAST({name} AS DOUBLE))"
    if kind != pa.int64():  # it takes 2^32 rows to leave a BIGINT
        return f"sum(CAST({name} AS BIGINT))"
    carried, low = _halves_of_sum(name)
    return f"(shiftleft({carried}, 32) | {low})"


def _sum_as_double(name: str, kind: pa.DataType) -> str:
    """Translates a sum to the nearest DOUBLE, also where the exact sum is not a BIGINT."""
    if kind != pa.int64():
        return f"CAST({_sum(name, kind)} AS DOUBLE)"
    carried, low = _halves_of_sum(name)
    return f"(CAST({carried} AS DOUBLE) * CAST('4294967296' AS DOUBLE) + CAST({low} AS DOUBLE))"


def _halves_of_sum(name: str) -> tuple[str, str]:
    high, low = f"sum(shiftright({name}, 32))", f"sum({name} & CAST({_LOW_HALF} AS BIGINT))"
    return f"({high} + shiftright({low}, 32))", f"({low} & CAST({_LOW_HALF} AS BIGINT))"
