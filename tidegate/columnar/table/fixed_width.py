"""Conversion between fixed-width columns and NumPy arrays, without copying where Arrow's layout allows it.

column ─▶ (numbers, nulls or None) ─▶ column          booleans are bytes, instants and dates integers of their width
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.numpy_column import NumpyColumn, NumpyType

Numbers = NumpyColumn
Nulls = npt.NDArray[np.bool_]


def is_fixed_width(kind: pa.DataType) -> bool:
    """Returns whether all values take the same number of bytes: numbers, booleans, times except intervals."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return is_number or (types.is_temporal(kind) and not types.is_interval(kind))


def numpy_type(kind: pa.DataType) -> NumpyType:
    """Returns the dtype as which a column of this type is stored."""
    if pa.types.is_boolean(kind):
        return np.dtype(np.bool_)
    if pa.types.is_temporal(kind):
        return np.dtype(f"i{kind.bit_width // 8}")
    found: NumpyType = np.dtype(kind.to_pandas_dtype())
    return found


def to_numbers(column: pa.Array) -> tuple[Numbers, Nulls | None]:
    """Returns the values, zero where they are null, and a mask of nulls. Must not be written to."""
    nulls = np.asarray(column.is_null()) if column.null_count else None
    kind = column.type
    if pa.types.is_boolean(kind):
        values: Numbers = np.asarray(column.fill_null(False))
        return values, nulls
    buffer, dtype = column.buffers()[1], numpy_type(kind)
    if buffer is None:
        return np.zeros(len(column), dtype), nulls
    values = np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize)
    return (values if nulls is None else np.where(nulls, dtype.type(0), values)), nulls


def to_column(values: Numbers, kind: pa.DataType, nulls: Nulls | None = None) -> pa.Array:
    """Converts numbers and a mask of nulls to a column. ``values`` must not be changed afterwards."""
    if nulls is not None and not nulls.any():
        nulls = None
    if pa.types.is_boolean(kind):
        return pa.array(values, kind, mask=nulls)
    bitmap = None if nulls is None else pa.array(~nulls).buffers()[1]
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [bitmap, buffer])
