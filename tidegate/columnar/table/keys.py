"""Key columns by slot, which are compared, hashed and returned for whole batches of slots.

Numbers, instants and booleans are kept in their own width; texts and bytes as (start, length) in one array of bytes. NaN is
one key, 0.0 and -0.0 are two; null is a key of its own. Arrays are reserved for all slots there can ever be: only what
is touched becomes memory, and nothing is moved when the state grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.keys.mixing import GOLDEN, splitmix64
from tidegate.columnar.table.fixed_width import (
    Nulls,
    Numbers,
    is_fixed_width,
    numpy_type,
    to_column,
    to_numbers,
)
from tidegate.columnar.table.index import Hashes, Places, Slots
from tidegate.columnar.table.reserved import Reserved
from tidegate.model.errors import SchemaMismatch

_NULL_HASH = np.uint64(0x5851F42D4C957F2D)
_BYTES_FOR_EACH_SLOT = 32
"""The address space reserved for texts per slot, in bytes; it is extended by copying when that is not enough."""

_Prepared: TypeAlias = Any
"""A column of a batch in the form of a key column, which alone reads it."""


class RowKeys:
    """All key columns of a table. ``prepare`` the columns of a batch once, then use its rows."""

    def __init__(self, fields: Sequence[pa.Field], capacity: int, operator: str, reserved: Reserved) -> None:
        self._columns = [_column_of(field, capacity, operator, reserved) for field in fields]

    def ensure(self, slots: int) -> None:
        """Makes the first ``slots`` usable. Raises ``StorageError``."""
        for mine in self._columns:
            mine.ensure(slots)

    def prepare(self, columns: Sequence[pa.Array]) -> list[_Prepared]:
        """Converts key columns, one row for each key, to the form that ``hashes``, ``same`` and ``put`` take."""
        return [mine.prepare(column) for mine, column in zip(self._columns, columns, strict=True)]

    def hashes(self, prepared: Sequence[_Prepared]) -> Hashes:
        """Returns a hash of each row's key."""
        return _combined([mine.hashes(part) for mine, part in zip(self._columns, prepared, strict=True)])

    def same(self, prepared: Sequence[_Prepared], rows: Places, slots: Slots) -> npt.NDArray[np.bool_]:
        """Returns for each i whether row ``rows[i]`` has the key of slot ``slots[i]``."""
        found = self._columns[0].same(prepared[0], rows, slots)
        for mine, part in zip(self._columns[1:], prepared[1:], strict=True):
            found &= mine.same(part, rows, slots)
        return found

    def put(self, prepared: Sequence[_Prepared], rows: Places, slots: Slots) -> None:
        """Stores the key of row ``rows[i]`` in slot ``slots[i]``."""
        for mine, part in zip(self._columns, prepared, strict=True):
            mine.put(part, rows, slots)

    def hashes_of(self, slots: Slots) -> Hashes:
        """Returns the hash of each slot's key, as ``hashes`` gives it."""
        return _combined([mine.hashes_of(slots) for mine in self._columns])

    def take(self, slots: Slots) -> list[pa.Array]:
        """Returns the keys of slots. Thread-safe for slots that existed when the thread got them."""
        return [mine.take(slots) for mine in self._columns]


class _KeyColumn(Protocol):
    def ensure(self, slots: int) -> None: ...

    def prepare(self, column: pa.Array) -> _Prepared: ...

    def hashes(self, prepared: _Prepared) -> Hashes: ...

    def same(self, prepared: _Prepared, rows: Places, slots: Slots) -> npt.NDArray[np.bool_]: ...

    def put(self, prepared: _Prepared, rows: Places, slots: Slots) -> None: ...

    def hashes_of(self, slots: Slots) -> Hashes: ...

    def take(self, slots: Slots) -> pa.Array: ...


