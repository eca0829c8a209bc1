"""Timers in RocksDB: rows in the order of their time. The earliest of each key group are cached in memory.

    state · group · timestamp · key · namespace      one row for each timer, without a value
    ╰──────────────────────╮
    cache of a group: its earliest rows, in order, at most ``limit`` ─▶ heap of the groups' first rows ─▶ the earliest timer

Rows are written through, so a snapshot reads them like those of any other state. The timestamp has its sign bit flipped, so that the order
of the bytes is that of the times (Flink: ``KeyGroupPartitionedPriorityQueue`` over ``RocksDBCachingPriorityQueueSet``).

Laws: a cache holds all timers of its group up to its last one; it is empty only when the group has none.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Key, StateValue
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.records.canonical.forms import value_of
from tidegate.taskmanager.keyed_state.entry import Entry, Namespace
from tidegate.taskmanager.keyed_state.rocksdb.changes import ChangedEntries
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase
from tidegate.taskmanager.keyed_state.rocksdb.keys import (
    PREFIX_BYTES,
    SIGN,
    TIMESTAMP_BYTES,
    decode_key,
    encode_key,
    group_of,
    place,
)
from tidegate.taskmanager.keyed_state.rocksdb.state_rows import StateRows
from tidegate.taskmanager.keyed_state.rocksdb.tables import RocksCells
from tidegate.taskmanager.keyed_state.rocksdb.unloaded_timers import UnloadedTimers
from tidegate.taskmanager.keyed_state.timers import DueTimers, Timer

_STALE_HEADS = 64
"""Outdated entries that the heap may have, however few groups there are. Chosen, not measured."""
_START = struct.Struct(">HHQ")
_TIMESTAMP = struct.Struct(">Q")
_KEY_START = PREFIX_BYTES + TIMESTAMP_BYTES


class TimerRows(StateRows):
    """The format of rows of timers. The namespace of an entry is ``(timestamp, namespace)``, as in every table of timers."""

    def entry(self, group: int, entry: Entry) -> bytes:
        key, (timestamp, space) = entry
        namespace = encode_key(space)
        self.namespaces.add(namespace[0])
        try:
            start = _START.pack(self.state_id, group, timestamp + SIGN)
        except struct.error:
            raise InvalidJob(
                f"operator '{self.layout.operator}': a timer at {timestamp} is out of range: "
                "times are 64-bit milliseconds since 1970"
            ) from None
        return start + encode_key(key) + namespace

    def parts(self, row: bytes) -> tuple[Key, Namespace, int]:
        key, at = decode_key(row, _KEY_START)
        space, end = decode_key(row, at)
        return key, (timestamp_of(row), value_of(space)), end

    def pack(self, value: StateValue) -> bytes:
        return b""


def timestamp_of(row: bytes) -> int:
    found: int = _TIMESTAMP.unpack_from(row, PREFIX_BYTES)[0]
    return found - SIGN


class _Group:
    """The cached earliest timers of a key group. ``is_whole``: all its timers are cached."""

    __slots__ = ("cache", "is_whole")

    def __init__(self, cache: list[bytes], *, is_whole: bool) -> None:
        self.cache = cache
        self.is_whole = is_whole


class RocksTimers(RocksCells):
    """The timers of one time domain. ``begin`` must be called before any use, and after a restore."""

    row_form = TimerRows

    def __init__(self, database: RocksDatabase, rows: StateRows, changes: ChangedEntries) -> None:
        super().__init__(database, rows, changes)
        self._limit = database.settings.cached_timers
        self._groups: dict[int, _Group] = {}
        self._heads: list[tuple[bytes, int, bytes]] = []
        """(first row without its prefix, group, first row) of each group, and outdated entries."""

    def begin(self) -> None:
        """Reads the earliest timers of each key group. The other restored ones may still be in their files."""
        if self._restored is not None:
            for group in self._restored.groups:
                self._groups[group] = held = _Group([], is_whole=False)
                self._refill(held, group, b"")
                self._push_head(held, group)
            return
        begin = self.rows.prefix
        while (first := next(self._database.rows(self.rows.prefix, begin), None)) is not None:
            group = group_of(first[0])
            self._groups[group] = held = _Group([], is_whole=False)
            self._refill(held, group, first[0])
            self._push_head(held, group)
            begin = self.rows.prefix + (group + 1).to_bytes(PREFIX_BYTES - len(self.rows.prefix), "big")

    def add(self, timer: Timer) -> None:
        row = self.rows.entry(timer.group, (timer.key, (timer.timestamp, timer.namespace)))
        held = self._groups.get(timer.group)
        if held is None:
            held = self._groups[timer.group] = _Group([], is_whole=True)
        cache = held.cache
        if held.is_whole or row <= cache[-1]:
            at = bisect_left(cache, row)
            if at < len(cache) and cache[at] == row:
                return
            cache.insert(at, row)
            if len(cache) > self._limit:
                cache.pop()
                held.is_whole = False
            if at == 0:
                self._push_head(held, timer.group)
        self._database.put(row, b"")
        self._changes.add(row)

    def add_all(self, timestamp: int, keys: Sequence[Key], groups: Sequence[int]) -> None:
        for key, group in zip(keys, groups, strict=True):
            self.add(Timer(timestamp, key, group, None))

    def remove(self, timer: Timer) -> None:
        held = self._groups.get(timer.group)
        if held is None or not held.cache:
            return
        row = self.rows.entry(timer.group, (timer.key, (timer.timestamp, timer.namespace)))
        cache = held.cache
        at = bisect_left(cache, row)
        if at < len(cache):
            if cache[at] == row:
                self._take(held, timer.group, at)
        elif not held.is_whole:
            self._database.delete(row)
            self.mark_gone(timer.group, row)
            self._changes.add(row)

    def first_timestamp(self) -> int | None:
        first = self._first()
        return None if first is None else timestamp_of(first[2])

    def last_timestamp(self) -> int:
        self.load_all()
        latest = MIN_TIMESTAMP
        for group, held in self._groups.items():
            if held.cache:
                last = held.cache[-1] if held.is_whole else self._database.last(place(self.rows.state_id, group))
                assert last is not None, f"key group {group} has {len(held.cache)} timers and no row"
                latest = max(latest, timestamp_of(last))
        return latest

    def poll(self, time_ms: int) -> Timer | None:
        first = self._first()
        if first is None or timestamp_of(first[2]) > time_ms:
            return None
        _, group, row = first
        self._take(self._groups[group], group, 0)
        key, (timestamp, namespace), _ = self.rows.parts(row)
        return Timer(timestamp, key, group, namespace)

    def poll_all(self, time_ms: int) -> DueTimers | None:
        first = self.first_timestamp()
        if first is None or first > time_ms:
            return None
        keys: list[Key] = []
        groups: list[int] = []
        while (timer := self.poll(first)) is not None:
            keys.append(timer.key)
            groups.append(timer.group)
        return DueTimers(first, keys, groups)

    def load(self, pairs: Sequence[tuple[bytes, StateValue]]) -> None:
        self._database.put_all([(row, b"") for row, _ in pairs])

    def unload(self, entries: Iterable[bytes]) -> None:
        for row in entries:
            self._database.delete(row)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the caches contradict the rows."""
        found: dict[int, list[bytes]] = {}
        restored = self._restored
        for row, _ in self._database.rows(self.rows.prefix):
            if restored is None or restored.is_loaded_up_to(group_of(row), row):
                found.setdefault(group_of(row), []).append(row)
        assert found.keys() == {group for group, held in self._groups.items() if held.cache}, "groups with timers"
        for group, rows in found.items():
            held = self._groups[group]
            assert len(held.cache) <= self._limit, f"key group {group} has too many timers in memory"
            assert held.cache == rows[: len(held.cache)], f"key group {group} has other timers in memory"
            assert not held.is_whole or len(held.cache) == len(rows), f"key group {group} has more timers"
            assert not held.is_whole or restored is None or restored.is_whole(group), f"key group {group} is not loaded"
        assert len(self._heads) <= 2 * len(self._groups) + _STALE_HEADS, "entries that are out of date pile up"

    def _take(self, held: _Group, group: int, at: int) -> None:
        """Removes a cached timer."""
        row = held.cache.pop(at)
        self._database.delete(row)
        self._changes.add(row)
        if not held.cache and not held.is_whole:
            self._refill(held, group, row)
        if at == 0:
            self._push_head(held, group)

    def _refill(self, held: _Group, group: int, begin: bytes) -> None:
        """Fills the cache of a group. ``begin``: all rows before it are deleted, so that the iteration need not pass the ones that RocksDB still keeps."""
        restored = self._restored
        held.cache = []
        while not held.cache:
            walk = self._database.rows(place(self.rows.state_id, group), begin)
            found = [row for row, _ in islice(walk, self._limit + 1)]
            held.is_whole = len(found) <= self._limit
            if restored is not None and not restored.is_whole(group):
                found = [row for row in found if restored.is_loaded_up_to(group, row)]
                held.is_whole = False
                if not found:
                    restored.advance(group, self._limit + 1)
                    continue
            held.cache = found[: self._limit]
            if held.is_whole:
                return

    @property
    def _restored(self) -> UnloadedTimers | None:
        """The timers that are in restored files; ``None``: there are none."""
        return self.unloaded if isinstance(self.unloaded, UnloadedTimers) else None

    def _first(self) -> tuple[bytes, int, bytes] | None:
        """Returns the entry of the earliest timer, which is then at the top of the heap; ``None`` if there is no timer."""
        heads = self._heads
        while heads:
            first = heads[0]
            cache = self._groups[first[1]].cache
            if cache and cache[0] is first[2]:
                return first
            heapq.heappop(heads)
        return None

    def _push_head(self, held: _Group, group: int) -> None:
        if held.cache:
            row = held.cache[0]
            heapq.heappush(self._heads, (row[PREFIX_BYTES:], group, row))
        if len(self._heads) > 2 * len(self._groups) + _STALE_HEADS:
            self._heads = [(g.cache[0][PREFIX_BYTES:], n, g.cache[0]) for n, g in self._groups.items() if g.cache]
            heapq.heapify(self._heads)
