"""CAST, TRY_CAST and REINTERPRET between all types, by the cast rules of Flink's planner (2.3)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.arrow_types import arrow_type, time_unit
from tidegate.functions.sql.scalar.calendar import (
    DAY_MS,
    UNITS_PER_SECOND,
    offsets,
    parse_date,
    parse_time_ms,
    parse_timestamp,
    to_instant,
    to_millis,
    truncating_divide,
)
from tidegate.functions.sql.scalar.context import EvaluationContext, EvaluationError
from tidegate.functions.sql.scalar.kernels import (
    distinct,
    elementwise,
    from_numpy,
    if_else,
    longs,
    null_mask,
    python_values,
    to_numpy,
)
from tidegate.functions.sql.scalar.registry import Evaluate, ScalarCall, function
from tidegate.functions.sql.scalar.texts import (
    EXACT,
    fit,
    formatter,
    parse_boolean,
    parse_decimal,
    parse_double,
    parse_whole,
)
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType, TypeRoot

Cast = Callable[[pa.Array], pa.Array]

_WHOLE = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_INTERVALS = (TypeRoot.INTERVAL_YEAR_MONTH, TypeRoot.INTERVAL_DAY_TIME)
_COMPACT = 18
"""The most digits of decimals that Flink stores as 64-bit numbers."""


def caster(
    source: LogicalType, target: LogicalType, context: EvaluationContext, call: ScalarCall, is_try: bool = False
) -> Cast | None:
    """Returns the function that casts arrays of ``source`` to ``target``, ``None`` where the types are equal. Raises ``UnsupportedPlan`` that names
    ``call``. With ``is_try`` a value that cannot be cast is null instead of an ``EvaluationError``."""
    if source.with_nullable(True) == target.with_nullable(True):
        return None
    if source.root is TypeRoot.NULL:
        wanted = arrow_type(target)
        return lambda array: pa.nulls(len(array), wanted)
    try:
        found = _caster(source, target, context, is_try)
    except UnsupportedPlan as error:
        raise call.refuse(str(error)) from None
    if found is None:
        raise call.refuse(f"there is no cast from {source} to {target}")
    return found


@function("CAST", may_fail=True)
def _cast_call(call: ScalarCall) -> Evaluate:
    return _cast(call, is_try=False)


@function("TRY_CAST")
def _try_cast_call(call: ScalarCall) -> Evaluate:
    return _cast(call, is_try=True)


def _cast(call: ScalarCall, is_try: bool) -> Evaluate:
    (operand,) = call.operands
    convert = caster(operand.type, call.type, call.context, call, is_try)
    if convert is None:
        return operand.evaluate
    return elementwise(call, convert)


@function("REINTERPRET")
def _reinterpret_call(call: ScalarCall) -> Evaluate:
    """Builds REINTERPRET: returns the number as which a value is stored, such as ms of an interval."""
    wanted = call.arrow
    return elementwise(call, lambda array: from_numpy(longs(array), wanted, null_mask(array)))


def _caster(source: LogicalType, target: LogicalType, context: EvaluationContext, is_try: bool) -> Cast | None:
    wanted = arrow_type(target)
    match target.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _to_text(source, target, context)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _to_bytes(source, target)
        case TypeRoot.BOOLEAN:
            if source.root in _TEXT:
                return _reading(parse_boolean, target, is_try)
            if source.root in (*_WHOLE, *_FLOATS):
                return lambda array: pc.not_equal(array, pa.scalar(0, array.type))
            if source.root is TypeRoot.DECIMAL:
                return lambda array: pc.not_equal(array, pa.scalar(Decimal(0), array.type))
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT:
            return _to_whole(source, target, is_try)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _to_floating(source, target, is_try)
        case TypeRoot.DECIMAL:
            return _to_decimal(source, target, is_try)
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _to_time(source, target, context, is_try)
        case TypeRoot.INTERVAL_DAY_TIME | TypeRoot.INTERVAL_YEAR_MONTH:
            if source.root in (*_WHOLE, target.root):
                return lambda array: from_numpy(longs(array), wanted, null_mask(array))
        case TypeRoot.ARRAY | TypeRoot.MAP | TypeRoot.ROW | TypeRoot.MULTISET:
            return _to_nested(source, target, context, is_try)
    return None


def _reading(parse: Callable[[str], Any], target: LogicalType, is_try: bool) -> Cast:
    """Returns a cast that parses texts, each distinct one once."""
    wanted, name = arrow_type(target), str(target.with_nullable(True))

    def read(text: str) -> Any:
        found = parse(text)
        if found is None and not is_try:
            raise EvaluationError(f"CAST: {text!r} cannot be read as {name}; use TRY_CAST to have null instead")
        return found

    return lambda array: distinct(array, read, wanted)


def _to_text(source: LogicalType, target: LogicalType, context: EvaluationContext) -> Cast | None:
    fit_length = _text_length(target)
    if source.root in _TEXT:
        return fit_length
    if source.root in _WHOLE:
        return lambda array: fit_length(array.cast(pa.string()))
    write = formatter(source, context.time_zone)

    def convert(array: pa.Array) -> pa.Array:
        if pa.types.is_nested(array.type):
            texts = [None if value is None else write(value) for value in python_values(array)]
            return fit_length(pa.array(texts, pa.string()))
        return fit_length(distinct(array, write, pa.string()))

    return convert


def _text_length(target: LogicalType) -> Cast:
    length = target.length or 2147483647
    is_padded = target.root is TypeRoot.CHAR
    if length == 2147483647:
        return lambda array: array

    def convert(array: pa.Array) -> pa.Array:
        array = pc.utf8_slice_codeunits(array, 0, length)
        return pc.utf8_rpad(array, length, " ") if is_padded else array

    return convert


def _to_bytes(source: LogicalType, target: LogicalType) -> Cast | None:
    length = 2147483647 if target.length is None else target.length
    if source.root not in (*_TEXT, *_BYTES):
        return None
    is_padded = target.root is TypeRoot.BINARY

    def convert(array: pa.Array) -> pa.Array:
        array = array.cast(pa.binary())
        if length == 2147483647:
            return array
        array = pc.binary_slice(array, 0, length)
        if is_padded and pc.any(pc.less(pc.binary_length(array), length)).as_py():
            padded = [None if value is None else value.ljust(length, b"\0") for value in array.to_pylist()]
            return pa.array(padded, pa.binary())
        return array

    return convert


def _to_whole(source: LogicalType, target: LogicalType, is_try: bool) -> Cast | None:
    wanted, bits = arrow_type(target), _WHOLE[target.root]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if source.root in _TEXT:
        return _reading(lambda text: parse_whole(text, low, high), target, is_try)
    if source.root is TypeRoot.BOOLEAN:
        return lambda array: array.cast(wanted)
    if source.root in _WHOLE:
        if _WHOLE[source.root] <= bits:
            return lambda array: array.cast(wanted)
        return lambda array: array.cast(wanted, safe=False)
    if source.root in _FLOATS:
        return lambda array: from_numpy(saturate(to_numpy(array), 64 if bits == 64 else 32), wanted, null_mask(array))
    if source.root is TypeRoot.DECIMAL:
        return lambda array: distinct(array, lambda value: _wrap(int(value), bits), wanted)
    if source.root in _INTERVALS:
        return lambda array: from_numpy(longs(array), wanted, null_mask(array))
    return None


def _wrap(value: int, bits: int) -> int:
    """Returns the low bits of the low 64, as ``BigDecimal.longValue`` and a narrowing cast do."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def saturate(values: Any, bits: int) -> Any:
    """Casts floats to 32 or 64-bit integers as Java does: truncated, limited to the range, 0 for NaN."""
    values = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    edge = float(1 << (bits - 1))
    inside = (values >= -edge) & (values < edge)
    whole = np.where(inside, values, 0.0).astype(np.int64)
    return np.where(inside, whole, np.where(values < 0, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)).astype(np.int64)


