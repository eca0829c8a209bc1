"""Key dictionaries: dense codes of keys that stay the same from batch to batch, so that rows of many batches add up in one array.

    column of integers in a narrow range   code = value - low                  (no hashing at all)
    any other column                       code = place among the values seen  (one hash a row, one more a distinct value)
    several columns                        mixed radix of their codes; a radix is a power of two, with room to grow

A dictionary is for keys that repeat: where the radices' product would pass ``MAX_CODES`` there is none. NaN is one key,
0.0 and -0.0 are two; null is a key of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.codes import Codes, as_numpy, integer_view, normalise_floats, range_decoder
from tidegate.columnar.numpy_column import NumpyColumn

MAX_CODES = 1 << 17
_MAX_RANGE = 1 << 15
"""The widest range of integers that is encoded without a look-up."""


class KeyDictionary:
    """Encodes keys to codes below ``cardinality`` that stay the same from batch to batch."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self._columns = list(columns)
        self.cardinality = 1
        for column in self._columns:
            self.cardinality *= column.capacity

    @staticmethod
    def of(columns: Sequence[pa.Array]) -> KeyDictionary | None:
        """Creates a dictionary with space for keys like these; ``None`` when they are too many, or of types that cannot be looked up."""
        return _dictionary([_column_of(column) for column in columns])

    def grown(self, columns: Sequence[pa.Array]) -> KeyDictionary | None:
        """Returns a larger dictionary with space for the keys in ``columns`` too, in which keys have new codes; ``None`` when it would be too large."""
        return _dictionary([mine.grown(column) for mine, column in zip(self._columns, columns, strict=True)])

    def encode(self, columns: Sequence[pa.Array]) -> Codes | None:
        """Returns the codes of the rows; ``None`` when there is no space for all of them."""
        codes: Codes | None = None
        for mine, column in zip(self._columns, columns, strict=True):
            digits = mine.encode(column)
            if digits is None:
                return None
            codes = digits if codes is None else codes * mine.capacity + digits
        return codes

    def decode(self, wanted: Codes) -> list[pa.Array]:
        """Returns the key columns of some codes."""
        found: list[pa.Array] = []
        rest: NumpyColumn = wanted
        for mine in reversed(self._columns):
            rest, digits = np.divmod(rest, mine.capacity)
            found.append(mine.decode(digits))
        return found[::-1]


class _Column(Protocol):
    capacity: int

    def encode(self, column: pa.Array) -> Codes | None: ...

    def grown(self, column: pa.Array) -> _Column | None: ...

    def decode(self, wanted: Codes) -> pa.Array: ...


class _Range:
    def __init__(self, low: int, high: int, integers: pa.DataType, kind: pa.DataType) -> None:
        """Creates it for a range of integers. ``integers``: the integer type in which ``kind`` is stored."""
        spread = high - low + 1
        self.capacity = _power_of_two(spread)
        self._low = max(0, low - (self.capacity - spread) // 2) if low >= 0 else low - (self.capacity - spread) // 2
        self._integers = integers
        self._decode = range_decoder(self._low, integers, kind)

    def encode(self, column: pa.Array) -> Codes | None:
        values = _narrow_integers(column)
        if values is None:
            return None
        low, high = int(values.min()), int(values.max())
        if low < self._low or high >= self._low + self.capacity:
            return None
        return values.astype(np.intp, copy=False) - self._low

    def grown(self, column: pa.Array) -> _Column | None:
        values = _narrow_integers(column)
        low, high = self._low, self._low + self.capacity - 1
        if values is not None and len(values):
            low, high = min(low, int(values.min())), max(high, int(values.max()))
        if values is None or high - low >= _MAX_RANGE:  # what the range held is seen again, or is gone
            return _Values.with_room_for(None, column)
        return _Range(low, high, self._integers, column.type)

    def decode(self, wanted: Codes) -> pa.Array:
        return self._decode(wanted)


class _Values:
    def __init__(self, known: pa.Array, capacity: int) -> None:
        self.capacity = capacity
        self._known = known

    @staticmethod
    def with_room_for(known: pa.Array | None, column: pa.Array) -> _Values | None:
        try:
            distinct = pc.unique(_plain(column))
            if known is not None:
                distinct = pc.unique(pa.concat_arrays([known, distinct]))
            pc.index_in(distinct.slice(0, 1), value_set=distinct.slice(0, 1))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return None
        return _Values(distinct, _power_of_two(len(distinct) + len(distinct) // 4))

    def encode(self, column: pa.Array) -> Codes | None:
        encoded = _plain(column).dictionary_encode(null_encoding="encode")
        found = pc.index_in(encoded.dictionary, value_set=self._known)
        if found.null_count:
            new = encoded.dictionary.filter(found.is_null())
            if len(self._known) + len(new) > self.capacity:
                return None
            self._known = pa.concat_arrays([self._known, new])
            found = pc.index_in(encoded.dictionary, value_set=self._known)
        places = as_numpy(found).astype(np.intp, copy=False)
        codes: Codes = places[as_numpy(encoded.indices)]
        return codes

    def grown(self, column: pa.Array) -> _Column | None:
        return _Values.with_room_for(self._known, column)

    def decode(self, wanted: Codes) -> pa.Array:
        return self._known.take(pa.array(wanted))


def _dictionary(columns: Sequence[_Column | None]) -> KeyDictionary | None:
    dictionary = None if not columns else KeyDictionary([column for column in columns if column is not None])
    if dictionary is None or any(column is None for column in columns) or dictionary.cardinality > MAX_CODES:
        return None
    return dictionary


def _column_of(column: pa.Array) -> _Column | None:
    values = _narrow_integers(column)
    if values is None:
        return _Values.with_room_for(None, column)
    integers = integer_view(column)
    assert integers is not None
    return _Range(int(values.min()), int(values.max()), integers.type, column.type)


def _narrow_integers(column: pa.Array) -> NumpyColumn | None:
    if pa.types.is_dictionary(column.type) or column.null_count or not len(column):
        return None
    integers = integer_view(column)
    if integers is None or integers.type == pa.uint64():
        return None
    values = as_numpy(integers)
    low, high = int(values.min()), int(values.max())
    return values if high - low < _MAX_RANGE and low > -(2**62) and high < 2**62 else None


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return normalise_floats(column) if pa.types.is_floating(column.type) else column


def _power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
