"""Numbers for the different rows of columns, without an object for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_HALF: Final = 1 << 63
"""Half of the range of 64-bit integers."""
_NARROW: Final = 1 << 16
"""So many numbers have 16 bits, which NumPy sorts by their digits: about a tenth of the time."""


def codes_of(columns: Sequence[pa.Array], rows: int) -> npt.NDArray[np.int64]:
    """Returns for each row of columns a number: equal rows have the same one. ``rows``: how many there are."""
    found, most = np.zeros(rows, np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode("encode")
        size = max(len(encoded.dictionary), 1)
        if most * size >= _HALF:
            numbers, found = np.unique(found, return_inverse=True)
            most = len(numbers)
        found = found * np.int64(size) + np.asarray(encoded.indices)
        most *= size
    return found


def number_rows(columns: Sequence[pa.Array], rows: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Numbers the different rows of columns from 0 on, in the order in which they come. Returns the first row of each, and for each row its number."""
    column = columns[0] if len(columns) == 1 else pa.array(codes_of(columns, rows))
    numbers = np.asarray(column.dictionary_encode("encode").indices).astype(np.intp)
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1)), numbers


def order_of(numbers: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """Returns the order that sorts numbers from 0 to ``count``, exclusive; equal ones stay as they come."""
    return np.argsort(numbers.astype(np.uint16) if count <= _NARROW else numbers, kind="stable")


__all__ = ["codes_of", "number_rows", "order_of"]
