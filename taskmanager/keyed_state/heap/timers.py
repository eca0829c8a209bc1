"""Timers in memory: a table of keyed state, and a heap that orders it. Entries of the heap whose timer is not in the table are skipped."""

from __future__ import annotations

import heapq

from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.taskmanager.keyed_state.backend import KeyedTable
from tidegate.taskmanager.keyed_state.timers import Timer


class HeapTimers:
    """The timers of one time domain, in memory. Timers of the same time fire in the order in which they were added."""

    def __init__(self, table: KeyedTable) -> None:
        self._table = table
        self._sequence = 0
        self._heap: list[tuple[int, int, Timer]] = []
        for group, (key, (timestamp, namespace)), _ in table.entries():
            self._push(Timer(timestamp, key, group, namespace))

    def add(self, timer: Timer) -> None:
        entry = (timer.key, (timer.timestamp, timer.namespace))
        if self._table.peek(timer.group, entry) is None:
            self._table.write(timer.group, entry, True)
            self._push(timer)

    def remove(self, timer: Timer) -> None:
        self._table.delete(timer.group, (timer.key, (timer.timestamp, timer.namespace)))

    def first_timestamp(self) -> int | None:
        while self._heap and not self._is_alive(self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def last_timestamp(self) -> int:
        return max((timestamp for timestamp, _, _ in self._heap), default=MIN_TIMESTAMP)

    def poll(self, time_ms: int) -> Timer | None:
        while self._heap and self._heap[0][0] <= time_ms:
            timer = heapq.heappop(self._heap)[2]
            if self._is_alive(timer):
                self.remove(timer)
                return timer
        return None

    def _push(self, timer: Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (timer.timestamp, self._sequence, timer))

    def _is_alive(self, timer: Timer) -> bool:
        return self._table.peek(timer.group, (timer.key, (timer.timestamp, timer.namespace))) is not None
