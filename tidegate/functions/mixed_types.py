"""How operators and functions of columns convert operands of different types, decided by the types alone when the graph is built.

    | beside each other                    | become                                                                            |
    |--------------------------------------|-----------------------------------------------------------------------------------|
    | integers                             | the type that holds both (int32 and uint32: int64)                                |
    | uint64 and a constant from 0 on      | uint64                                                                            |
    | uint64 and any other signed integer  | compared by value; else refused, as no type holds both                            |
    | a float and an integer or a decimal  | floats: the nearest one (float64, unless a float32 stands beside integers)         |
    | a decimal and an integer             | decimals, exactly; refused where these would need more digits than there are      |
    | dates and timestamps, or durations   | the finer unit; compared by value                                                 |

``//`` and ``%`` are Python's, for decimals too, where Python's own ``Decimal`` rounds toward zero: the quotient is rounded down, the remainder has the
sign of the divisor. An integer or a decimal divided by zero is an error; a float is infinite or NaN.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.numpy_column import NumpyColumn

Datum: TypeAlias = pa.Array | pa.ChunkedArray | pa.Scalar
"""An operand or result of a function of ``pyarrow.compute``."""

_COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_FIRST_JOINT = {
    **dict.fromkeys(
        (
            "add", "subtract", "multiply", "divide", "power", "add_checked", "subtract_checked", "multiply_checked", "divide_checked",
            "power_checked", "bit_wise_and", "bit_wise_or", "bit_wise_xor", "coalesce", "max_element_wise",
            "min_element_wise",
        ),
        0,
    ),
    "if_else": 1, "choose": 1, "case_when": 1,
}  # fmt: skip
"""Functions whose arguments must share one type, with the index of the first such argument."""
_OF_FLOATS = frozenset(
    {
        "sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log1p", "log2", "logb", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "hypot",
    }
)  # fmt: skip
"""Functions whose result is a float whatever their arguments are."""
_ALL_DIGITS = decimal.Context(prec=160)
_UNITS = ("s", "ms", "us", "ns")


def called(name: str, function: Callable[..., Datum], arguments: Sequence[Datum], options: dict[str, object]) -> Datum:
    """Calls a function of ``pyarrow.compute`` with arguments of any types. Raises what it raises; ``pa.ArrowTypeError`` for types without a common one."""
    if name in _COMPARED:
        return _compared(name, function, *arguments)
    if name == "cast" and not options.keys() - {"target_type"}:
        return _cast(arguments[0], options["target_type"])
    if name == "is_in" and isinstance(options.get("value_set"), pa.Array):
        return _is_in(function, arguments[0], options)
    if name.removesuffix("_checked") in _OF_FLOATS:
        arguments = [_floating(value) for value in map(_plain, arguments)]
    first = _FIRST_JOINT.get(name)
    if name.startswith("power") and any(pa.types.is_decimal(value.type) for value in arguments):
        arguments = [_floating(value) for value in arguments]
    if first is not None:
        arguments = [*arguments[:first], *joint(arguments[first:])]
    return function(*arguments, **options)


def joint(values: Sequence[Datum]) -> list[Datum]:
    """Casts values to types that Arrow can combine, without loss. Raises ``pa.ArrowTypeError``."""
    values = [_plain(value) for value in values]
    kinds = [value.type for value in values if not pa.types.is_null(value.type)]
    if any(map(pa.types.is_floating, kinds)) and all(map(_is_number, kinds)):
        return [_as_float(value, _float_of(kinds)) for value in values]
    if pa.uint64() in kinds and all(map(pa.types.is_integer, kinds)):
        return _with_uint64(values)
    if pa.uint64() in kinds and any(map(pa.types.is_duration, kinds)):  # a product wraps, whatever its sign is called
        return [pc.cast(v, pa.int64(), safe=False) if v.type == pa.uint64() else v for v in values]
    zones = {kind.tz is None for kind in kinds if pa.types.is_timestamp(kind)}
    if len(zones) > 1:
        raise pa.ArrowTypeError("a timestamp with a time zone and one without are not comparable: cast one of them")
    return values


def fraction(left: Datum, right: Datum) -> Datum:
    """Divides; integers become float64 first, decimals stay decimals."""
    left, right = _plain(left), _plain(right)
    if not any(pa.types.is_decimal(kind) for kind in (left.type, right.type)):
        left, right = _floating(left), _floating(right)
    return pc.divide(*joint([left, right]))


def floor_division(left: Datum, right: Datum) -> Datum:
    """Divides and rounds down, as ``//``."""
    left, right = joint([left, right])
    if _are_decimals(left, right):
        return _of_decimals(left, right, is_remainder=False)
    if all(pa.types.is_duration(side.type) for side in (left, right)):
        return pc.floor(pc.divide(left, right))
    return _of_numbers(np.floor_divide, left, right)


