"""Every operator over every pair of types, at their extremes: what passes the check of the graph computes, and gives what Python gives."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.functions.expressions import Expression, call, coalesce, col, if_else, lit
from tidegate.model.errors import InvalidJob, SchemaMismatch

INTEGERS = {
    pa.int8(): [127, -128, 0, 3],
    pa.int16(): [32767, -32768, -7],
    pa.int32(): [2**31 - 1, -(2**31), 3],
    pa.int64(): [2**63 - 1, -(2**63), 2**53 + 1, -1, 3, 0],
    pa.uint8(): [255, 0, 3],
    pa.uint16(): [65535, 3],
    pa.uint32(): [2**32 - 1, 3],
    pa.uint64(): [2**64 - 1, 2**63, 2**53 + 1, 3, 0],
}
FLOATS = {
    pa.float32(): [1.5, -0.5, float("inf"), float("nan")],
    pa.float64(): [0.1, -1.5, 1e308, 2.0**53, float("-inf"), float("nan"), -0.0],
}
DECIMALS = {
    pa.decimal128(9, 2): [Decimal("1.50"), Decimal("-9999999.99"), Decimal("0.07")],
    pa.decimal128(18, 0): [Decimal(10**18 - 1), Decimal(-3)],
    pa.decimal128(38, 0): [Decimal(10**38 - 1), Decimal(-3)],
    pa.decimal128(38, 20): [Decimal("1.5"), Decimal("-0.00000000000000000001")],
    pa.decimal256(50, 2): [Decimal("1.5"), Decimal(-(10**46))],
}
NUMBERS: dict[pa.DataType, list[Any]] = {**INTEGERS, **FLOATS, **DECIMALS}
INSTANT = dt.datetime(9999, 12, 31, 23, 59, 59)
OTHERS: dict[pa.DataType, list[Any]] = {
    pa.float16(): [1.5],
    pa.bool_(): [True, False],
    pa.string(): ["a"],
    pa.large_string(): ["a"],
    pa.string_view(): ["a"],
    pa.binary(): [b"a"],
    pa.date32(): [dt.date(1970, 1, 1), dt.date(9999, 12, 31), dt.date(1, 1, 1)],
    pa.date64(): [dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("s"): [INSTANT, dt.datetime(1970, 1, 1)],
    pa.timestamp("ms"): [INSTANT, dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)],
    pa.timestamp("us"): [INSTANT, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)],
    pa.timestamp("ns"): [dt.datetime(2200, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)],
    pa.timestamp("ms", "UTC"): [INSTANT.replace(tzinfo=dt.UTC)],
    pa.time32("s"): [dt.time(23, 59)],
    pa.time64("us"): [dt.time(0, 1)],
    pa.duration("s"): [dt.timedelta(days=999_999_99)],
    pa.duration("us"): [dt.timedelta(microseconds=-1)],
    pa.duration("ns"): [dt.timedelta(days=1)],
    pa.null(): [None],
    pa.dictionary(pa.int32(), pa.string()): ["a"],
    pa.dictionary(pa.int32(), pa.int64()): [2**53 + 1],
    pa.list_(pa.int64()): [[1]],
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
DATA = ("divide by zero", "out of bounds timestamp", "acceptable range", "negative integer powers")
"""Errors that the rows cause, and no types: zero, and instants that nanoseconds have not."""
LIKE_OTHERS = (
    pa.int16(),
    pa.uint8(),
    pa.uint16(),
    pa.float16(),
    pa.large_string(),
    pa.date64(),
    pa.timestamp("us"),
    pa.time64("us"),
)
"""Types that are no case of their own."""


def batch_of(left: pa.DataType, lefts: list[Any], right: pa.DataType, rights: list[Any]) -> pa.RecordBatch:
    pairs = list(itertools.product(lefts, rights))
    arrays = [pa.array([a for a, _ in pairs], left), pa.array([b for _, b in pairs], right)]
    return pa.RecordBatch.from_arrays(arrays, ["a", "b"])


def built(expression: Expression, schema: pa.Schema) -> pa.DataType | None:
    try:
        return expression.output_field(schema).type
    except SchemaMismatch:
        return None


def test_what_passes_the_check_of_the_graph_computes() -> None:
    found: dict[str, Callable[[Any, Any], Any]] = {
        **OPERATORS, **COMPARISONS, "if": lambda a, b: if_else(a.is_null(), a, b), "coalesce": coalesce,
        "max": lambda a, b: call("max_element_wise", a, b), "power": lambda a, b: call("power", a, b),
        "and": lambda a, b: call("bit_wise_and", a, b), "sqrt": lambda a, _: call("sqrt", a), "atan2": lambda a, b: call("atan2", a, b),
    }  # fmt: skip
    kinds = {kind: values for kind, values in {**NUMBERS, **OTHERS}.items() if kind not in LIKE_OTHERS}
    for (left, lefts), (right, rights) in itertools.product(kinds.items(), repeat=2):
        batch = batch_of(left, lefts, right, rights)
        for name, make in found.items():
            expression = make(col("a"), col("b"))
            kind = built(expression, batch.schema)
            if kind is None:
                continue
            error = failure(expression, batch, kind)
            is_of_data = any(text in error.lower() for text in DATA) and name not in COMPARISONS
            assert not error or is_of_data, (left, name, right, error)


def failure(expression: Expression, batch: pa.RecordBatch, kind: pa.DataType) -> str:
    """What Arrow says; empty: it computes what the check has promised."""
    try:
        found = expression.compute(batch).type
    except pa.ArrowInvalid as error:
        return str(error)
    return "" if found == kind else f"it is {found}"


@pytest.mark.parametrize("name", [*OPERATORS, *COMPARISONS])
def test_numbers_of_any_types_give_what_python_gives(name: str) -> None:
    function = {**OPERATORS, **COMPARISONS}[name]
    computed = 0
    for (left, lefts), (right, rights) in itertools.product(NUMBERS.items(), repeat=2):
        rights = [value for value in rights if value or name not in ("/", "//", "%")]
        batch = batch_of(left, lefts, right, rights)
        kind = built(function(col("a"), col("b")), batch.schema)
        if kind is None:
            assert is_refused(name, left, right), (left, name, right)
            continue
        values = function(col("a"), col("b")).compute(batch).to_pylist()
        pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for (a, b), value in zip(pairs, values, strict=True):
            wanted = expected(name, function, a, b, left, right, kind)
            assert same(value, wanted), (left, a, name, right, b, value, wanted)
            computed += 1
    assert computed > 900


def is_refused(name: str, left: pa.DataType, right: pa.DataType) -> bool:
    if name in COMPARISONS:
        return any(
            map(pa.types.is_decimal, (left, right))
        )  # Arrow compares decimals where one type has the digits of both
    kinds = {left, right}
    signs = pa.uint64() in kinds and any(map(pa.types.is_signed_integer, kinds)) and name != "/"
    return signs or any(map(pa.types.is_decimal, kinds))


def expected(
    name: str,
    function: Callable[[Any, Any], Any],
    a: Any,
    b: Any,
    left: pa.DataType,
    right: pa.DataType,
    kind: pa.DataType,
) -> Any:
    if any(map(pa.types.is_floating, (left, right))) or (name == "/" and not pa.types.is_decimal(kind)):
        wide = pa.float64() in (left, right) or any(map(pa.types.is_decimal, (left, right))) or name == "/"
        both_narrow = pa.float32() in (left, right) and not wide
        if name == "/" and pa.float32() in (left, right) and left == right:
            both_narrow = True
        make = np.float32 if both_narrow else np.float64
        with np.errstate(all="ignore"):
            x, y = make(float(a)), make(float(b))
            if name in ("//", "%") and math.isfinite(x) and math.isfinite(y) and make is np.float64:
                return function(float(x), float(y))
            return function(x, y).item()
    with localcontext(Context(prec=120)):
        if name in COMPARISONS:
            return function(a, b)
        if not pa.types.is_decimal(kind):
            return wrapped(function(a, b), kind)
        a, b = Decimal(a), Decimal(b)
        if name == "//":
            return Decimal(math.floor(a / b)) if a % b else a / b
        if name == "%":
            return a - b * math.floor(a / b)
        return function(a, b)


def wrapped(value: int, kind: pa.DataType) -> int:
    bits = kind.bit_width
    value %= 2**bits
    return value - 2**bits if pa.types.is_signed_integer(kind) and value >= 2 ** (bits - 1) else value


def same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(value)
    if isinstance(value, Decimal):  # Arrow cuts quotients at the digits of their type
        return abs(value - wanted) <= Decimal(10) ** value.as_tuple().exponent if value != wanted else True  # type: ignore[operator]
    return bool(
        value == wanted and (not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, wanted))
    )


def test_times_of_any_units_are_compared_by_value() -> None:
    kinds = [k for k in OTHERS if pa.types.is_date(k) or (pa.types.is_timestamp(k) and k.tz is None)]
    for (left, right), (name, function) in itertools.product(itertools.product(kinds, repeat=2), COMPARISONS.items()):
        batch = batch_of(left, OTHERS[left], right, OTHERS[right])
        values = function(col("a"), col("b")).compute(batch).to_pylist()
        pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        assert values == [function(instant(a), instant(b)) for a, b in pairs], (left, name, right)


def instant(value: Any) -> dt.datetime:
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()  # type: ignore[no-any-return]
    return value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)


@pytest.mark.parametrize(
    ("expression", "values", "kind", "wanted"),
    [
        (col("x") * 1e-9, [1_700_000_000_000_000_001], pa.int64(), [1_700_000_000_000_000_001 * 1e-9]),
        (col("x") > 0.5, [2**53 + 1], pa.int64(), [True]),
        (col("x") + 1, [2**63], pa.uint64(), [2**63 + 1]),
        (2**63 + col("x"), [1], pa.uint64(), [2**63 + 1]),
        (col("x") - 1, [2**63], pa.uint64(), [2**63 - 1]),
        (col("x") == 5, [2**63, 5], pa.uint64(), [False, True]),
        (col("x") > -1, [2**63, 0], pa.uint64(), [True, True]),
        (col("x") < 2**63, [-1, 2**63 - 1], pa.int64(), [True, True]),
        (col("x") % 8, [2**64 - 1], pa.uint64(), [7]),
        (col("x") // 8, [2**64 - 1], pa.uint64(), [2**61 - 1]),
        (col("x").is_in([1, 2**63]), [2**63, 2], pa.uint64(), [True, False]),
        (col("x").is_in([1, 300, -1]), [1, 44], pa.uint8(), [True, False]),
        (col("x").is_in([0.5, 2.0]), [2**53 + 1, 2], pa.int64(), [False, True]),
        (col("x").is_in([1, 2, 10**15]), [Decimal("1.00"), Decimal("1.50")], pa.decimal128(9, 2), [True, False]),
        (col("x").is_in([Decimal("1.5"), Decimal(2)]), [1, 2], pa.int64(), [False, True]),
        (col("x").between(1, 2**64 - 1), [2**63], pa.uint64(), [True]),
        (col("x").fill_null(0.5), [None, 2**53 + 1], pa.int64(), [0.5, 2.0**53]),
        (call("fill_null", col("x"), 0.5), [None, 1], pa.int64(), [0.5, 1.0]),
        (col("x").cast("float64"), [2**53 + 1], pa.int64(), [2.0**53]),
        (col("x") + 200, [100], pa.int8(), [300]),
        (col("x") // -1, [-(2**63)], pa.int64(), [-(2**63)]),
        (col("x") % -1, [-(2**63)], pa.int64(), [0]),
        (col("x") // 0.1, [1.0], pa.float64(), [9.0]),
        (col("x") % 0.1, [1.0], pa.float64(), [1.0 % 0.1]),
        (col("x") % float("inf"), [-1.0], pa.float64(), [float("inf")]),
        (col("x") % 5, [Decimal("-1.50")], pa.decimal128(9, 2), [Decimal("3.50")]),
        (col("x") // 5, [Decimal("-1.50")], pa.decimal128(9, 2), [Decimal(-1)]),
        (lit(7) // 2, [1, 2], pa.int64(), [3, 3]),
        (col("x") % 2, [None, 3], pa.int64(), [None, 1]),
        (7 // col("x"), [None, 3], pa.int64(), [None, 2]),
    ],
    ids=repr,
)
def test_constants_take_part_by_one_rule(
    expression: Expression, values: list[Any], kind: pa.DataType, wanted: list[Any]
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["x"])
    made = expression.output_field(batch.schema).type
    found = expression.compute(batch)
    assert (found.type, found.to_pylist()) == (made, wanted)


@pytest.mark.parametrize(
    "expression", [col("x") + -1, col("x") + col("y"), coalesce(col("x"), col("y")), col("x") // col("y")], ids=repr
)
def test_types_that_none_holds_are_refused(expression: Expression) -> None:
    schema = pa.schema([("x", pa.uint64()), ("y", pa.int64())])
    with pytest.raises(SchemaMismatch, match="no type holds uint64 and"):
        expression.output_field(schema)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, object(), [2**64]])
def test_a_constant_that_columns_have_no_type_for_is_refused(value: Any) -> None:
    with pytest.raises(InvalidJob, match="no type of columns has this value"):
        col("x") + value


def test_a_zone_beside_none_is_refused() -> None:
    schema = pa.schema([("x", pa.timestamp("ms")), ("y", pa.timestamp("ms", "UTC"))])
    for expression in (col("x") == col("y"), coalesce(col("x"), col("y"))):
        with pytest.raises(SchemaMismatch):
            expression.output_field(schema)


@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b], ids=["//", "%"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.decimal128(9, 2), pa.decimal256(20, 2)], ids=str)
def test_a_zero_below_is_an_error_unless_nothing_is_above(
    divide: Callable[[Any, Any], Expression], kind: pa.DataType
) -> None:
    zero, one = (
        pa.scalar(n).cast(pa.decimal128(19, 0)).cast(kind) if pa.types.is_decimal(kind) else pa.scalar(n, kind)
        for n in (0, 1)
    )
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None, one.as_py()], kind), pa.array([zero.as_py()] * 2, kind)], ["a", "b"]
    )
    assert divide(col("a"), col("b")).compute(batch.slice(0, 1)).to_pylist() == [None]
    assert divide(col("a"), lit(zero)).compute(batch.slice(0, 0)).to_pylist() == []
    with pytest.raises(pa.ArrowInvalid, match="divide by zero"):
        divide(col("a"), col("b")).compute(batch)
