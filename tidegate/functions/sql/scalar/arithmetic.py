"""Arithmetic and mathematical functions: Java's numbers, which wrap around, and DECIMAL of the plan's precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.casts import caster, rescale, widened
from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import (
    arrow_kernel,
    by_value,
    elementwise,
    from_numpy,
    if_else,
    null_mask,
    to_numpy,
)
from tidegate.functions.sql.scalar.registry import (
    Datum,
    Evaluate,
    KernelKind,
    Operand,
    Rows,
    ScalarCall,
    as_array,
    function,
)
from tidegate.functions.sql.scalar.temporal_arithmetic import temporal_difference, temporal_sum
from tidegate.functions.sql.scalar.texts import EXACT, fit
from tidegate.functions.sql.scalar.times import floor_to
from tidegate.plan.logical_types import LogicalType, TypeRoot

WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
FLOATING = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
NUMBERS = (*WHOLE, *FLOATING, TypeRoot.DECIMAL)
DOUBLE = LogicalType(TypeRoot.DOUBLE)
DIVISION = Context(prec=38, rounding=ROUND_HALF_UP)
"""The context of divisions: Flink's ``MathContext(38, HALF_UP)``."""
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}


def as_type(call: ScalarCall, operand: Operand, type: LogicalType) -> Evaluate:
    """Returns the evaluation of an operand cast to ``type``."""
    cast = caster(operand.type, type, call.context, call)
    if cast is None:
        return operand.evaluate
    convert = cast

    def evaluate(rows: Rows) -> Datum:
        datum = operand.evaluate(rows)
        return convert(datum) if isinstance(datum, pa.Array) else convert(as_array(datum, 1))[0]

    return evaluate


def _binary(call: ScalarCall, function: Callable[[Datum, Datum], Datum], type: LogicalType) -> Evaluate:
    left, right = (as_type(call, operand, type) for operand in call.operands)
    return lambda rows: function(left(rows), right(rows))


def _check_numbers(call: ScalarCall) -> None:
    if any(operand.type.root not in (*NUMBERS, TypeRoot.NULL) for operand in call.operands):
        raise call.refuse()


@function("+")
def _plus_call(call: ScalarCall) -> Evaluate:
    if call.type.root not in NUMBERS:
        return temporal_sum(call, is_negated=False)
    return _sum(call, pc.add, EXACT.add)


@function("-")
def _minus_call(call: ScalarCall) -> Evaluate:
    if len(call.operands) == 1:
        return _negated(call)
    if call.type.root not in NUMBERS:
        right = call.operands[1].type.root
        if right in (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH):
            return temporal_sum(call, is_negated=True)
        return temporal_difference(call)
    return _sum(call, pc.subtract, EXACT.subtract)


@function("MINUS_PREFIX", "UNARY_MINUS")
def _negated_call(call: ScalarCall) -> Evaluate:
    return _negated(call)


def _negated(call: ScalarCall) -> Evaluate:
    if call.type.root is TypeRoot.INTERVAL_DAY_TIME:
        return elementwise(call, lambda array: pc.negate(array.cast(pa.int64())).cast(pa.duration("ms")))
    return arrow_kernel(call, pc.negate)


def _sum(
    call: ScalarCall, function: Callable[[Datum, Datum], Datum], exact: Callable[[Decimal, Decimal], Decimal]
) -> Evaluate:
    _check_numbers(call)
    if call.type.root is not TypeRoot.DECIMAL:
        return _binary(call, function, call.type)
    return _decimal(call, function, exact)


@function("*")
def _times_call(call: ScalarCall) -> Evaluate:
    if call.type.root is TypeRoot.INTERVAL_DAY_TIME or call.type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return _scaled_interval(call)
    _check_numbers(call)
    if call.type.root is not TypeRoot.DECIMAL:
        return _binary(call, pc.multiply, call.type)
    return _decimal(call, pc.multiply, EXACT.multiply)


