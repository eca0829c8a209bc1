"""Decides which Arrow types hold every value of another type exactly, and casts columns to them. ``schema_evolution`` handles nested types."""

from __future__ import annotations

import pyarrow as pa

_MANTISSA = {16: 11, 32: 24, 64: 53}
"""The bits of an integer that a float of each width represents exactly."""
_UNITS = ("s", "ms", "us")
"""Units of timestamps, from coarse to fine. Nanoseconds are absent, since they end in the year 2262."""


def is_widening(old: pa.DataType, new: pa.DataType) -> bool:
    """Tells whether ``new`` represents each value of ``old`` exactly. False for equal types."""
    if pa.types.is_integer(old) and pa.types.is_integer(new):
        return _integer_fits(old, new)
    if pa.types.is_integer(old) and pa.types.is_floating(new):
        return bool(_digits(old) < _MANTISSA[new.bit_width])
    if pa.types.is_floating(old) and pa.types.is_floating(new):
        return bool(old.bit_width < new.bit_width)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        more = new.scale - old.scale
        return bool(more >= 0 and new.precision - old.precision >= more and new.bit_width >= old.bit_width)
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new):
        return bool(old.tz == new.tz and old.unit in _UNITS and new.unit in _UNITS[_UNITS.index(old.unit) + 1 :])
    return bool(
        (pa.types.is_string(old) and pa.types.is_large_string(new))
        or (pa.types.is_binary(old) and pa.types.is_large_binary(new))
    )


def widened(column: pa.Array, new: pa.DataType) -> pa.Array:
    """Casts a column to a wider type, which ``is_widening`` has approved."""
    return column.cast(new)


def _integer_fits(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_signed_integer(old) and pa.types.is_unsigned_integer(new):
        return False
    return _digits(old) < _digits(new)


def _digits(kind: pa.DataType) -> int:
    """Returns the bits of an integer type without the sign."""
    return int(kind.bit_width) - int(pa.types.is_signed_integer(kind))
