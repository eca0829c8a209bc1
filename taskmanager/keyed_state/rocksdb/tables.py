"""Tables, lists and maps of keyed state in RocksDB, with one row for each value, list element or map entry:

    kind                      row key                                         row value
    value, reducing, ...      state · group · key · namespace                 [ms] value
    list                      state · group · key · namespace · number        [ms] element     in the order of their numbers
    map                       state · group · key · namespace · map key       [ms] value       in the order of the key's bytes

``[ms]``: the time of the last update, only in state with a TTL, whose values are pairs (value, ms). Adding to a list or changing a map's entry reads
nothing. ``ChangedEntries`` receives every change, for incremental snapshots. Restored rows may still be in the checkpoint's files (``unloaded``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from tidegate.model.values import Key, MapKey, StateValue
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.named_values import NamedValues, of_columns
from tidegate.taskmanager.keyed_state.rocksdb.changes import ChangedEntries
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair, RocksDatabase
from tidegate.taskmanager.keyed_state.rocksdb.keys import decode_key, encode_key, group_of
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import NUMBER_BYTES, StateRows
from tidegate.taskmanager.keyed_state.rocksdb.unloaded import Unloaded
from tidegate.taskmanager.keyed_state.rocksdb.values import stamp_of

_KEPT_VALUES = 1 << 15
"""About the most values that are kept in memory of keys that were read as a whole; those of one key are always kept."""
_SWEEP_ROWS = 16
"""The least rows for which a sweep creates an iterator."""


class RocksCells:
    """Base class of tables, lists, maps and timers: one state in a database."""

    row_form: ClassVar[type[StateRows]] = StateRows

    def __init__(self, database: RocksDatabase, rows: StateRows, changes: ChangedEntries) -> None:
        self.rows = rows
        self._database = database
        self._changes = changes
        self.unloaded: Unloaded | None = None
        """The part of the state that is still in restored files."""

    def load(self, pairs: Sequence[tuple[bytes, StateValue]]) -> None:
        """Loads restored entries: the row-key prefix of each, and its value."""

    def entry_keys(self) -> list[tuple[int, Entry]]:
        self.load_all()
        found: dict[bytes, tuple[int, Entry]] = {}
        for row, _ in self._database.rows(self.rows.prefix):
            key, namespace, end = self.rows.parts(row)
            found.setdefault(row[:end], (group_of(row), (key, namespace)))
        return list(found.values())

    def load_all(self) -> None:
        """Loads everything into the database."""
        if self.unloaded is not None:
            self.unloaded.settle()

    def drop_unloaded(self) -> None:
        """Forgets the files that state was restored from, because all of it is loaded or the rest is not needed."""
        if self.unloaded is not None:
            self.unloaded.close()
            self.unloaded = None

    def mark_gone(self, group: int, start: bytes) -> None:
        """Notes that the rows of an entry were deleted, so that restored files do not bring it back."""
        if self.unloaded is not None:
            self.unloaded.mark_gone(group, start)

    def unload(self, entries: Iterable[bytes]) -> None:
        """Removes entries that a newer level of the restored state removes."""
        for entry in entries:
            self._remove(entry)

    def _start(self, group: int, entry: Entry) -> bytes:
        """Returns the row-key prefix of an entry, after loading the entry into the database."""
        start = self.rows.entry(group, entry)
        if self.unloaded is not None:
            self.unloaded.fetch(group, start, entry)
        return start

    def _remove(self, entry: bytes) -> None:
        delete = self._database.delete
        for row, _ in list(self._database.rows(entry)):
            delete(row)


class RocksTable(RocksCells):
    """A table of keyed state in RocksDB with one serialized object for each entry; values that it returns are copies."""

    def read(self, group: int, entry: Entry) -> StateValue:
        row = self.rows.entry(group, entry)
        content = self._database.get(row)
        if content is None:
            return None if self.unloaded is None else self.unloaded.find(group, (row, entry))
        return self.rows.unpack(content)

    peek = read

    def write(self, group: int, entry: Entry, value: StateValue) -> None:
        row = self.rows.entry(group, entry)
        self._database.put(row, self.rows.pack(value))
        self._changes.add(row)

    def peek_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> list[StateValue]:
        """Returns the values of entries as ``peek`` does."""
        rows, get, unpack, unloaded = (
            self.rows.entries(groups, entries),
            self._database.get,
            self.rows.unpack,
            self.unloaded,
        )
        contents = [get(row) for row in rows]
        if unloaded is None:
            return [None if content is None else unpack(content) for content in contents]
        return [
            unloaded.find(group, (row, entry)) if content is None else unpack(content)
            for group, row, entry, content in zip(groups, rows, entries, contents, strict=True)
        ]

    def write_all(self, groups: Sequence[int], entries: Sequence[Entry], values: Sequence[StateValue]) -> None:
        """Writes entries as ``write`` does, in one batch of RocksDB."""
        rows = self.rows.entries(groups, entries)
        self._database.put_all(list(zip(rows, map(self.rows.pack, values), strict=True)))
        for row in rows:
            self._changes.add(row)

    def direct(self, group: int) -> dict[Entry, StateValue] | None:
        return None

    def delete(self, group: int, entry: Entry) -> None:
        row = self.rows.entry(group, entry)
        self._database.delete(row)
        self.mark_gone(group, row)
        self._changes.add(row)

    def delete_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> None:
        """Removes entries as ``delete`` does."""
        for group, row in zip(groups, self.rows.entries(groups, entries), strict=True):
            self._database.delete(row)
            self.mark_gone(group, row)
            self._changes.add(row)

    def entries(self) -> Iterator[tuple[int, Entry, StateValue]]:
        self.load_all()
        for row, content in self._database.rows(self.rows.prefix):
            key, namespace, _ = self.rows.parts(row)
            yield group_of(row), (key, namespace), self.rows.unpack(content)

    def load(self, pairs: Sequence[tuple[bytes, StateValue]]) -> None:
        self._database.put_all([(entry, self.rows.pack(value)) for entry, value in pairs])


class RocksEntries(RocksTable):
    """A table of named values of a key. The rows of a key follow each other, and the values of keys that were read as a whole are kept in memory, up to a
    limit.
    """

    def __init__(self, database: RocksDatabase, rows: StateRows, changes: ChangedEntries) -> None:
        super().__init__(database, rows, changes)
        self._kept: dict[tuple[int, Key], dict[Namespace, StateValue]] = {}
        self._kept_values = 0

    @property
    def has_unnamed(self) -> bool:
        return self.rows.may_have_none

    def of_key(self, group: int, key: Key) -> Mapping[Namespace, StateValue]:
        kept = self._kept.get((group, key))
        if kept is not None:
            return kept
        if self.unloaded is not None:
            self.unloaded.fetch_group(group)
        start, unpack = self.rows.key(group, key), self.rows.unpack
        found = {self.rows.namespace(row, len(start)): unpack(content) for row, content in self._database.rows(start)}
        self._kept_values += len(found)
        if self._kept_values > _KEPT_VALUES:
            self._kept.clear()
            self._kept_values = len(found)
        self._kept[group, key] = found
        return found

    def named(self, groups: Sequence[int], keys: Sequence[Key], names: Sequence[Namespace]) -> NamedValues:
        return of_columns([self.peek_all(groups, [(key, name) for key in keys]) for name in names])

    def peek(self, group: int, entry: Entry) -> StateValue:
        key, namespace = entry
        kept = self._kept.get((group, key))
        if kept is not None:
            return kept.get(namespace)
        return self.read(group, entry)

    def write(self, group: int, entry: Entry, value: StateValue) -> None:
        super().write(group, entry, value)
        kept = self._kept.get((group, entry[0]))
        if kept is not None:
            self._kept_values += entry[1] not in kept
            kept[entry[1]] = value

    def write_all(self, groups: Sequence[int], entries: Sequence[Entry], values: Sequence[StateValue]) -> None:
        super().write_all(groups, entries, values)
        for group, (key, namespace), value in zip(groups, entries, values, strict=True):
            if (kept := self._kept.get((group, key))) is not None:
                self._kept_values += namespace not in kept
                kept[namespace] = value

    def delete(self, group: int, entry: Entry) -> None:
        super().delete(group, entry)
        kept = self._kept.get((group, entry[0]))
        if kept is not None:
            kept.pop(entry[1], None)

    def delete_all(self, groups: Sequence[int], entries: Sequence[Entry]) -> None:
        super().delete_all(groups, entries)
        for group, (key, namespace) in zip(groups, entries, strict=True):
            if (kept := self._kept.get((group, key))) is not None:
                kept.pop(namespace, None)


class RocksListCells(RocksCells):
    """Lists by entry, each element stored as a row with a running number."""

    def __init__(self, database: RocksDatabase, rows: StateRows, changes: ChangedEntries) -> None:
        super().__init__(database, rows, changes)
        self._next = 0

    def read(self, group: int, entry: Entry) -> list[StateValue]:
        unpack = self.rows.unpack
        return [unpack(content) for _, content in self._database.rows(self._start(group, entry))]

    def extend(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        start = self._start(group, entry)
        for row, content in self._numbered(start, elements):
            self._database.put(row, content)
        if elements:
            self._changes.add(start)

    def replace(self, group: int, entry: Entry, elements: Sequence[StateValue]) -> None:
        start = self.rows.entry(group, entry)
        self._remove(start)
        self.mark_gone(group, start)
        for row, content in self._numbered(start, elements):
            self._database.put(row, content)
        self._changes.add(start)

    def is_empty(self, group: int, entry: Entry) -> bool:
        return next(self._database.rows(self._start(group, entry)), None) is None

    def load(self, pairs: Sequence[tuple[bytes, StateValue]]) -> None:
        rows: list[Pair] = []
        for start, elements in pairs:
            rows += self._numbered(start, elements)
        self._database.put_all(rows)

    def _numbered(self, start: bytes, elements: Sequence[StateValue]) -> list[Pair]:
        first = self._next
        self._next += len(elements)
        pack = self.rows.pack
        return [(start + (first + i).to_bytes(NUMBER_BYTES, "big"), pack(e)) for i, e in enumerate(elements)]


class RocksMapCells(RocksCells):
    """Maps by entry, each map entry stored as a row of its own."""

    def get(self, group: int, entry: Entry, key: MapKey) -> StateValue:
        content = self._database.get(self._start(group, entry) + encode_key(key))
        return None if content is None else self.rows.unpack(content)

    def contains(self, group: int, entry: Entry, key: MapKey) -> bool:
        return self._database.get(self._start(group, entry) + encode_key(key)) is not None

    def put_all(self, group: int, entry: Entry, items: Mapping[MapKey, StateValue]) -> None:
        start = self._start(group, entry)
        for key, value in items.items():
            self._database.put(start + encode_key(key), self.rows.pack(value))
        if items:
            self._changes.add(start)

    def remove(self, group: int, entry: Entry, keys: Iterable[MapKey]) -> None:
        start = self._start(group, entry)
        for key in keys:
            self._database.delete(start + encode_key(key))
        self.mark_gone(group, start)
        self._changes.add(start)

    def read(self, group: int, entry: Entry) -> dict[MapKey, StateValue]:
        start, unpack = self._start(group, entry), self.rows.unpack
        return {decode_key(row, len(start))[0]: unpack(content) for row, content in self._database.rows(start)}

    def is_empty(self, group: int, entry: Entry) -> bool:
        return next(self._database.rows(self._start(group, entry)), None) is None

    def clear(self, group: int, entry: Entry) -> None:
        start = self.rows.entry(group, entry)
        self._remove(start)
        self.mark_gone(group, start)
        self._changes.add(start)

    def load(self, pairs: Sequence[tuple[bytes, StateValue]]) -> None:
        pack = self.rows.pack
        self._database.put_all(
            [(start + encode_key(key), pack(value)) for start, items in pairs for key, value in items.items()]
        )


class RocksSweep:
    """Cleans up expired state row by row. Steps are saved up, since an iterator costs as much as many rows."""

    def __init__(self, database: RocksDatabase, cells: RocksCells, changes: ChangedEntries) -> None:
        assert cells.rows.layout.ttl is not None
        self._database = database
        self._cells = cells
        self._prefix = cells.rows.prefix
        self._ttl_ms = cells.rows.layout.ttl.ms
        self._changes = changes
        self._saved = 0
        self._begin = b""

    def __call__(self, count: int, now_ms: int) -> None:
        self._saved += count
        if self._saved < _SWEEP_ROWS:
            return
        last, expired = now_ms - self._ttl_ms, []
        walk = self._database.rows(self._prefix, self._begin)
        self._begin = b""
        for row, content in walk:
            if self._saved == 0:
                self._begin = row
                break
            self._saved -= 1
            if stamp_of(content) <= last:
                expired.append(row)
        self._saved = 0
        for row in expired:
            self._database.delete(row)
            start = self._cells.rows.start_of(row)
            self._cells.mark_gone(group_of(row), start)
            self._changes.add(start)