def _scaled_interval(call: ScalarCall) -> Evaluate:
    def scaled(left: pa.Array, right: pa.Array) -> pa.Array:
        mask = null_mask(left, right)
        numbers = [array.cast(pa.int64()) if pa.types.is_duration(array.type) else array for array in (left, right)]
        if any(pa.types.is_decimal(array.type) or pa.types.is_floating(array.type) for array in numbers):
            product = np.trunc(to_numpy(numbers[0].cast(pa.float64())) * to_numpy(numbers[1].cast(pa.float64())))
        else:
            product = to_numpy(numbers[0]).astype(np.int64) * to_numpy(numbers[1]).astype(np.int64)
        return from_numpy(product.astype(np.int64), call.arrow, mask)

    return elementwise(call, scaled)


def _decimal(
    call: ScalarCall, function: Callable[[Datum, Datum], Datum], exact: Callable[[Decimal, Decimal], Decimal]
) -> Evaluate:
    """Builds decimal arithmetic that is exact and then rounded to the type of the call; null where it does not fit. Arrow computes with up to 76 digits."""
    types = [_decimal_type(operand) for operand in call.operands]
    if None in types:
        return _binary(call, function, DOUBLE)
    wanted = call.arrow
    (p, s), (q, t) = [(type.precision or 10, type.scale or 0) for type in types if type is not None]
    needed = p + q + 1 if function is pc.multiply else max(p - s, q - t) + max(s, t) + 1
    if needed > 76:
        precision, scale = wanted.precision, wanted.scale
        return by_value(call, lambda a, b: fit(exact(Decimal(a), Decimal(b)), precision, scale))
    left, right = (as_type(call, operand, type) for operand, type in zip(call.operands, types, strict=True) if type)
    widen = needed > 38

    def compute(rows: Rows) -> Datum:
        a, b = left(rows), right(rows)
        if widen:
            a, b = a.cast(pa.decimal256(p, s)), b.cast(pa.decimal256(q, t))
        found = function(a, b)
        return rescale(found, wanted) if isinstance(found, pa.Array) else rescale(as_array(found, 1), wanted)[0]

    return compute


def _decimal_type(operand: Operand) -> LogicalType | None:
    if operand.type.root is TypeRoot.DECIMAL:
        return operand.type
    if operand.type.root in WHOLE:
        return LogicalType(TypeRoot.DECIMAL, precision=_DIGITS[operand.type.root], scale=0)
    return None


@function("/", may_fail=True)
def _divided_call(call: ScalarCall) -> Evaluate:
    if call.type.root is TypeRoot.INTERVAL_DAY_TIME or call.type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return elementwise(call, lambda a, b: _whole_division(call, a.cast(pa.int64()), b.cast(pa.int64())))
    _check_numbers(call)
    if call.type.root in WHOLE:
        return _whole(call, _whole_division)
    if call.type.root in FLOATING:
        return _binary(call, pc.divide, call.type)
    if any(_decimal_type(operand) is None for operand in call.operands):
        return _binary(call, pc.divide, DOUBLE)
    precision, scale = call.arrow.precision, call.arrow.scale

    def divide(a: Any, b: Any) -> Decimal | None:
        if not b:
            raise EvaluationError("/: division by zero")
        return fit(DIVISION.divide(Decimal(a), Decimal(b)), precision, scale)

    return by_value(call, divide)


@function("/INT", "DIVIDE_INTEGER", may_fail=True)
def _divided_whole_call(call: ScalarCall) -> Evaluate:
    if call.type.root is TypeRoot.DECIMAL:
        return _divided_call(call)
    return elementwise(call, lambda a, b: _whole_division(call, a.cast(pa.int64()), b.cast(pa.int64())))


def _whole(call: ScalarCall, function: Callable[[ScalarCall, pa.Array, pa.Array], pa.Array]) -> Evaluate:
    widest = LogicalType(max((*(operand.type.root for operand in call.operands), call.type.root), key=_width))
    left, right = (as_type(call, operand, widest) for operand in call.operands)

    def evaluate(rows: Rows) -> Datum:
        a, b = left(rows), right(rows)
        if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
            return function(call, as_array(a, 1), as_array(b, 1))[0]
        return function(call, as_array(a, rows.count), as_array(b, rows.count))

    return evaluate


def _width(root: TypeRoot) -> int:
    return WHOLE.index(root) if root in WHOLE else -1


