"""Java's polynomial hash (factor 31) of whole columns of texts and bytes, without a loop over values.

    hash(s) = s[0]*31^(n-1) + ... + s[n-1]   (mod 2^32)

31 is odd, so it has an inverse mod 2^32. With units numbered p through all values of a run, the weight of a unit is
31^-p: one table for every value, whatever its place and length; then

    hash(value) = (sums[end] - sums[start]) * 31^(end-1)     where sums = prefix sums of unit * 31^-p

A run holds as many whole values as fit the table; a longer value is folded block by block.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.numpy_column import NumpyColumn

_Unsigned = npt.NDArray[np.uint32]
_Offsets = npt.NDArray[np.int64]
_RUN = 1 << 15
"""How many units a run has: the tables and intermediate results stay in the second-level cache."""
_INVERSE_OF_31 = pow(31, -1, 2**32)


def _powers(base: int) -> _Unsigned:
    table = np.full(_RUN + 1, base, np.uint32)
    table[0] = 1
    return np.multiply.accumulate(table, dtype=np.uint32)


_POWERS = _powers(31)
_INVERSES = _powers(_INVERSE_OF_31)[:_RUN]


def hash_text(column: pa.LargeStringArray) -> _Unsigned:
    """Returns ``String.hashCode`` of each value (UTF-16 units)."""
    offsets, data = _offsets_and_data(column)
    hashes = np.zeros(len(column), np.uint32)
    for first, last in _runs(offsets):
        units: NumpyColumn = data[offsets[first] : offsets[last]]
        local = offsets[first : last + 1] - offsets[first]
        if len(units) and int(units.max()) >= 0x80:
            units, local = _utf16(units, local)
        _hash_run(units, local, hashes[first:last])
    return hashes


def hash_binary(column: pa.LargeBinaryArray) -> _Unsigned:
    """Returns ``Arrays.hashCode(byte[])`` of each value."""
    offsets, data = _offsets_and_data(column)
    hashes = np.zeros(len(column), np.uint32)
    for first, last in _runs(offsets):
        units = data[offsets[first] : offsets[last]].view(np.int8)
        _hash_run(units, offsets[first : last + 1] - offsets[first], hashes[first:last])
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) <= _RUN:
        return hashes + _POWERS[lengths]
    return hashes + np.array([pow(31, int(length), 2**32) for length in lengths], np.uint32)


def _offsets_and_data(column: pa.Array) -> tuple[_Offsets, npt.NDArray[np.uint8]]:
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(column) + 1, column.offset * 8)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets, data


def _runs(offsets: _Offsets) -> list[tuple[int, int]]:
    """Splits values into runs [first, last) of at most ``_RUN`` bytes, or of one longer value."""
    runs, first, count = [], 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + _RUN, side="right")) - 1
        last = min(max(last, first + 1), count)
        runs.append((first, last))
        first = last
    return runs


def _hash_run(units: NumpyColumn, offsets: _Offsets, out: _Unsigned) -> None:
    if len(units) > _RUN:
        assert len(out) == 1, "a run longer than the table is one value"
        out[0] = _hash_long(units)
        return
    sums = np.zeros(len(units) + 1, np.uint32)
    weighted = np.multiply(units.astype(np.uint32), _INVERSES[: len(units)])
    np.cumsum(weighted, dtype=np.uint32, out=sums[1:])
    at_offsets = sums.take(offsets)
    np.subtract(at_offsets[1:], at_offsets[:-1], out=out)
    np.multiply(out, _POWERS.take(offsets[1:] - 1, mode="clip"), out=out)  # an empty value at 0 has hash 0 anyway


def _hash_long(units: NumpyColumn) -> int:
    code, one = 0, np.empty(1, np.uint32)
    for start in range(0, len(units), _RUN):
        block = units[start : start + _RUN]
        _hash_run(block, np.array([0, len(block)], np.int64), one)
        code = (code * int(_POWERS[len(block)]) + int(one[0])) & 0xFFFFFFFF
    return code


def _utf16(data: npt.NDArray[np.uint8], offsets: _Offsets) -> tuple[npt.NDArray[np.uint16], _Offsets]:
    """Converts UTF-8 bytes to UTF-16 units, with offsets in units."""
    units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16)
    lengths = np.where((data & 0xC0) == 0x80, 0, np.where(data >= 0xF0, 2, 1))  # units that begin at each byte
    ends = np.zeros(len(data) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return units, ends.take(offsets)
