"""Comparison, three-valued logic, and conditional functions: CASE, IF, COALESCE, GREATEST, SEARCH."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.arrow_types import arrow_type
from tidegate.functions.sql.scalar.casts import caster
from tidegate.functions.sql.scalar.kernels import if_else, null_mask, python_values
from tidegate.functions.sql.scalar.literals import literal_scalar, value_of
from tidegate.functions.sql.scalar.registry import Datum, Evaluate, Operand, Rows, ScalarCall, as_array, function
from tidegate.plan.expressions import Bound, Sarg
from tidegate.plan.logical_types import LogicalType, TypeRoot

Comparison = Callable[[Datum, Datum], Datum]

TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
FLOATING = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
NUMBERS = (*WHOLE, *FLOATING, TypeRoot.DECIMAL)
NESTED = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.MULTISET)
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}


def common_type(left: LogicalType, right: LogicalType) -> LogicalType | None:
    """Returns a type to which both can be cast for a comparison without loss, ``None`` if there is none."""
    if left.root is TypeRoot.NULL:
        return right
    if right.root is TypeRoot.NULL or left.with_nullable(True) == right.with_nullable(True):
        return left
    roots = {left.root, right.root}
    if roots <= set(TEXT):
        return LogicalType(TypeRoot.VARCHAR, length=2147483647)
    if roots <= set(BYTES):
        return LogicalType(TypeRoot.VARBINARY, length=2147483647)
    if roots <= set(WHOLE):
        return max(left, right, key=lambda type: WHOLE.index(type.root))
    if roots <= set(NUMBERS) and roots & set(FLOATING):
        return LogicalType(TypeRoot.FLOAT if roots == {TypeRoot.FLOAT} else TypeRoot.DOUBLE)
    if roots <= set(NUMBERS):
        (p, s), (q, t) = _digits(left), _digits(right)
        scale = max(s, t)
        return LogicalType(TypeRoot.DECIMAL, precision=max(p - s, q - t) + scale, scale=scale)
    if len(roots) == 1:
        return max(left, right, key=lambda type: type.precision or 0)
    if roots == {TypeRoot.DATE, TypeRoot.TIMESTAMP}:
        return left if left.root is TypeRoot.TIMESTAMP else right
    if roots <= {TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        return left if left.root is TypeRoot.TIMESTAMP_LTZ else right
    return None


def _digits(type: LogicalType) -> tuple[int, int]:
    if type.root is TypeRoot.DECIMAL:
        return type.precision or 10, type.scale or 0
    return _DIGITS[type.root], 0


def comparable(call: ScalarCall, comparison: Comparison) -> Comparison:
    """Returns a comparison that takes values of the two operands' types. A floating-point number is compared with a DECIMAL by Java's ``Double.compare``, as in
    Flink: to it alone NaN is equal to itself and greater than all, and -0.0 less than 0.0."""
    left, right = call.operands
    common = common_type(left.type, right.type)
    if common is None or (common.root in NESTED and left.type.root != right.type.root):
        raise call.refuse()
    if common.root in NESTED:
        if comparison not in (pc.equal, pc.not_equal):
            raise call.refuse("values of this type have no order")
        return _compare_nested(comparison is pc.not_equal)
    if common.root is TypeRoot.DECIMAL and (common.precision or 0) > 38:
        wide = pa.decimal256(common.precision, common.scale)
        return lambda a, b: comparison(_wide(a, wide), _wide(b, wide))
    if common.root is TypeRoot.BOOLEAN:
        return lambda a, b: comparison(a.cast(pa.int8()), b.cast(pa.int8()))
    first, second = (caster(operand.type, common, call.context, call) for operand in call.operands)
    order = _order_of(common, left.type, right.type)
    return lambda a, b: comparison(order(_on(first, a)), order(_on(second, b)))


def _order_of(common: LogicalType, left: LogicalType, right: LogicalType) -> Callable[[Datum], Datum]:
    return _order_of_floats if common.root in FLOATING and TypeRoot.DECIMAL in (left.root, right.root) else _itself


def _wide(datum: Datum, type: pa.DataType) -> Datum:
    if pa.types.is_integer(datum.type):
        datum = datum.cast(pa.decimal128(19, 0))
    return datum.cast(type)


def _on(cast: Callable[[pa.Array], pa.Array] | None, datum: Datum) -> Datum:
    if cast is None:
        return datum
    return cast(datum) if isinstance(datum, pa.Array) else cast(as_array(datum, 1))[0]


def _compare_nested(is_negated: bool) -> Comparison:
    def compare(a: Datum, b: Datum) -> Datum:
        count = len(a) if isinstance(a, pa.Array) else len(b) if isinstance(b, pa.Array) else 1
        pairs = zip(python_values(as_array(a, count)), python_values(as_array(b, count)), strict=True)
        return pa.array(
            [None if x is None or y is None else (_plain(x) == _plain(y)) is not is_negated for x, y in pairs],
            pa.bool_(),
        )

    return compare


def _plain(value: Any) -> Any:
    """Returns a form in which maps are equal whatever the order of their pairs."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: _plain(item) for key, item in value}
    return list(value.values()) if isinstance(value, dict) else value