def _whole_division(call: ScalarCall, left: pa.Array, right: pa.Array) -> pa.Array:
    a, b, mask = _dividends(call, left, right)
    with np.errstate(all="ignore"):
        quotient = a // b
        quotient = quotient + ((quotient < 0) & (quotient * b != a))
        return from_numpy(np.where((b == -1), np.negative(a), quotient), call.arrow, mask)


def _remainder(call: ScalarCall, left: pa.Array, right: pa.Array) -> pa.Array:
    a, b, mask = _dividends(call, left, right)
    with np.errstate(all="ignore"):
        return from_numpy(np.where(b == -1, 0, np.fmod(a, b)), call.arrow, mask)


def _dividends(call: ScalarCall, left: pa.Array, right: pa.Array) -> tuple[Any, Any, Any]:
    mask = null_mask(left, right)
    a, b = to_numpy(left), to_numpy(right)
    zero = b == 0
    if mask is not None:
        b = np.where(mask, np.array(1, b.dtype), b)
        zero = b == 0
    if zero.any():
        raise EvaluationError(f"{call.name}: division by zero")
    return a, b, mask


@function("MOD", "%", may_fail=True)
def _mod_call(call: ScalarCall) -> Evaluate:
    roots = {operand.type.root for operand in call.operands}
    if roots <= set(WHOLE):
        return _whole(call, _remainder)
    if roots & set(FLOATING):
        return elementwise(call, lambda a, b: _float_remainder(call, a, b))

    def remainder(a: Any, b: Any) -> Any:
        if not b:
            raise EvaluationError(f"{call.name}: division by zero")
        found = EXACT.remainder(Decimal(a), Decimal(b))
        if call.type.root is TypeRoot.DECIMAL:
            return fit(found, call.arrow.precision, call.arrow.scale)
        return int(found)

    return by_value(call, remainder)


