"""State that was restored and is not in RocksDB yet: functions run at once, and its key groups are loaded beside their records.

    get ─▶ RocksDB ─▶ a mark that the entry is gone ─▶ the restored files
    write ─▶ RocksDB          delete ─▶ RocksDB, and the mark
    load_some ─▶ the key group that was asked for first, else the next one: rows of entries that are neither in RocksDB nor gone

What is in RocksDB, and what is marked as gone, is newer than the files; lists and maps are fetched whole before a part of them is read or
changed. So the state is always that of RocksDB and the marks over that of the files, also while a group is half loaded, and a snapshot
reads all three of them (``merged_rows``). Marks are rows of the database too, under a state id that no state has, and go away when their
group is loaded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.rocksdb.database import Pair, RocksDatabase, View
from tidegate.taskmanager.keyed_state.rocksdb.groups_ahead import AHEAD, GroupsAhead
from tidegate.taskmanager.keyed_state.rocksdb.keys import after, place
from tidegate.taskmanager.keyed_state.rocksdb.restored_rows import STEP_ROWS, RestoredRows, can_be_searched
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows

GONE_ID = 0xFFFE
"""The state id of marks, beside that of changes: no state has it."""
_MARKS = GONE_ID.to_bytes(2, "big")

Load = Callable[[Sequence[tuple[bytes, StateValue]]], None]


class Unloaded:
    """One state. ``load`` writes entries into the database. Subtask's thread."""

    def __init__(
        self, database: RocksDatabase, rows: StateRows, restored: RestoredRows, owned: KeyGroupRange, load: Load
    ) -> None:
        self._database = database
        self._rows = rows
        self._restored = restored
        self._load = load
        self._counts = {group: restored.count(group) for group in range(owned.start, owned.end + 1)}
        self._waiting = {group: None for group, count in self._counts.items() if count}
        """Key groups that are not wholly loaded, in the order in which they will be."""
        self._asked_for: dict[int, None] = {}
        self._begun: tuple[int, Iterator[Sequence[tuple[bytes, StateValue]]]] | None = None
        self._fetched = b""
        self._last = -1
        """The key group that was loaded last."""
        self._ahead = GroupsAhead(restored.need)
        self._left = sum(self._counts.values())
        self._loaded = 0
        """Entries of the key group that is being loaded, as far as it was."""

    @property
    def is_done(self) -> bool:
        return not self._waiting

    @property
    def rows_left(self) -> int:
        """Rows of the files that are not loaded, those of older levels too."""
        return max(self._left - self._loaded, 0)

    def find(self, group: int, start: bytes, entry: Entry) -> StateValue:
        """The value of an entry that is not in the database; ``None``: there is none."""
        if group not in self._waiting or self._is_marked(start):
            return None
        self._asked_for[group] = None
        if can_be_searched(entry):
            return self._restored.find(group, start)
        self._load_group(group)
        content = self._database.get(start)
        return None if content is None else self._rows.unpack(content)

    def fetch(self, group: int, start: bytes, entry: Entry) -> None:
        """An entry of several rows will be read or changed: it is in the database afterwards, if it is anywhere."""
        if start == self._fetched or group not in self._waiting:
            return
        self._asked_for[group] = None
        if next(self._database.rows(start), None) is None and not self._is_marked(start):
            if can_be_searched(entry):
                found = self._restored.find(group, start)
                if found is not None:
                    self._load([(start, found)])
            else:
                self._load_group(group)
        self._fetched = start

    def mark_gone(self, group: int, start: bytes) -> None:
        """Rows of an entry were deleted: what the files say of it is out of date."""
        if group in self._waiting:
            self._database.put(_MARKS + start, b"")

    def load_some(self) -> None:
        """A step of some milliseconds."""
        if self._begun is None:
            group = self._last = self._next_groups(self._last, 1)[0]
            self._begun = (group, self._chunks(group))
            self._ahead.want(self._next_groups(group, AHEAD))
        group, chunks = self._begun
        chunk = next(chunks, None)
        if chunk is None:
            self._end(group)
            return
        self._load_missing(group, chunk)
        self._loaded += len(chunk)

    def load_all(self) -> None:
        """All at once: what asks for everything must find it."""
        while self._waiting:
            self.load_some()

    def frozen(self) -> FrozenUnloaded | None:
        """What a snapshot needs of it; ``None``: nothing."""
        return FrozenUnloaded(self._restored, frozenset(self._waiting)) if self._waiting else None

    def close(self) -> None:
        """Nothing is read ahead from now on."""
        self._ahead.close()

    def _chunks(self, group: int) -> Iterator[Sequence[tuple[bytes, StateValue]]]:
        """Rows of the database where an entry is one row, else entries."""
        if self._rows.has_several:
            return _parts(self._restored.entries(group))
        return iter(self._restored.chunks(group, self._rows))

    def _next_groups(self, last: int, count: int) -> list[int]:
        """Those to be loaded after ``last``: the ones that were asked for first, in their order, since rows that come to RocksDB in the order of their keys are not merged again and again."""
        wanted = [group for group in self._asked_for if group != last] or [
            group for group in self._waiting if group != last
        ]
        return heapq.nsmallest(count, wanted or self._waiting, key=lambda group: (group < last, group))

    def _load_group(self, group: int) -> None:
        for chunk in self._chunks(group):
            self._load_missing(group, chunk)
        self._end(group)

    def _load_missing(self, group: int, chunk: Sequence[tuple[bytes, StateValue]]) -> None:
        """Entries of one group that are not known yet. Those that are, are few, or were loaded: a walk finds them."""
        if not chunk:
            return
        starts = [start for start, _ in chunk]
        first, last = min(starts), max(starts)
        prefix, end = place(self._rows.state_id, group), after(last)
        known = {self._rows.start_of(row) for row, _ in self._database.rows(prefix, first, end)}
        known |= {row[2:] for row, _ in self._database.rows(_MARKS + prefix, _MARKS + first, _MARKS + end)}
        load = self._load if self._rows.has_several else self._database.put_all
        load([pair for pair in chunk if pair[0] not in known] if known else chunk)

    def _end(self, group: int) -> None:
        """A key group is loaded."""
        del self._waiting[group]
        self._asked_for.pop(group, None)
        self._left -= self._counts[group]
        if self._begun is not None and self._begun[0] == group:
            self._begun, self._loaded = None, 0
        marks = _MARKS + place(self._rows.state_id, group)
        self._database.delete_range(marks, after(marks))

    def _is_marked(self, start: bytes) -> bool:
        return self._database.get(_MARKS + start) is not None


@dataclass(frozen=True, slots=True)
class FrozenUnloaded:
    """At a freeze: the files, and the key groups that were not wholly loaded. ``horizons``: by group, up to where it was, and nothing is to be looked for in the files."""

    restored: RestoredRows
    groups: frozenset[int]
    horizons: Mapping[int, bytes] = field(default_factory=dict)


def merged_rows(view: View, rows: StateRows, unloaded: FrozenUnloaded, group: int) -> Iterator[Pair]:
    """The rows of a key group as they would be if it were loaded, in their order. Snapshot thread."""
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