def _comparison(name: str, comparison: Comparison) -> None:
    @function(name)
    def build(call: ScalarCall) -> Evaluate:
        left, right = call.operands
        compare = comparable(call, comparison)
        return lambda rows: compare(left.evaluate(rows), right.evaluate(rows))


for _name, _function in (
    ("=", pc.equal),
    ("<>", pc.not_equal),
    ("<", pc.less),
    ("<=", pc.less_equal),
    (">", pc.greater),
    (">=", pc.greater_equal),
):
    _comparison(_name, _function)


@function("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
def _is_distinct_call(call: ScalarCall) -> Evaluate:
    left, right = call.operands
    compare = comparable(call, pc.equal)
    is_negated = "NOT" in call.name

    def evaluate(rows: Rows) -> Datum:
        a, b = left.values(rows), right.values(rows)
        same = if_else(pc.and_(a.is_valid(), b.is_valid()), compare(a, b), pc.equal(a.is_valid(), b.is_valid()))
        return same if is_negated else pc.invert(same)

    return evaluate


@function("AND")
def _and_call(call: ScalarCall) -> Evaluate:
    return _connective(call, pc.and_kleene, decides=False)


@function("OR")
def _or_call(call: ScalarCall) -> Evaluate:
    return _connective(call, pc.or_kleene, decides=True)


def _connective(call: ScalarCall, combine: Comparison, decides: bool) -> Evaluate:
    """Builds AND or OR. ``decides``: the value that determines the result. Operands that may fail are evaluated only for undecided rows."""
    operands = call.operands

    def evaluate(rows: Rows) -> Datum:
        found = operands[0].evaluate(rows)
        for operand in operands[1:]:
            if not operand.may_fail:
                found = combine(found, operand.evaluate(rows))
                continue
            so_far = as_array(found, rows.count)
            open_rows = pc.fill_null(pc.not_equal(so_far, decides), True)
            found = combine(so_far, evaluate_where(operand, rows, open_rows, pa.bool_()))
        return found

    return evaluate


def evaluate_where(operand: Operand, rows: Rows, mask: pa.BooleanArray, type: pa.DataType) -> pa.Array:
    """Evaluates an operand over the rows of a mask without nulls, as an array of all rows that is null elsewhere."""
    if pc.all(mask, min_count=0).as_py():
        found = operand.values(rows)
        return found if found.type == type else found.cast(type)
    indices = pc.indices_nonzero(mask)
    if not len(indices):
        return pa.nulls(rows.count, type)
    found = operand.values(rows.take(indices))
    if found.type != type:
        found = found.cast(type)
    places = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return found.take(if_else(mask, places, pa.scalar(None, pa.int64())))


@function("NOT")
def _not_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    return lambda rows: pc.invert(operand.evaluate(rows))


@function("IS NULL")
def _is_null_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    return lambda rows: pc.is_null(operand.evaluate(rows))


@function("IS NOT NULL")
def _is_not_null_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    return lambda rows: pc.is_valid(operand.evaluate(rows))


@function("IS TRUE", "IS NOT FALSE")
def _is_true_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    otherwise = "NOT" in call.name
    return lambda rows: pc.fill_null(operand.evaluate(rows), otherwise)


@function("IS FALSE", "IS NOT TRUE")
def _is_false_call(call: ScalarCall) -> Evaluate:
    (operand,) = call.operands
    otherwise = "NOT" in call.name
    return lambda rows: pc.fill_null(pc.invert(operand.evaluate(rows)), otherwise)


@function("IS UNKNOWN")
def _is_unknown_call(call: ScalarCall) -> Evaluate:
    return _is_null_call(call)


@function("IS NOT UNKNOWN")
def _is_not_unknown_call(call: ScalarCall) -> Evaluate:
    return _is_not_null_call(call)


@function("CASE")
def _case_call(call: ScalarCall) -> Evaluate:
    """Builds CASE: operands are conditions and values in turn, and the default value."""
    conditions = call.operands[:-1:2]
    values = [_as(call, operand) for operand in (*call.operands[1::2], call.operands[-1])]
    return _choose(call, conditions, values)


@function("IF")
def _if_call(call: ScalarCall) -> Evaluate:
    condition, *values = call.operands
    return _choose(call, [condition], [_as(call, value) for value in values])


def _choose(call: ScalarCall, conditions: Sequence[Operand], values: Sequence[Operand]) -> Evaluate:
    wanted = call.arrow
    if not any(operand.may_fail for operand in (*conditions[1:], *values)):

        def at_once(rows: Rows) -> Datum:
            masks = [condition.values(rows) for condition in conditions]
            if len(masks) == 1:
                mask = pc.fill_null(masks[0], False)
                return if_else(mask, values[0].evaluate(rows), values[1].evaluate(rows))
            struct = pa.StructArray.from_arrays(masks, names=[str(index) for index in range(len(masks))])
            return pc.case_when(struct, *(value.evaluate(rows) for value in values))

        return at_once

    def in_turn(rows: Rows) -> Datum:
        """Evaluates each condition for undecided rows, and each value for the rows that take it."""
        is_open = pa.repeat(pa.scalar(True), rows.count)
        parts: list[tuple[pa.Array, pa.Array]] = []
        for condition, value in zip(conditions, values[:-1], strict=True):
            taken = pc.fill_null(pc.and_(is_open, evaluate_where(condition, rows, is_open, pa.bool_())), False)
            parts.append((taken, evaluate_where(value, rows, taken, wanted)))
            is_open = pc.and_not(is_open, taken)
        found = evaluate_where(values[-1], rows, is_open, wanted)
        for taken, part in parts:
            found = if_else(taken, part, found)
        return found

    return in_turn


def _as(call: ScalarCall, operand: Operand) -> Operand:
    """Casts an operand to the call's type."""
    cast = caster(operand.type, call.type, call.context, call)
    if operand.arrow == call.arrow and (cast is None or call.type.root in (*TEXT, *BYTES)):
        return operand
    if cast is None:
        wanted = call.arrow
        return Operand(call.type, lambda rows: operand.evaluate(rows).cast(wanted), may_fail=operand.may_fail)
    return Operand(call.type, lambda rows: _on(cast, operand.evaluate(rows)), may_fail=operand.may_fail)


@function("COALESCE", "IFNULL")
def _coalesce_call(call: ScalarCall) -> Evaluate:
    operands = [_as(call, operand) for operand in call.operands]
    wanted = call.arrow
    if not any(operand.may_fail for operand in operands[1:]):
        return lambda rows: reduce(_first_valid, (operand.evaluate(rows) for operand in operands))

    def in_turn(rows: Rows) -> Datum:
        found = operands[0].values(rows)
        for operand in operands[1:]:
            missing = found.is_null()
            found = if_else(missing, evaluate_where(operand, rows, missing, wanted), found)
        return found

    return in_turn


def _first_valid(a: Datum, b: Datum) -> Datum:
    return pc.coalesce(a, b)


@function("NULLIF")
def _nullif_call(call: ScalarCall) -> Evaluate:
    left, right = call.operands
    compare = comparable(call, pc.equal)
    missing = pa.scalar(None, call.arrow)

    def evaluate(rows: Rows) -> Datum:
        value = left.evaluate(rows)
        return if_else(pc.fill_null(compare(value, right.evaluate(rows)), False), missing, value)

    return evaluate


@function("GREATEST", "LEAST")
def _greatest_call(call: ScalarCall) -> Evaluate:
    """Builds GREATEST and LEAST; null if an operand is."""
    operands = [_as(call, operand) for operand in call.operands]
    if call.type.root in NESTED:
        raise call.refuse()
    compare = pc.greater if "GREATEST" in call.name else pc.less
    order = _order_of_floats if call.type.root in FLOATING else _itself

    def evaluate(rows: Rows) -> Datum:
        found = operands[0].values(rows)
        for operand in operands[1:]:
            other = operand.values(rows)
            found = if_else(compare(order(other), order(found)), other, found)
        return found

    return evaluate


def _itself(datum: Datum) -> Datum:
    return datum


def _order_of_floats(datum: Datum) -> Datum:
    """Maps floats to integers in the order of Java's ``Double.compareTo``: -0.0 is less than 0.0, NaN greater than all."""
    array = as_array(datum, 1).cast(pa.float64())
    values = np.asarray(array.fill_null(0.0))
    bits = values.view(np.int64)
    largest = np.iinfo(np.int64).max
    ordered = np.where(np.isnan(values), largest, np.where(bits < 0, bits ^ largest, bits))
    found = pa.array(ordered, pa.int64(), mask=null_mask(array))
    return found[0] if isinstance(datum, pa.Scalar) else found


@function("SEARCH")
def _search_call(call: ScalarCall) -> Evaluate:
    """Builds SEARCH, of which IN, BETWEEN and OR of comparisons with constants are made: tests for membership in the ranges of a search argument."""
    value, argument = call.operands
    sarg = argument.literal
    if not isinstance(sarg, Sarg):
        raise call.refuse("its second argument must be a search argument")
    common = common_type(value.type, argument.type)
    if common is None:
        raise call.refuse()
    cast = caster(value.type, common, call.context, call)
    null_as = {"TRUE": True, "FALSE": False}.get(sarg.null_as or "", True if sarg.contains_null else None)
    test = _membership(sarg, value.type, argument.type, common, call)

    def evaluate(rows: Rows) -> Datum:
        datum = _on(cast, value.evaluate(rows))
        found = test(datum)
        return found if null_as is None else pc.fill_null(found, null_as)

    return evaluate


def _membership(
    sarg: Sarg, tested: LogicalType, written: LogicalType, common: LogicalType, call: ScalarCall
) -> Callable[[Datum], Datum]:
    def constant(bound: Bound) -> pa.Scalar:
        scalar = literal_scalar(value_of(_bound_value(bound.value, written), written), written)
        return _on(caster(written, common, call.context, call), scalar)

    ranges = sarg.ranges
    if ranges and all(one.is_point for one in ranges):
        return _is_in([constant(one.lower) for one in ranges if one.lower is not None], common)
    holes = [one.upper for one in ranges[:-1]]
    if (
        len(ranges) > 1
        and ranges[0].lower is None
        and ranges[-1].upper is None
        and all(a.upper is not None and a.upper.is_open and a.upper == b.lower for a, b in pairwise(ranges))
    ):
        inside = _is_in([constant(hole) for hole in holes if hole is not None], common)
        return lambda datum: pc.invert(inside(datum))
    order = _order_of(common, tested, written)
    tests: list[Callable[[Datum], Datum]] = []
    for one in ranges:
        ends: list[tuple[Comparison, pa.Scalar]] = []
        if one.is_point and one.lower is not None:
            ends.append((pc.equal, order(constant(one.lower))))
        else:
            if one.lower is not None:
                ends.append((pc.greater if one.lower.is_open else pc.greater_equal, order(constant(one.lower))))
            if one.upper is not None:
                ends.append((pc.less if one.upper.is_open else pc.less_equal, order(constant(one.upper))))
        tests.append(_in_range(ends))

    def any_of(datum: Datum) -> Datum:
        if not tests:
            return if_else(pc.is_valid(datum), False, pa.scalar(None, pa.bool_()))
        ordered = order(datum)
        return reduce(pc.or_, (test(ordered) for test in tests))

    return any_of


def _in_range(ends: Sequence[tuple[Comparison, pa.Scalar]]) -> Callable[[Datum], Datum]:
    def test(datum: Datum) -> Datum:
        if not ends:
            return if_else(pc.is_valid(datum), True, pa.scalar(None, pa.bool_()))
        return reduce(pc.and_, (compare(datum, end) for compare, end in ends))

    return test


def _is_in(points: Sequence[pa.Scalar], common: LogicalType) -> Callable[[Datum], Datum]:
    if common.root in FLOATING:
        return lambda datum: reduce(pc.or_, (_is_same(datum, point) for point in points))
    if len(points) <= 3:
        return lambda datum: reduce(pc.or_, (pc.equal(datum, point) for point in points))
    options = pa.array([point.as_py() for point in points], arrow_type(common))

    def test(datum: Datum) -> Datum:
        return if_else(pc.is_valid(datum), pc.is_in(datum, value_set=options), pa.scalar(None, pa.bool_()))

    return test


def _is_same(datum: Datum, point: pa.Scalar) -> Datum:
    """Compares floats as Java objects: 0.0 and -0.0 differ."""
    found = pc.equal(datum, point)
    if point.as_py() != 0:
        return found
    return pc.and_(found, pc.equal(pc.divide(1.0, datum), pc.divide(1.0, point)))


def _bound_value(value: Any, type: LogicalType) -> Any:
    return Decimal(str(value)) if type.root is TypeRoot.DECIMAL else value
