"""Rows of restored files that are not in RocksDB yet: found one by one, or read by key group.

    find(group, entry) ─▶ the newest level that knows the entry ─▶ its value     binary search over the group's rows
    entries(group)     ─▶ every entry that is there, with its value              level by level, the newest first
    chunks(group)      ─▶ the same, some thousand at a time, as rows of the database where an entry is one row
    in_order(group)    ─▶ the same, in the order of the entries' bytes

The rows of a key group are in the order of RocksDB, that of the bytes of ``entry`` (``keys``). A pickled key may have other bytes in another version of its
class, so entries with such keys are not found by binary search, and their order is checked before it is used.

Immutable: used by the subtask's thread and by that of its snapshots.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from tidegate.functions.windows import CountWindow, TimeWindow
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.model.values import Key, StateValue
from tidegate.records.canonical.forms import canonical_key, value_of
from tidegate.records.pickling import loads
from tidegate.records.record_codec import decode_column
from tidegate.records.schema_evolution import TTL_COLUMN
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.heap.entries import (
    KEY,
    NAMESPACE,
    VALUE,
    WINDOW_END,
    WINDOW_ID,
    WINDOW_START,
    EntryFormat,
    from_columns,
    removed_entries,
    values_in,
)
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair
from tidegate.taskmanager.keyed_state.rocksdb.keys import PREFIX_BYTES, encode_key, place, time_bytes
from tidegate.taskmanager.keyed_state.rocksdb.rows_of_columns import contents_of, starts_of
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.values import STAMP_BYTES
from tidegate.taskmanager.keyed_state.ttl import stamped
from tidegate.taskmanager.state.files.partial_segment import PartialSegment
from tidegate.taskmanager.state.files.segments import DELETED, KEY_GROUP, PICKLED
from tidegate.taskmanager.state.restoring.files import RestoredFiles, read_slice, slices

STEP_ROWS: Final = 1024
"""Rows that are decoded at once, which takes some milliseconds."""
_PACKED_ROWS: Final = 4096
"""Rows that are converted to rows of the database at once, which takes a fifth of the time of decoding for each."""
GONE: Final = object()
"""The result for an entry that a level removes."""
_UNKNOWN: Final = object()
"""The result for an entry that a level does not contain."""
_PLAIN = frozenset({int, str, type(None), TimeWindow, CountWindow, bool, float, bytes})
_START: Callable[[tuple[bytes, StateValue]], bytes] = itemgetter(0)


def can_be_searched(entry: Entry) -> bool:
    """Tells whether the bytes of an entry are the same in every version of all classes."""
    return _is_plain(value_of(entry[0])) and _is_plain(entry[1])


def _is_plain(key: Key) -> bool:
    kind = key.__class__
    return kind in _PLAIN or (kind is tuple and all(map(_is_plain, key)))


def can_be_left(layout: EntryFormat, part: PartialSegment) -> bool:
    """Tells whether the rows of a file may stay there: they are in order, and exactly as they would be written now."""
    return (
        bool(part.about.get("ordered"))
        and layout.has_columns(part.schema)
        and part.about.get("kind", layout.kind) == layout.kind
        and NAMESPACE not in part.schema.names
    )


class RestoredRows:
    """The restored files of one state. ``now_ms``: the time of state that was written without a time."""

    def __init__(self, layout: EntryFormat, state_id: int, parts: Sequence[PartialSegment], now_ms: int) -> None:
        self.files = RestoredFiles(parts)
        self._by_part = {id(part): _File(layout, state_id, part, now_ms) for part in parts}
        self._by_group: dict[int, list[_File]] = {}
        kind = layout.key_type.arrow_field(KEY).type
        self.is_always_in_order = pa.types.is_integer(kind) or pa.types.is_string(kind)
        """Whether rows are in the order of their bytes whatever wrote them."""

    @property
    def namespaces(self) -> set[int]:
        """The forms of the namespaces in the files."""
        return {file.namespace for file in self._by_part.values()}

    def find(self, group: int, entry: bytes) -> StateValue:
        """Returns the value of an entry; ``None`` if there is none. ``entry``: as in the database, one that ``can_be_searched``. Raises ``CorruptData``,
        ``StorageError``.
        """
        wanted = entry[PREFIX_BYTES:]
        for file in self._of(group):
            found = file.find(group, wanted)
            if found is not _UNKNOWN:
                return None if found is GONE else found
        return None

    def entries(self, group: int) -> Iterator[tuple[bytes, StateValue]]:
        """Yields the present entries of a key group, each once. Raises ``CorruptData``, ``StorageError``."""
        files = self._of(group)
        newer: set[bytes] = set()
        for file in files:
            is_last = file is files[-1]
            for start, value in file.rows(group):
                if start not in newer:
                    if not is_last:
                        newer.add(start)
                    if value is not GONE:
                        yield start, value

    def chunks(self, group: int, rows: StateRows) -> Iterator[list[Pair]]:
        """Yields the entries of a key group as rows of the database, some at a time. Only for state with one row for each entry."""
        files = self._of(group)
        newer: set[bytes] = set()
        for file in files:
            for starts, contents in file.packed(group, rows):
                pairs = zip(starts, contents, strict=True)
                yield [(start, content) for start, content in pairs if content is not None and start not in newer]
                if file is not files[-1]:
                    newer.update(starts)

    def in_order(self, group: int, step: int = 0) -> Iterator[tuple[bytes, StateValue]]:
        """Yields the entries of a key group in the order of their bytes. ``step``: rows of a file that are decoded at once; 0: the default."""
        files = self._of(group)
        if not self.is_always_in_order and not all(file.is_in_order(group) for file in files):
            yield from sorted(self.entries(group), key=_START)
            return
        last = b""
        for start, value in heapq.merge(*(file.rows(group, step) for file in files), key=_START):
            if start < last:
                raise CorruptData(f"{files[0].part.name}: the rows of key group {group} are not in order; {ON_DAMAGE}")
            if start != last:  # the newest level comes first
                last = start
                if value is not GONE:
                    yield start, value

    def _of(self, group: int) -> list[_File]:
        """Returns the files of a key group, newest level first."""
        found = self._by_group.get(group)
        if found is None:
            found = self._by_group[group] = [self._by_part[id(part)] for part in reversed(self.files.of(group))]
        return found


class _File:
    """One segment as entries."""

    def __init__(self, layout: EntryFormat, state_id: int, part: PartialSegment, now_ms: int) -> None:
        names = part.schema.names
        self.part = part
        self.namespace = ord("w" if WINDOW_START in names else "c" if WINDOW_ID in names else "n")
        self._layout = layout
        self._is_timers = layout.value_type is None
        self._state_id = state_id
        self._now_ms = now_ms
        self.has_deleted = DELETED in names
        field = part.schema.field(KEY)
        self._is_pickled = (field.metadata or {}).items() >= PICKLED.items()
        self._has_numbers = field.type == pa.int64() and self.namespace == ord("n")
        self._heads: dict[int, bytes] = {}
        """The first entry of a batch by index, for batches that begin with the same key group as the row before."""

    def find(self, group: int, wanted: bytes) -> StateValue:
        first, end = self.part.rows_of(group)
        if first == end:
            return _UNKNOWN
        size = self.part.batch_rows
        batch, last = first // size, (end - 1) // size
        while batch < last:
            middle = (batch + last + 1) // 2
            if self._head(middle) <= wanted:
                batch = middle
            else:
                last = middle - 1
        begin = batch * size
        row = self._row(batch, max(first - begin, 0), min(end - begin, size), wanted)
        return _UNKNOWN if row is None else self._value(batch, row, group)

    def rows(self, group: int, step: int = 0) -> Iterator[tuple[bytes, StateValue]]:
        """Yields the restored rows of a key group: the row key of an entry, and its value or ``GONE`` for one that was removed."""
        prefix = place(self._state_id, group)
        for data in self._slices(group, step or STEP_ROWS):
            starts = starts_of(prefix, data) if self._is_timers and not self.has_deleted else None
            yield from self._decoded(group, prefix, data) if starts is None else zip(starts, repeat(True))

    def packed(self, group: int, rows: StateRows) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """Yields all rows of a group as ``rows`` does, some at a time, with the content of the database's row instead of a value; ``None`` for
        removed entries.
        """
        prefix = place(self._state_id, group)
        for data in self._slices(group, _PACKED_ROWS):
            starts = None if self.has_deleted else starts_of(prefix, data)
            contents = None if starts is None else contents_of(data)
            if starts is None or contents is None or not self._is_right(starts[0], contents[0], group, data, rows):
                pairs = list(self._decoded(group, prefix, data))
                yield [start for start, _ in pairs], [None if value is GONE else rows.pack(value) for _, value in pairs]
            else:
                yield starts, list(contents)

    def _is_right(self, start: bytes, content: bytes, group: int, data: pa.RecordBatch, rows: StateRows) -> bool:
        """Tells whether the first row has the key and form that decoding and encoding it gives, since a type may have values of its own."""
        ((expected, value),) = self._decoded(group, place(self._state_id, group), data.slice(0, 1))
        form_bytes = 1 + (STAMP_BYTES if self._layout.ttl is not None else 0)
        return start == expected and content[:form_bytes] == rows.pack(value)[:form_bytes]

    def is_in_order(self, group: int) -> bool:
        last = b""
        for data in self._slices(group, STEP_ROWS):
            for _, (key, space) in removed_entries(self._layout, np.zeros(data.num_rows, np.int32), data):
                entry = encode_key(key) + encode_key(space)
                if entry < last:
                    return False
                last = entry
        return True

    def _decoded(self, group: int, prefix: bytes, data: pa.RecordBatch) -> Iterator[tuple[bytes, StateValue]]:
        groups = np.full(data.num_rows, group, np.int32)
        keys = removed_entries(self._layout, groups, data)
        if self._is_timers:
            starts = [
                prefix + time_bytes(time) + encode_key(key) + encode_key(space) for _, (key, (time, space)) in keys
            ]
        else:
            starts = [prefix + encode_key(key) + encode_key(space) for _, (key, space) in keys]
        dead = [False] * data.num_rows
        if self.has_deleted:
            dead = data.column(DELETED).to_pylist()
            living = pa.array([not gone for gone in dead])
            data = data.filter(living).drop_columns([DELETED])
            groups = groups[: data.num_rows]
        values = from_columns(self._layout, groups, data, self._now_ms)
        for start, is_gone in zip(starts, dead, strict=True):
            yield start, GONE if is_gone else next(values)[2]

    def _slices(self, group: int, step: int) -> Iterator[pa.RecordBatch]:
        return (read_slice(found, group) for found in slices(self.part, group, step))

    def _head(self, batch: int) -> bytes:
        found = self._heads.get(batch)
        if found is None:
            found = self._heads[batch] = self._entries_of(batch, 0, 1)(0)
        return found

    def _row(self, batch: int, first: int, end: int, wanted: bytes) -> int | None:
        """Returns the row of a batch that has the entry, from ``first`` to before ``end``; ``None`` if none has."""
        if self._has_numbers and wanted[0] == 0x69:  # i
            keys = self.part.column(batch, KEY, first, end)
            numbers = np.frombuffer(keys.buffers()[1], "<u8", end - first, 8 * first)  # in the order of their bytes
            number = np.uint64(int.from_bytes(wanted[1:9], "big"))
            row = int(numbers.searchsorted(number))
            return first + row if row < len(numbers) and numbers[row] == number else None
        entry = self._entries_of(batch, first, end)
        row = bisect_left(range(end), wanted, first, key=entry)
        return row if row < end and entry(row) == wanted else None

    def _entries_of(self, batch: int, first: int, end: int) -> Callable[[int], bytes]:
        """Returns a function that returns the bytes of the entry in a row, for these rows."""
        part, layout = self.part, self._layout
        keys = part.column(batch, KEY, first, end)
        if self._is_pickled:
            key_of: Callable[[int], Key] = lambda row: loads(keys[row].as_py())  # noqa: E731
        else:
            key_of = lambda row: decode_column(layout.key_type, keys.slice(row, 1))[0]  # noqa: E731
        if self.namespace == ord("w"):
            starts, ends = (part.column(batch, name, first, end) for name in (WINDOW_START, WINDOW_END))
            return lambda row: (
                encode_key(canonical_key(key_of(row))) + encode_key(TimeWindow(starts[row].as_py(), ends[row].as_py()))
            )
        if self.namespace == ord("c"):
            numbers = part.column(batch, WINDOW_ID, first, end)
            return lambda row: encode_key(canonical_key(key_of(row))) + encode_key(CountWindow(numbers[row].as_py()))
        return lambda row: encode_key(canonical_key(key_of(row))) + b"n"

    def _value(self, batch: int, row: int, group: int) -> StateValue:
        data, layout = self.part.slice(batch, row, row + 1), self._layout
        if data.column(KEY_GROUP)[0].as_py() != group:
            raise self._misplaced(group)
        if self.has_deleted and data.column(DELETED)[0].as_py():
            return GONE
        assert layout.value_type is not None
        (value,) = values_in(layout, data.column(VALUE))
        if layout.ttl is not None:
            value = stamped(layout.kind, value, data.column(TTL_COLUMN)[0].as_py(), self._now_ms)
        return value

    def _misplaced(self, group: int) -> CorruptData:
        return CorruptData(f"{self.part.name}: rows of key group {group} are of another one; {ON_DAMAGE}")
