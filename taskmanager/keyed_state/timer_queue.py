"""Timers of the current key registered and deleted, and those that are due handed out with their key as the current one."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.timers import Timer


class KeyedTimerQueue:
    """Timers of one time domain, of all keys of a subtask."""

    def __init__(self, backend: KeyedBackend, state_name: str) -> None:
        self._backend = backend
        self._timers = backend.timers(state_name)

    def register(self, timestamp: int, namespace: Namespace = None) -> None:
        """For the current key."""
        self._timers.add(Timer(timestamp, self._backend.key, self._backend.group, namespace))

    def delete(self, timestamp: int, namespace: Namespace = None) -> None:
        self._timers.remove(Timer(timestamp, self._backend.key, self._backend.group, namespace))

    def next_timestamp(self) -> int | None:
        """When the earliest timer is due."""
        return self._timers.first_timestamp()

    def last_timestamp(self) -> int:
        """Returns the latest time of all timers."""
        return self._timers.last_timestamp()

    def pop_due(self, time_ms: int) -> Iterator[Timer]:
        """Timers up to ``time_ms``, in the order of their time; also those registered meanwhile. A timer is gone from the
        state before it is handed out, and its key is the current one."""
        while (timer := self._timers.poll(time_ms)) is not None:
            self._backend.set_current(timer.key, timer.group)
            yield timer
