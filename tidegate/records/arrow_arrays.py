"""Builds short Arrow columns without pandas, which ``pyarrow.array`` imports first: that takes a second when a small program starts.

Where pandas is loaded, for longer ones, and for other values than whole columns of ``int``, ``float``, ``str`` or ``bytes``, it is ``pyarrow.array``.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from tidegate.model.values import FieldValue

SHORT_ROWS = 10_000
"""The most rows of a column that is built here. Measured: so many texts take 2 ms, six times as long as in Arrow, and the import of pandas 600 times that."""


def arrow_array(values: Sequence[FieldValue], kind: pa.DataType | None = None) -> pa.Array:
    """Builds an Arrow array, with the result and the errors of ``pyarrow.array(values, kind)``."""
    if len(values) <= SHORT_ROWS and "pandas" not in sys.modules:
        found = _plain_column(values)
        if found is not None and kind in (None, found.type):
            return found
    return pa.array(values, kind)


def _plain_column(values: Sequence[FieldValue]) -> pa.Array | None:
    """Builds an Arrow array of ``int``, ``float``, ``str`` or ``bytes`` faster than Arrow itself.

    Returns ``None`` for values that have to be left to Arrow: no values, nulls, mixed types, numbers of more than 64 bits, lone surrogates.
    """
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    try:
        if kind is int:
            return _numbers(pa.int64(), array("q", values))
        if kind is float:
            return _numbers(pa.float64(), array("d", values))
        if kind is str:
            return _texts(pa.string(), [value.encode() for value in values])
        return _texts(pa.binary(), values) if kind is bytes else None
    except (OverflowError, UnicodeEncodeError):
        return None


def _numbers(kind: pa.DataType, numbers: array[int] | array[float]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _texts(kind: pa.DataType, values: Sequence[bytes]) -> pa.Array:
    ends = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])
