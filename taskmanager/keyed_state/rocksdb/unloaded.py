"""Restored state that is not in RocksDB yet: functions run at once, and its key groups are loaded while records are processed.

    get ─▶ RocksDB ─▶ a mark that the entry is gone ─▶ the restored files
    write ─▶ RocksDB          delete ─▶ RocksDB, and the mark
    load_some ─▶ the next key group that was requested, else the next one: rows of entries that are neither in RocksDB nor gone

Rows in RocksDB and marks of removed entries are newer than the files; lists and maps are loaded completely before a part of them is read or changed. The
state is therefore always RocksDB and the marks on top of the files, also while a group is partly loaded, and a snapshot merges all three (``merged_rows``).
Marks are rows of the database under a reserved state id, and are deleted when their group is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair, RocksDatabase, View
from tidegate.taskmanager.keyed_state.rocksdb.keys import after, place
from tidegate.taskmanager.keyed_state.rocksdb.restored_rows import STEP_ROWS, RestoredRows, can_be_searched
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.state.restoring.loader import GroupLoader
from tidegate.taskmanager.state.restoring.port import RestoredPart

GONE_ID = 0xFFFE
"""The state id of marks for removed entries, next to that of changes. No state has it."""
_MARKS = GONE_ID.to_bytes(2, "big")

Load = Callable[[Sequence[tuple[bytes, StateValue]]], None]
Entries = Sequence[tuple[bytes, StateValue]]
"""The row-key prefix of each entry, and its value; or rows of the database, where an entry is one row."""


class Unloaded(RestoredPart[tuple[bytes, Entry], StateValue]):
    """The unloaded part of one state. ``load``: writes entries into the database. Used from the subtask's thread.

    Key groups are loaded in ascending order, starting behind the last one: rows that come to RocksDB in the order of their keys need not be merged again and
    again.
    """

    def __init__(
        self, database: RocksDatabase, rows: StateRows, restored: RestoredRows, owned: KeyGroupRange, load: Load
    ) -> None:
        self._database = database
        self._rows = rows
        self._restored = restored
        self._load = load
        self._loader = GroupLoader(self, restored.files.rows_of(owned), is_ascending=True)
        self._left = self._loader.left
        self._fetched = b""

    @property
    def is_done(self) -> bool:
        return not self._left

    @property
    def rows_left(self) -> int:
        return self._loader.rows_left

    def find(self, group: int, wanted: tuple[bytes, Entry]) -> StateValue:
        """Returns the value of an entry that is not in the database; ``None`` if there is none. ``wanted``: its row key, and the entry."""
        start, entry = wanted
        if group not in self._left or self._is_marked(start):
            return None
        self._loader.waits(group, 1)
        if can_be_searched(entry):
            return self._restored.find(group, start)
        self._loader.load(group)
        content = self._database.get(start)
        return None if content is None else self._rows.unpack(content)

    def fetch(self, group: int, start: bytes, entry: Entry) -> None:
        """Loads an entry of several rows into the database, before it is read or changed."""
        if start == self._fetched or group not in self._left:
            return
        self._loader.waits(group, 1)
        if next(self._database.rows(start), None) is None and not self._is_marked(start):
            if can_be_searched(entry):
                found = self._restored.find(group, start)
                if found is not None:
                    self._load([(start, found)])
            else:
                self._loader.load(group)
        self._fetched = start

    def fetch_group(self, group: int) -> None:
        """Loads a key group into the database, before several of its entries are read together."""
        if group in self._left:
            self._loader.waits(group, 1)
            self._loader.load(group)

    def mark_gone(self, group: int, start: bytes) -> None:
        """Marks an entry whose rows were deleted, so that the files' value is not used."""
        if group in self._left:
            self._database.put(_MARKS + start, b"")

    def load_some(self) -> None:
        self._loader.load_some()

    def settle(self) -> None:
        self._loader.settle()

    def close(self) -> None:
        self._loader.close()

    def frozen(self) -> FrozenUnloaded | None:
        """Returns what a snapshot needs of the unloaded groups; ``None`` when all are loaded."""
        return FrozenUnloaded(self._restored, frozenset(self._left)) if self._left else None

    def need(self, group: int) -> None:
        self._restored.files.need(group)

    def chunks(self, group: int) -> Iterator[Entries]:
        if self._rows.has_several:
            return _parts(self._restored.entries(group))
        return iter(self._restored.chunks(group, self._rows))

    def put(self, group: int, chunk: Entries) -> int:
        """Writes restored entries of a group that are neither in the database nor marked as removed. Returns the number of rows used up."""
        if not chunk:
            return 0
        starts = [start for start, _ in chunk]
        first, last = min(starts), max(starts)
        prefix, end = place(self._rows.state_id, group), after(last)
        known = {self._rows.start_of(row) for row, _ in self._database.rows(prefix, first, end)}
        known |= {row[2:] for row, _ in self._database.rows(_MARKS + prefix, _MARKS + first, _MARKS + end)}
        load = self._load if self._rows.has_several else self._database.put_all
        load([pair for pair in chunk if pair[0] not in known] if known else chunk)
        return len(chunk)

    def loaded(self, group: int) -> None:
        marks = _MARKS + place(self._rows.state_id, group)
        self._database.delete_range(marks, after(marks))

    def _is_marked(self, start: bytes) -> bool:
        return self._database.get(_MARKS + start) is not None


@dataclass(frozen=True, slots=True)
class FrozenUnloaded:
    """The unloaded key groups at a freeze, with their files. ``horizons``: by group, the row up to which everything was loaded and is not read from the
    files.
    """

    restored: RestoredRows
    groups: frozenset[int]
    horizons: Mapping[int, bytes] = field(default_factory=dict)


def merged_rows(view: View, rows: StateRows, unloaded: FrozenUnloaded, group: int) -> Iterator[Pair]:
    """Yields all rows of a key group in order: those in RocksDB, merged with those that are still in the restored files. Runs in the snapshot thread."""
    prefix = place(rows.state_id, group)
    gone = {row[2:] for row, _ in view.rows(_MARKS + prefix)}
    known = groupby(view.rows(prefix), lambda pair: rows.start_of(pair[0]))
    here = next(known, None)
    horizon = unloaded.horizons.get(group, b"")
    for start, value in unloaded.restored.in_order(group):
        while here is not None and here[0] < start:
            yield from here[1]
            here = next(known, None)
        if here is not None and here[0] == start:
            yield from here[1]
            here = next(known, None)
        elif start > horizon and start not in gone:
            yield from rows.pairs_of(start, value)
    while here is not None:
        yield from here[1]
        here = next(known, None)


def _parts(entries: Iterator[tuple[bytes, StateValue]]) -> Iterator[list[tuple[bytes, StateValue]]]:
    while chunk := list(islice(entries, STEP_ROWS)):
        yield chunk