class _Fixed:
    """A key column of fixed-width values, compared by their bits."""

    def __init__(self, kind: pa.DataType, capacity: int, reserved: Reserved) -> None:
        self._kind = kind
        self._type = numpy_type(kind)
        self._reserved = reserved
        self._values: Numbers = reserved.zeros(capacity, np.dtype(f"i{self._type.itemsize}"))
        self._nulls = reserved.zeros(capacity, np.dtype(np.bool_))
        self._has_nulls = False

    def ensure(self, slots: int) -> None:
        for array in (self._values, self._nulls):
            self._reserved.ensure(array, slots)

    def prepare(self, column: pa.Array) -> tuple[Numbers, Nulls | None]:
        values, nulls = to_numbers(column)
        if np.issubdtype(values.dtype, np.floating):
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        return values.view(self._values.dtype), nulls

    def hashes(self, prepared: tuple[Numbers, Nulls | None]) -> Hashes:
        values, nulls = prepared
        found = splitmix64(values.astype(np.int64, copy=False).view(np.uint64))
        if nulls is not None:
            found[nulls] = _NULL_HASH
        return found

    def same(self, prepared: tuple[Numbers, Nulls | None], rows: Places, slots: Slots) -> npt.NDArray[np.bool_]:
        values, nulls = prepared
        found: npt.NDArray[np.bool_] = self._values.take(slots) == values.take(rows)
        if self._has_nulls or nulls is not None:
            found &= self._nulls.take(slots) == (False if nulls is None else nulls.take(rows))
        return found

    def put(self, prepared: tuple[Numbers, Nulls | None], rows: Places, slots: Slots) -> None:
        values, nulls = prepared
        self._values[slots] = values.take(rows)
        if nulls is not None:
            self._has_nulls = True
            self._nulls[slots] = nulls.take(rows)
        elif self._has_nulls:
            self._nulls[slots] = False  # the slot may have been of another key

    def hashes_of(self, slots: Slots) -> Hashes:
        return self.hashes((self._values.take(slots), self._nulls.take(slots) if self._has_nulls else None))

    def take(self, slots: Slots) -> pa.Array:
        nulls = self._nulls.take(slots) if self._has_nulls else None
        return to_column(self._values.take(slots).view(self._type), self._kind, nulls)


class _Bytes:
    """A key column of texts or bytes. A length of -1 is null."""

    def __init__(self, kind: pa.DataType, capacity: int, reserved: Reserved) -> None:
        self._kind = kind
        self._reserved = reserved
        self._start = reserved.zeros(capacity, np.dtype(np.int64))
        self._length = reserved.zeros(capacity, np.dtype(np.int32))
        self._room = reserved.zeros(capacity, np.dtype(np.int32))
        """By slot: the longest text that it has had, in whose place a shorter one of another key goes."""
        self._heap = reserved.zeros(capacity * _BYTES_FOR_EACH_SLOT, np.dtype(np.uint8), _BYTES_FOR_EACH_SLOT)
        self._end = 0

    def ensure(self, slots: int) -> None:
        for array in (self._start, self._length, self._room):
            self._reserved.ensure(array, slots)

    def prepare(self, column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
        """Returns starts and lengths of the rows in an array of bytes."""
        large = column.cast(pa.large_binary())
        offsets = np.frombuffer(large.buffers()[1], np.int64, len(large) + 1, large.offset * 8)
        content = large.buffers()[2]
        heap = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        lengths = np.diff(offsets).astype(np.int32)
        if large.null_count:
            lengths[np.asarray(large.is_null())] = -1
        return offsets[:-1], lengths, heap

    def hashes(self, prepared: tuple[Numbers, Numbers, Numbers]) -> Hashes:
        starts, lengths, heap = prepared
        return _hashes_of_bytes(starts, lengths, heap)

    def same(self, prepared: tuple[Numbers, Numbers, Numbers], rows: Places, slots: Slots) -> npt.NDArray[np.bool_]:
        starts, lengths, heap = prepared
        wanted = lengths.take(rows)
        found: npt.NDArray[np.bool_] = self._length.take(slots) == wanted
        compared = np.flatnonzero(found & (wanted > 0))
        if len(compared):
            sizes = wanted[compared]
            left = self._heap.take(_ranges(self._start.take(slots[compared]), sizes))
            right = heap.take(_ranges(starts.take(rows[compared]), sizes))
            found[compared] = np.logical_and.reduceat(left == right, _firsts(sizes))
        return found

    def put(self, prepared: tuple[Numbers, Numbers, Numbers], rows: Places, slots: Slots) -> None:
        starts, lengths, heap = prepared
        sizes = lengths.take(rows)
        again = np.flatnonzero((sizes > 0) & (sizes <= self._room.take(slots)))
        if len(again):
            content = heap.take(_ranges(starts.take(rows[again]), sizes[again]))
            self._heap[_ranges(self._start.take(slots[again]), sizes[again])] = content
            self._length[slots[again]] = sizes[again]
            left = np.delete(np.arange(len(slots)), again)
            rows, slots, sizes = rows[left], slots[left], sizes[left]
        self._append(starts.take(rows), sizes, heap, slots)

    def _append(self, starts: Numbers, sizes: Numbers, heap: Numbers, slots: Slots) -> None:
        there = np.maximum(sizes, 0)
        content = heap.take(_ranges(starts, there))
        if self._end + len(content) > len(self._heap):
            size = 2 * (len(self._heap) + len(content))  # what reads the old one still finds there what it looks for
            self._heap = self._reserved.moved(self._heap, self._end, size, _BYTES_FOR_EACH_SLOT)
        self._reserved.ensure(self._heap, self._end + len(content))
        self._heap[self._end : self._end + len(content)] = content
        is_null_or_empty = there == 0
        placed = self._end + np.cumsum(there, dtype=np.int64) - there
        self._start[slots] = np.where(is_null_or_empty, self._start.take(slots), placed)
        self._room[slots] = np.maximum(self._room.take(slots), there)
        self._length[slots] = sizes
        self._end += len(content)

    def hashes_of(self, slots: Slots) -> Hashes:
        return _hashes_of_bytes(self._start.take(slots), self._length.take(slots), self._heap)

    def take(self, slots: Slots) -> pa.Array:
        lengths = self._length.take(slots)
        sizes = np.maximum(lengths, 0)
        content = self._heap.take(_ranges(self._start.take(slots), sizes))
        offsets = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        nulls = lengths < 0
        bitmap = pa.array(~nulls).buffers()[1] if nulls.any() else None
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.large_binary(), len(slots), buffers).cast(self._kind)


