"""Conversion between values of rows inside operators (``tidegate.functions.sql.rows``) and arguments of users' functions: whole numbers become
``datetime`` objects, rows ``Row``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.common.row import Row, make_row
from tidegate.functions.sql.rows import values_of
from tidegate.functions.sql.scalar import arrow_type
from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._execution.python_functions import array_of
from tidegate.table._execution.rows import column_values
from tidegate.table._execution.user_functions import TypedUserCode

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_PARTS_IN_MICROSECONDS = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Factor and divisor that convert a time unit to microseconds."""
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_AS_THEY_ARE: dict[TypeRoot, frozenset[type]] = {
    TypeRoot.BOOLEAN: frozenset({bool}),
    TypeRoot.DOUBLE: frozenset({float}),
    TypeRoot.VARCHAR: frozenset({str}),
    TypeRoot.VARBINARY: frozenset({bytes}),
}
"""Classes of results that are stored in rows unchanged, by SQL type."""
_SAME = frozenset(
    {
        TypeRoot.BOOLEAN, *_BITS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL, TypeRoot.CHAR, TypeRoot.VARCHAR,
        TypeRoot.BINARY, TypeRoot.VARBINARY,
    }
)  # fmt: skip


def to_python(type: LogicalType) -> Callable[[Any], Any] | None:
    """Returns the function that converts a non-null value of a row to an argument; ``None``: no conversion is needed."""
    if type.root in _SAME:
        return None
    match type.root:
        case TypeRoot.DATE:
            return lambda value: datetime.date.fromordinal(_EPOCH_DAY + value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            factor, divisor = _PARTS_IN_MICROSECONDS[time_unit(type)]
            epoch = _EPOCH if type.root is TypeRoot.TIMESTAMP else _EPOCH_UTC
            return lambda value: epoch + datetime.timedelta(microseconds=value * factor // divisor)
        case TypeRoot.ARRAY:
            part = to_python(type.element)
            return lambda value: (
                [None if one is None or part is None else part(one) for one in value] if part else list(value)
            )
        case TypeRoot.MAP:
            key, held = (to_python(child) or _same for child in type.children)
            return lambda value: {key(k): None if v is None else held(v) for k, v in value}
        case TypeRoot.ROW:
            parts = [to_python(field.type) or _same for field in type.fields]
            return lambda value: Row(
                *(None if one is None else made(one) for made, one in zip(parts, value, strict=True))
            )
        case _:
            stored = arrow_type(type)
            return lambda value: column_values(_column([value], stored), type)[0]


def arguments_maker(
    types: Sequence[LogicalType], of_row: list[str] | None
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Returns the function that makes the arguments of a call. ``of_row``: one argument, a ``Row`` with fields of these names."""
    makers = [(index, made) for index, type in enumerate(types) if (made := to_python(type)) is not None]

    def make(values: Sequence[Any]) -> tuple[Any, ...]:
        if not makers:
            return tuple(values) if of_row is None else (make_row(of_row, tuple(values)),)
        found = list(values)
        for index, made in makers:
            if found[index] is not None:
                found[index] = made(found[index])
        return tuple(found) if of_row is None else (make_row(of_row, found),)

    return make


def result_maker(wrapper: TypedUserCode, type: LogicalType) -> Callable[[Any], Any]:
    """Returns the function that converts a result to a value of a row; it raises ``SchemaMismatch``, which names the user's function, for one that is
    not of ``type``."""
    bits, classes, nullable = _BITS.get(type.root), _AS_THEY_ARE.get(type.root, frozenset()), type.nullable
    least, beyond = (0, 0) if bits is None else (-(1 << (bits - 1)), 1 << (bits - 1))

    def make(value: Any) -> Any:
        kind = value.__class__
        if kind in classes or (kind is int and least <= value < beyond) or (value is None and nullable):
            return value
        return values_of(array_of(wrapper, [value], type))[0]

    return make


def _column(values: list[Any], type: pa.DataType) -> pa.Array:
    stored = pa.int32() if type.bit_width == 32 else pa.int64()
    return pa.array(values, stored).view(type)


def _same(value: Any) -> Any:
    return value