def modulo(left: Datum, right: Datum) -> Datum:
    """Returns the remainder, as ``%``."""
    left, right = joint([left, right])
    if _are_decimals(left, right):
        return _of_decimals(left, right, is_remainder=True)
    return _of_numbers(np.remainder, left, right)


# --- types


def _plain(value: Datum) -> Datum:
    if pa.types.is_dictionary(value.type) and _is_number(value.type.value_type):
        return pc.cast(value, value.type.value_type)
    return value


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _float_of(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if pa.float64() in kinds or any(map(pa.types.is_decimal, kinds)):
        return pa.float64()
    return pa.float32() if pa.float32() in kinds else pa.float16()


def _as_float(value: Datum, kind: pa.DataType) -> Datum:
    if value.type == kind or pa.types.is_null(value.type) or pa.float16() in (kind, value.type):
        return value
    return pc.cast(value, kind, safe=False)


def _floating(value: Datum) -> Datum:
    kind = value.type
    is_exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    return pc.cast(value, pa.float64(), safe=False) if is_exact else value


def _cast(value: Datum, kind: object) -> Datum:
    """Casts values: numbers become the nearest float; any other value that does not fit is an error."""
    value = _plain(value)
    assert isinstance(kind, pa.DataType)
    return pc.cast(value, kind, safe=not (pa.types.is_floating(kind) and _is_number(value.type)))


def _with_uint64(values: Sequence[Datum]) -> list[Datum]:
    others = [value for value in values if pa.types.is_signed_integer(value.type)]
    for value in others:
        if not isinstance(value, pa.Scalar):
            raise pa.ArrowTypeError(
                f"no type holds uint64 and {value.type}: cast one of them to the other, or both to float64"
            )
        if value.is_valid and value.as_py() < 0:
            raise pa.ArrowTypeError(f"no type holds uint64 and {value.as_py()}: cast the column to int64 or float64")
    return [pc.cast(value, pa.uint64()) if pa.types.is_signed_integer(value.type) else value for value in values]


# --- comparisons


def _compared(name: str, function: Callable[..., Datum], left: Datum, right: Datum) -> Datum:
    left, right = _plain(left), _plain(right)
    kinds = left.type, right.type
    if pa.uint64() in kinds and any(map(pa.types.is_signed_integer, kinds)):
        return _compared_with_uint64(name, function, left, right)
    left, right = joint([left, right])
    if _unit_of(left.type) != _unit_of(right.type) and None not in (_unit_of(left.type), _unit_of(right.type)):
        return _compared_by_time(name, left, right)
    return function(left, right)


def _compared_with_uint64(name: str, function: Callable[..., Datum], left: Datum, right: Datum) -> Datum:
    """Compares uint64 with a signed integer: a negative number is less than any uint64."""
    first, second = (pc.cast(side, pa.uint64(), safe=False) for side in (left, right))
    found = function(first, second)
    signed = left if pa.types.is_signed_integer(left.type) else right
    below = pc.less(signed, pa.scalar(0, signed.type))
    is_left = signed is left
    holds = name == "not_equal" or name.startswith("less" if is_left else "greater")
    return pc.if_else(pc.and_(below, pc.is_valid(found)), pa.scalar(holds), found)


def _unit_of(kind: pa.DataType) -> str | None:
    """Returns the unit of times that may be compared with others of the same kind."""
    if pa.types.is_date(kind):
        return "day" if pa.types.is_date32(kind) else "ms"
    return str(kind.unit) if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else None


def _compared_by_time(name: str, left: Datum, right: Datum) -> Datum:
    """Compares times of different units in the coarser one, and then by the remainder of the finer one."""
    if pa.types.is_duration(left.type) != pa.types.is_duration(right.type):
        raise pa.ArrowTypeError(f"{left.type} and {right.type} are not comparable: cast one of them")
    counts = [_counted(side) for side in (left, right)]
    factors = [_per_second(_unit_of(side.type)) for side in (left, right)]
    if factors[0] > factors[1]:
        return _compared_by_time(_MIRRORED.get(name, name), right, left)
    factor = pa.scalar(factors[1] // factors[0], pa.int64())
    down = _of_numbers(np.floor_divide, counts[1], factor)
    if name in ("less", "greater_equal"):  # as of the next one, where it is not whole
        rest = pc.cast(pc.not_equal(_of_numbers(np.remainder, counts[1], factor), 0), pa.int64())
        down = pc.add(down, rest)
    found = getattr(pc, name)(counts[0], down)
    if name not in ("equal", "not_equal"):
        return found
    whole = pc.equal(_of_numbers(np.remainder, counts[1], factor), 0)
    return pc.and_(found, whole) if name == "equal" else pc.or_(found, pc.invert(whole))


_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def _counted(side: Datum) -> Datum:
    """Returns times as counts of their unit since 1970; days become seconds."""
    if pa.types.is_date32(side.type):
        return pc.multiply(pc.cast(pc.cast(side, pa.int32()), pa.int64()), 86_400)
    return pc.cast(side, pa.int64())


def _per_second(unit: str | None) -> int:
    return 1 if unit in ("day", None) else 1000 ** _UNITS.index(str(unit))


def _is_in(function: Callable[..., Datum], value: Datum, options: dict[str, object]) -> Datum:
    """Tests for membership in a set; members that the column's type cannot hold are never found."""
    value, members = _plain(value), options["value_set"]
    assert isinstance(members, pa.Array)
    if value.type != members.type and all(map(_is_number, (value.type, members.type))):
        if pa.types.is_floating(value.type) or pa.types.is_floating(members.type):
            value, members = joint([value, members])
        else:
            members = pa.array(_representable(members, value.type), value.type)
    return function(value, **{**options, "value_set": members})


def _representable(members: pa.Array, kind: pa.DataType) -> list[object]:
    """Returns the numbers that a type can hold exactly."""
    found: list[object] = []
    for member in members.to_pylist():
        is_fraction = isinstance(member, decimal.Decimal) and member != member.to_integral_value(context=_ALL_DIGITS)
        if pa.types.is_integer(kind) and is_fraction:
            continue
        number = int(member) if pa.types.is_integer(kind) and member is not None else member
        try:
            pa.scalar(number if pa.types.is_integer(kind) or number is None else decimal.Decimal(number), kind)
        except (OverflowError, pa.ArrowInvalid):
            continue
        found.append(number if pa.types.is_integer(kind) or number is None else decimal.Decimal(number))
    return found


# --- rounding down


def _of_numbers(function: Callable[..., NumpyColumn], left: Datum, right: Datum) -> Datum:
    kind = pc.add(pa.array([], left.type), pa.array([], right.type)).type  # raises for what are no numbers
    if not _is_number(kind):
        raise pa.ArrowTypeError(
            f"{left.type} and {right.type} cannot be divided and rounded down: cast both to numbers"
        )
    sides = [_array(pc.cast(side, kind)) for side in (left, right)]
    valid = _both_valid(sides)
    numerators, divisors = (_values(side) for side in sides)
    if pa.types.is_integer(kind):
        divisors = _checked(divisors, valid, len(numerators))
    with np.errstate(all="ignore"):  # the least integer divided by -1 wraps
        found = function(numerators, divisors)
    made = pa.array(found, kind, mask=None if valid is None else ~valid)
    return made[0] if _are_scalars(left, right) else made


def _of_decimals(left: Datum, right: Datum, *, is_remainder: bool) -> Datum:
    """Divides decimals as integers of the finer scale: the quotient is the same, and the remainder has this scale and the divisor's digits."""
    sides = [_as_decimal(_array(side)) for side in (left, right)]
    scale = max(side.type.scale for side in sides)
    kind, most = (
        (pa.decimal128, 38) if all(pa.types.is_decimal128(side.type) for side in sides) else (pa.decimal256, 76)
    )
    whole = [side.type.precision - side.type.scale for side in sides]
    if is_remainder and whole[1] + scale > most:
        raise pa.ArrowTypeError(
            f"the remainder of {left.type} and {right.type} has more than {most} digits: cast one to a decimal with fewer"
        )
    wanted = kind(max(1, whole[1] + scale), scale) if is_remainder else _quotient_type(*sides)
    valid = _both_valid(sides)
    mask = None if valid is None else ~valid
    words = [
        _words(side, scale) if whole[i] + scale <= 38 and kind is pa.decimal128 else None
        for i, side in enumerate(sides)
    ]
    made: pa.Array
    if words[0] is not None and words[1] is not None:
        with np.errstate(all="ignore"):
            function = np.remainder if is_remainder else np.floor_divide
            found = function(words[0], _checked(words[1], valid, len(words[0])))
        made = (
            _scaled(found, wanted, mask)
            if is_remainder
            else pa.array(found, mask=mask).cast(pa.decimal128(19, 0)).cast(wanted)
        )
    else:  # more digits than numpy has: one by one
        exact = _one_by_one(*(_integers(side, scale) for side in sides), is_remainder=is_remainder)
        digits = scale if is_remainder else 0
        made = pa.array([None if n is None else decimal.Decimal(n).scaleb(-digits, _ALL_DIGITS) for n in exact], wanted)
    return made[0] if _are_scalars(left, right) else made


def _one_by_one(left: list[int | None], right: list[int | None], *, is_remainder: bool) -> list[int | None]:
    """Divides pairs of Python integers; a single value is paired with all others."""
    rows = 0 if not left or not right else max(len(left), len(right))
    left, right = (side * rows if len(side) == 1 else side for side in (left, right))
    found: list[int | None] = []
    for a, b in zip(left[:rows], right[:rows], strict=True):
        if b == 0 and a is not None:
            raise pa.ArrowInvalid("divide by zero")
        found.append(None if a is None or b is None else (a % b if is_remainder else a // b))
    return found


def _quotient_type(left: pa.Array, right: pa.Array) -> pa.DataType:
    return pc.divide(pa.array([], left.type), pa.array([], right.type)).type


def _are_decimals(left: Datum, right: Datum) -> bool:
    return any(pa.types.is_decimal(side.type) for side in (left, right))


def _as_decimal(column: pa.Array) -> pa.Array:
    if pa.types.is_decimal(column.type):
        return column if column.type.scale >= 0 else column.cast(pa.decimal256(76, 0))
    if pa.types.is_null(column.type):
        return column.cast(pa.decimal128(1, 0))
    if not pa.types.is_integer(column.type):
        raise pa.ArrowTypeError(
            f"a decimal and a value of {column.type} cannot be divided: cast that value to a decimal, or the decimal to float64"
        )
    digits = {8: 3, 16: 5, 32: 10, 64: 20 if column.type == pa.uint64() else 19}[column.type.bit_width]
    return column.cast(pa.decimal128(digits, 0))


def _array(value: Datum) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return pa.array([value.as_py()], value.type) if not value.is_valid else pa.repeat(value, 1)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _are_scalars(left: Datum, right: Datum) -> bool:
    return isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)


def _values(column: pa.Array) -> NumpyColumn:
    """Returns a column as a NumPy array, with null as zero."""
    column = column.fill_null(0) if column.null_count else column
    found: NumpyColumn = column.to_numpy(zero_copy_only=False)
    return found


def _both_valid(sides: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
    if not any(side.null_count for side in sides):
        return None
    first, second = (np.asarray(side.is_valid()) for side in sides)
    found: npt.NDArray[np.bool_] = first & second
    return found


def _checked(divisors: NumpyColumn, valid: npt.NDArray[np.bool_] | None, numerators: int) -> NumpyColumn:
    """Replaces zero divisors in rows whose result is null. Raises ``pa.ArrowInvalid`` for other zeros."""
    zeros = divisors == 0
    if not zeros.any():
        return divisors
    if (zeros.any() and numerators) if valid is None else (zeros & valid).any():
        raise pa.ArrowInvalid("divide by zero")
    return np.where(zeros, divisors.dtype.type(1), divisors)


def _words(column: pa.Array, scale: int) -> NumpyColumn | None:
    """Returns decimals as 64-bit integers of a scale; ``None`` where some do not fit."""
    column = column.cast(pa.decimal128(38, scale))
    both: NumpyColumn = np.frombuffer(column.buffers()[1], "<i8")[2 * column.offset :][: 2 * len(column)].reshape(-1, 2)
    low, high = both[:, 0], both[:, 1]
    fits = high == low >> 63
    if column.null_count:
        fits |= np.asarray(column.is_null())
    return low if fits.all() else None


def _scaled(numbers: NumpyColumn, kind: pa.DataType, mask: npt.NDArray[np.bool_] | None) -> pa.Array:
    words = np.stack([numbers, numbers >> 63], axis=1).astype("<i8")
    bitmap = None if mask is None else pa.array(~mask).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [bitmap, pa.py_buffer(np.ascontiguousarray(words))])


def _integers(column: pa.Array, scale: int) -> list[int | None]:
    return [None if value is None else int(value.scaleb(scale, _ALL_DIGITS)) for value in column.to_pylist()]