def _to_floating(source: LogicalType, target: LogicalType, is_try: bool) -> Cast | None:
    wanted = arrow_type(target)
    if source.root in _TEXT:

        def parse(text: str) -> float | None:
            value = parse_double(text)
            return None if value is None else narrow(value) if target.root is TypeRoot.FLOAT else value

        return _reading(parse, target, is_try)
    if source.root is TypeRoot.DECIMAL:
        return lambda array: doubles(array).cast(wanted, safe=False)
    if source.root is TypeRoot.BOOLEAN:
        return lambda array: array.cast(pa.int8()).cast(wanted)
    if source.root in (*_WHOLE, *_FLOATS):
        return lambda array: array.cast(wanted, safe=False)
    return None


def doubles(array: pa.Array) -> pa.Array:
    """Returns decimals as DOUBLE. Up to 18 digits that is the unscaled number divided by a power of ten, as in ``DecimalDataUtils.doubleValue``, which may be
    another one than the nearest."""
    if array.type.precision > _COMPACT:
        return distinct(array, float, pa.float64())
    unscaled = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset :][: 2 * len(array) : 2]
    return from_numpy(unscaled / float(10**array.type.scale), pa.float64(), null_mask(array))


def narrow(value: float) -> float:
    """Returns the nearest 32-bit float."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _to_decimal(source: LogicalType, target: LogicalType, is_try: bool) -> Cast | None:
    wanted = arrow_type(target)
    precision, scale = target.precision or 10, target.scale or 0
    if source.root in _TEXT:
        return _reading(lambda text: parse_decimal(text, precision, scale), target, is_try)
    if source.root is TypeRoot.BOOLEAN:
        return lambda array: rescale(array.cast(pa.int8()).cast(pa.decimal128(3, 0)), wanted)
    if source.root in _WHOLE:
        digits = {8: 3, 16: 5, 32: 10, 64: 19}[_WHOLE[source.root]]
        return lambda array: rescale(array.cast(pa.decimal128(digits, 0)), wanted)
    if source.root is TypeRoot.DECIMAL:
        return lambda array: rescale(array, wanted)
    if source.root in _FLOATS:

        def convert(value: float) -> Decimal | None:
            if value != value or value in (float("inf"), float("-inf")):
                raise EvaluationError(f"CAST: {value} cannot be represented as {target}")
            return fit(EXACT.create_decimal(repr(value)), precision, scale)

        return lambda array: distinct(array, convert, wanted)
    return None


def rescale(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns decimals rounded half up to the scale of ``wanted``; null where they have too many digits for it."""
    if array.type == wanted:
        return array
    if array.type.scale > wanted.scale:
        array = widened(array)
        array = pc.round(array, ndigits=wanted.scale, round_mode="half_towards_infinity")
    whole = wanted.precision - wanted.scale
    if array.type.precision - array.type.scale >= whole:
        limit = Decimal(10) ** whole
        room = pc.less(pc.abs(array), pa.scalar(limit, pa.decimal256(whole + 1, 0)))
        array = if_else(room, array, pa.scalar(None, array.type))
    return array.cast(wanted)