def _float_remainder(call: ScalarCall, left: pa.Array, right: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        a, b = (to_numpy(array.cast(pa.float64())) for array in (left, right))
        return from_numpy(np.fmod(a, b), call.arrow, null_mask(left, right))


@function("ABS")
def _absolute_call(call: ScalarCall) -> Evaluate:
    if call.type.root is TypeRoot.INTERVAL_DAY_TIME:
        return elementwise(call, lambda array: pc.abs(array.cast(pa.int64())).cast(pa.duration("ms")))
    return arrow_kernel(call, pc.abs)


@function("SIGN")
def _sign_call(call: ScalarCall) -> Evaluate:
    wanted = call.arrow
    if call.type.root is TypeRoot.DECIMAL:
        return elementwise(call, lambda array: pc.sign(array).cast(pa.decimal128(19, 0)).cast(wanted))
    if call.operands[0].type.root in FLOATING:
        return arrow_kernel(call, lambda datum: if_else(pc.equal(datum, 0), datum, pc.sign(datum)).cast(wanted))
    return arrow_kernel(call, lambda datum: pc.sign(datum).cast(wanted))


@function("FLOOR", "CEIL")
def _floor_call(call: ScalarCall) -> Evaluate:
    if len(call.operands) == 2:
        return floor_to(call)
    is_floor = "FLOOR" in call.name
    (operand,) = call.operands
    if operand.type.root in WHOLE:
        return operand.evaluate
    if operand.type.root is TypeRoot.DECIMAL:
        mode = "down" if is_floor else "up"
        return elementwise(
            call, lambda array: rescale(pc.round(widened(array), ndigits=0, round_mode=mode), call.arrow)
        )
    if operand.type.root not in FLOATING:
        raise call.refuse()
    return arrow_kernel(call, pc.floor if is_floor else pc.ceil)


@function("ROUND", kind=KernelKind.DISTINCT)
def _rounded_call(call: ScalarCall) -> Evaluate:
    return _rounding(call, ROUND_HALF_UP)


@function("TRUNCATE", kind=KernelKind.DISTINCT)
def _truncated_call(call: ScalarCall) -> Evaluate:
    return _rounding(call, ROUND_DOWN)


def _rounding(call: ScalarCall, mode: str) -> Evaluate:
    root = call.operands[0].type.root
    if root not in NUMBERS:
        raise call.refuse()
    digits = call.operands[1] if len(call.operands) > 1 else None

    def round_value(value: Any, places: int = 0) -> Any:
        if isinstance(value, float):
            if not math.isfinite(value):
                raise EvaluationError(f"{call.name}: {value} cannot be rounded")
            number = Decimal(repr(value))
        else:
            number = Decimal(value)
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        if places < -exponent:
            number = number.quantize(Decimal(1).scaleb(-places), rounding=mode, context=_WIDE)
        if root is TypeRoot.DECIMAL:
            return fit(number, call.arrow.precision, call.arrow.scale)
        if root in FLOATING:
            return float(number) + 0.0
        bits = call.arrow.bit_width
        return (int(number) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

    if digits is None:
        return by_value(call, round_value)
    if digits.is_literal and digits.literal is not None:
        places = digits.literal
        return by_value(call, lambda value: round_value(value, places), columns=[0])
    return by_value(call, round_value)


_WIDE = Context(prec=800)


def _double_function(name: str, compute: Callable[..., Any], kind: KernelKind = KernelKind.NUMPY) -> None:
    @function(name, kind=kind)
    def build(call: ScalarCall) -> Evaluate:
        _check_numbers(call)
        casts = [caster(operand.type, DOUBLE, call.context, call) for operand in call.operands]

        def over(*arrays: pa.Array) -> pa.Array:
            with np.errstate(all="ignore"):
                numbers = [
                    to_numpy(array if cast is None else cast(array)) for array, cast in zip(arrays, casts, strict=True)
                ]
                return from_numpy(compute(*numbers), call.arrow, null_mask(*arrays))

        return elementwise(call, over)


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """Applies a function of the C library to each value: NumPy's vectorised ones differ from Java's in the last bit, depending on version and processor."""

    def computed(*values: Any) -> Any:
        found = np.empty(len(values[0]))
        for index, row in enumerate(zip(*(value.tolist() for value in values), strict=True)):
            try:
                found[index] = function(*row)
            except ValueError:
                found[index] = math.nan
            except OverflowError:
                found[index] = math.copysign(math.inf, row[0])
        return found

    return computed


def _power(base: Any, exponent: Any) -> Any:
    """Computes powers by the C library, with Java's results at the edges."""
    with np.errstate(all="ignore"):
        approximate = np.float_power(base, exponent)
    exponents = np.broadcast_to(np.asarray(exponent, dtype=float), len(base)).tolist()
    for index, (x, y) in enumerate(zip(base.tolist(), exponents, strict=True)):
        if math.isfinite(approximate[index]) and approximate[index]:
            approximate[index] = x**y
    return approximate


def _logarithm(function: Callable[[float], float]) -> Callable[..., Any]:
    return _each(lambda value: -math.inf if value == 0.0 else function(value))


_ln, _tan = _logarithm(math.log), _each(math.tan)


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _log(*values: Any) -> Any:
    return _ln(values[-1]) if len(values) == 1 else _ln(values[1]) / _ln(values[0])


def _log2(value: Any) -> Any:
    return _ln(value) / math.log(2.0)


for _name, _compute in (
    ("POWER", _power),
    ("LN", _ln),
    ("LOG", _log),
    ("LOG10", _logarithm(math.log10)),
    ("LOG2", _log2),
    ("EXP", _each(_exponential)),
    ("SIN", _each(math.sin)),
    ("COS", _each(math.cos)),
    ("TAN", _tan),
    ("COT", lambda value: 1.0 / _tan(value)),
    ("ASIN", _each(math.asin)),
    ("ACOS", _each(math.acos)),
    ("ATAN", _each(math.atan)),
    ("ATAN2", _each(math.atan2)),
    ("SINH", _each(math.sinh)),
    ("COSH", _each(math.cosh)),
    ("TANH", _each(math.tanh)),
    ("DEGREES", lambda value: value * (180.0 / math.pi)),
    ("RADIANS", lambda value: value * (math.pi / 180.0)),
    ("SQRT", lambda value: _power(value, 0.5)),
):
    _double_function(_name, _compute)


@function("PI")
def _pi_call(call: ScalarCall) -> Evaluate:
    return lambda rows: pa.scalar(math.pi)


@function("E")
def _euler_call(call: ScalarCall) -> Evaluate:
    return lambda rows: pa.scalar(math.e)