def _column_of(field: pa.Field, capacity: int, operator: str, reserved: Reserved) -> _KeyColumn:
    kind = field.type
    if is_fixed_width(kind):
        return _Fixed(kind, capacity, reserved)
    if any(matches(kind) for matches in _BYTE_TYPES):
        return _Bytes(kind, capacity, reserved)
    raise SchemaMismatch(
        f"operator '{operator}': the key '{field.name}' is of type {kind}; keys of an aggregate without windows are numbers, "
        "booleans, instants, texts or bytes: cast it before"
    )


_BYTE_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


def _combined(hashes: Sequence[Hashes]) -> Hashes:
    found = hashes[0]
    for more in hashes[1:]:
        found = splitmix64(found * np.uint64(31) + more)
    return found


def _firsts(sizes: Numbers) -> Numbers:
    found: Numbers = np.cumsum(sizes, dtype=np.int64) - sizes
    return found


def _ranges(starts: Numbers, sizes: Numbers) -> Numbers:
    """Returns ranges of positions one after another: ``sizes[i]`` positions from ``starts[i]``."""
    found: Numbers = np.repeat(starts - _firsts(sizes), sizes)
    found += np.arange(len(found))
    return found


def _hashes_of_bytes(starts: Numbers, lengths: Numbers, heap: Numbers) -> Hashes:
    """Hashes byte strings: a polynomial over the bytes, then mixed."""
    sizes = np.maximum(lengths, 0).astype(np.int64)
    found = lengths.astype(np.int64).view(np.uint64) * GOLDEN
    there = np.flatnonzero(sizes)
    if len(there):
        sizes = sizes[there]
        content = heap.take(_ranges(starts[there], sizes)).astype(np.uint64) + np.uint64(1)
        power = _powers(int(sizes.max()))
        places = np.arange(len(content)) - np.repeat(_firsts(sizes), sizes)
        content *= power.take(places)
        found[there] += np.add.reduceat(content, _firsts(sizes))
    return splitmix64(found)


def _powers(count: int) -> Hashes:
    found = np.full(count, 0x100000001B3, np.uint64)
    return np.multiply.accumulate(found)