def widened(array: pa.Array) -> pa.Array:
    """Returns decimals with one more digit before the point, which rounding may need."""
    precision = array.type.precision + 1
    if precision > 76:
        raise EvaluationError(f"a number of {array.type} cannot be rounded")
    return array.cast(
        pa.decimal128(precision, array.type.scale) if precision <= 38 else pa.decimal256(precision, array.type.scale)
    )


def _to_time(source: LogicalType, target: LogicalType, context: EvaluationContext, is_try: bool) -> Cast | None:
    wanted = arrow_type(target)
    zone = context.time_zone
    digits = 6 if target.precision is None else target.precision
    if source.root in _TEXT:
        return _reading(_time_reader(target, zone), target, is_try)
    if source.root is TypeRoot.DATE and target.root in _STAMPS:
        unit = UNITS_PER_SECOND[time_unit(target)]

        def from_date(array: pa.Array) -> pa.Array:
            seconds = longs(array) * 86_400
            if target.root is TypeRoot.TIMESTAMP_LTZ:
                seconds = to_instant(seconds, zone)
            return from_numpy(seconds * unit, wanted, null_mask(array))

        return from_date
    if source.root is TypeRoot.TIME and target.root is TypeRoot.TIME:
        step = 10 ** (3 - min(digits, 3)) if target.precision is not None else 1000
        return lambda array: from_numpy(longs(array) // step * step, wanted, null_mask(array))
    if source.root is TypeRoot.TIME and target.root in _STAMPS:
        unit = UNITS_PER_SECOND[time_unit(target)]

        def from_time(array: pa.Array) -> pa.Array:
            ms = longs(array)
            if target.root is TypeRoot.TIMESTAMP_LTZ:
                ms = to_instant(ms // 1000, zone) * 1000 + ms % 1000
            return from_numpy(ms * unit // 1000, wanted, null_mask(array))

        return from_time
    if source.root not in _STAMPS:
        return None
    unit = UNITS_PER_SECOND[time_unit(source)]

    def local(array: pa.Array) -> Any:
        values = longs(array)
        return values + offsets(values // unit, zone) * unit if source.root is TypeRoot.TIMESTAMP_LTZ else values

    # A moment on the session's clock is floored, a TIMESTAMP before 1970 is cut towards zero.
    divide = np.floor_divide if source.root is TypeRoot.TIMESTAMP_LTZ else truncating_divide
    if target.root is TypeRoot.DATE:
        return lambda array: from_numpy(divide(local(array), 86_400 * unit), wanted, null_mask(array))
    if target.root is TypeRoot.TIME:
        step = 10 ** (3 - min(target.precision or 0, 3))

        def to_time(array: pa.Array) -> pa.Array:
            ms = divide(to_millis(local(array), unit), step) * step
            return from_numpy(ms % DAY_MS, wanted, null_mask(array))

        return to_time
    result = UNITS_PER_SECOND[time_unit(target)]
    step = result // 10 ** min(digits, len(str(result)) - 1)

    def to_stamp(array: pa.Array) -> pa.Array:
        values = longs(array)
        if source.root is not target.root:
            seconds = values // unit
            shift = (
                offsets(seconds, zone) if source.root is TypeRoot.TIMESTAMP_LTZ else to_instant(seconds, zone) - seconds
            )
            values = values + shift * unit
        if result >= unit:
            values = values * (result // unit)
        else:
            values = values // (unit // result)
        if step > 1:
            values = truncating_divide(values, step) * step
        return from_numpy(values, wanted, null_mask(array))

    return to_stamp


def _time_reader(target: LogicalType, zone: str) -> Callable[[str], int | None]:
    match target.root:
        case TypeRoot.DATE:
            return parse_date
        case TypeRoot.TIME:
            step = 10 ** (3 - min(target.precision or 0, 3))

            def read_time(text: str) -> int | None:
                ms = parse_time_ms(text)
                return None if ms is None else ms // step * step

            return read_time
    per_unit = 1_000_000_000 // UNITS_PER_SECOND[time_unit(target)]
    digits = 6 if target.precision is None else target.precision
    step = 10 ** (9 - digits)

    def read(text: str) -> int | None:
        nanos = parse_timestamp(text)
        if nanos is None:
            return None
        nanos = nanos // step * step
        if target.root is TypeRoot.TIMESTAMP_LTZ:
            seconds = nanos // 1_000_000_000
            nanos += (int(to_instant(np.array([seconds]), zone)[0]) - seconds) * 1_000_000_000
        return int(nanos // per_unit)

    return read


def _to_nested(source: LogicalType, target: LogicalType, context: EvaluationContext, is_try: bool) -> Cast | None:
    if source.root is not target.root:
        return None
    wanted = arrow_type(target)
    parts = _parts(source), _parts(target)
    if len(parts[0]) != len(parts[1]):
        return None
    casts: list[Cast] = []
    for one, other in zip(*parts, strict=True):
        if one.with_nullable(True) == other.with_nullable(True):
            casts.append(lambda array: array)
            continue
        found = _caster(one, other, context, is_try)
        if found is None:
            return None
        casts.append(found)
    if source.root is TypeRoot.ROW:
        return lambda array: pa.StructArray.from_arrays(
            [cast(array.field(index).slice(0, len(array))) for index, cast in enumerate(casts)],
            fields=list(wanted),
            mask=array.is_null(),
        )
    if source.root is TypeRoot.ARRAY:
        return lambda array: list_array(list_offsets(array), casts[0](array.flatten()), array.is_null())

    def to_map(array: pa.Array) -> pa.Array:
        entries = pc.list_flatten(
            array.cast(pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)])))
        )
        keys, items = casts[0](pc.struct_field(entries, 0)), casts[1](pc.struct_field(entries, 1))
        return pa.MapArray.from_arrays(list_offsets(array), keys, items, mask=array.is_null())

    return to_map


def _parts(type: LogicalType) -> list[LogicalType]:
    return [*type.children, *(field.type for field in type.fields)]


def list_offsets(array: pa.Array) -> pa.Array:
    """Returns the offsets of lists or maps into their flattened elements, 32 bits each, one more than there are."""
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)])))
    lengths = to_numpy(pc.list_value_length(array))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def list_array(offsets: pa.Array, values: pa.Array, mask: pa.Array) -> pa.Array:
    """Makes lists of ``values`` between the offsets, null where ``mask`` is true."""
    return pa.ListArray.from_arrays(offsets, values, mask=mask)
