"""Timers of a keyed operator: one queue for event time, one for processing time.

A timer is (timestamp, key, namespace); the same one registered twice is one timer. The truth is a table of keyed state,
frozen and snapshotted like any other; the heap only orders it, and a heap entry whose timer is gone from the table is
passed over.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.common.records.batch import MIN_TIMESTAMP
from tidegate.model.values import Key
from tidegate.taskmanager.state.backend import KeyedBackend
from tidegate.taskmanager.state.entry import Namespace

EVENT_TIMERS = "_timers.event"
PROCESSING_TIMERS = "_timers.processing"


@dataclass(frozen=True, slots=True)
class Timer:
    timestamp: int
    key: Key
    group: int
    namespace: Namespace


class KeyedTimerQueue:
    """Timers of one time domain, of all keys of a subtask."""

    def __init__(self, backend: KeyedBackend, state_name: str) -> None:
        self._backend = backend
        self._table = backend.table(state_name, "timers", None)
        self._sequence = 0
        self._heap: list[tuple[int, int, Timer]] = []
        for group, (key, (timestamp, namespace)), _ in self._table.entries():
            self._push(Timer(timestamp, key, group, namespace))

    def register(self, timestamp: int, namespace: Namespace = None) -> None:
        """For the current key."""
        key, group = self._backend.key, self._backend.group
        entry = (key, (timestamp, namespace))
        if self._table.peek(group, entry) is None:
            self._table.write(group, entry, True)
            self._push(Timer(timestamp, key, group, namespace))

    def delete(self, timestamp: int, namespace: Namespace = None) -> None:
        self._table.delete(self._backend.group, (self._backend.key, (timestamp, namespace)))

    def next_timestamp(self) -> int | None:
        """When the earliest timer is due."""
        while self._heap and not self._is_alive(self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def last_timestamp(self) -> int:
        """Returns the latest time of all timers; it looks at each of them."""
        return max((timestamp for timestamp, _, _ in self._heap), default=MIN_TIMESTAMP)

    def pop_due(self, time_ms: int) -> Iterator[Timer]:
        """Timers up to ``time_ms``, in the order of their time; also those registered meanwhile. A timer is gone from the
        state before it is handed out, and its key is the current one."""
        while self._heap and self._heap[0][0] <= time_ms:
            timer = heapq.heappop(self._heap)[2]
            if self._is_alive(timer):
                self._table.delete(timer.group, (timer.key, (timer.timestamp, timer.namespace)))
                self._backend.set_current(timer.key, timer.group)
                yield timer

    def _push(self, timer: Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (timer.timestamp, self._sequence, timer))

    def _is_alive(self, timer: Timer) -> bool:
        return self._table.peek(timer.group, (timer.key, (timer.timestamp, timer.namespace))) is not None
