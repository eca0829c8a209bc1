"""Timers in memory: a table of keyed state, and lists of its entries by time. Listed entries that are not in the table are skipped."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from tidegate.model.values import Key
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.taskmanager.keyed_state.entry import Entry
from tidegate.taskmanager.keyed_state.heap.copy_on_write_table import StateTable
from tidegate.taskmanager.keyed_state.timers import DueTimers, Timer

Listed: TypeAlias = tuple[int, Entry]
"""The key group of a timer, and its entry ``(key, (timestamp, namespace))``."""


class HeapTimers:
    """The timers of one time domain, in memory. Timers of the same time fire in the order in which they were added."""

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._times: list[int] = []
        """A heap of the times in ``_at``."""
        self._at: dict[int, deque[Listed]] = {}
        for group, entry, _ in table.entries():
            self._list_of(entry[1][0]).append((group, entry))

    def add(self, timer: Timer) -> None:
        entry = (timer.key, (timer.timestamp, timer.namespace))
        if self._table.peek(timer.group, entry) is None:
            self._table.write(timer.group, entry, True)
            self._list_of(timer.timestamp).append((timer.group, entry))

    def add_all(self, timestamp: int, keys: Sequence[Key], groups: Sequence[int]) -> None:
        stamp = (timestamp, None)
        entries = [(key, stamp) for key in keys]
        if new := self._table.add_all(groups, entries, True):
            self._list_of(timestamp).extend(new)

    def remove(self, timer: Timer) -> None:
        self._table.delete(timer.group, (timer.key, (timer.timestamp, timer.namespace)))

    def first_timestamp(self) -> int | None:
        while self._times:
            listed = self._at[self._times[0]]
            while listed and self._table.peek(*listed[0]) is None:
                listed.popleft()
            if listed:
                return self._times[0]
            self._drop_first()
        return None

    def last_timestamp(self) -> int:
        return max((timestamp for timestamp, listed in self._at.items() if listed), default=MIN_TIMESTAMP)

    def poll(self, time_ms: int) -> Timer | None:
        timestamp = self.first_timestamp()
        if timestamp is None or timestamp > time_ms:
            return None
        group, entry = self._at[timestamp].popleft()
        self._table.delete(group, entry)
        key, (_, namespace) = entry
        return Timer(timestamp, key, group, namespace)

    def poll_all(self, time_ms: int) -> DueTimers | None:
        timestamp = self.first_timestamp()
        if timestamp is None or timestamp > time_ms:
            return None
        listed = self._at[timestamp]
        self._drop_first()
        groups, entries = [group for group, _ in listed], [entry for _, entry in listed]
        held = self._table.take_all(
            groups, entries
        )  # of one that was removed and added again, which is listed twice, the first
        if None in held:
            there = [pair for pair, found in zip(listed, held, strict=True) if found is not None]
            groups, entries = [group for group, _ in there], [entry for _, entry in there]
        return DueTimers(timestamp, [key for key, _ in entries], groups)

    def _list_of(self, timestamp: int) -> deque[Listed]:
        """Returns the list of the timers of a time, to which others can be added."""
        listed = self._at.get(timestamp)
        if listed is None:
            listed = self._at[timestamp] = deque()
            heapq.heappush(self._times, timestamp)
        return listed

    def _drop_first(self) -> None:
        del self._at[heapq.heappop(self._times)]
