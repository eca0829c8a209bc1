"""Registers and deletes timers of the current key, and yields those that are due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.model.values import Key
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.entry import Namespace
from tidegate.taskmanager.keyed_state.timers import DueTimers, Timer


class KeyedTimerQueue:
    """The timers of one time domain, of all keys of a subtask."""

    def __init__(self, backend: KeyedBackend, state_name: str) -> None:
        self._backend = backend
        self._timers = backend.timers(state_name)

    def register(self, timestamp: int, namespace: Namespace = None) -> None:
        """Registers a timer of the current key."""
        self._timers.add(Timer(timestamp, self._backend.key, self._backend.group, namespace))

    def register_all(self, timestamp: int, keys: Sequence[Key], groups: Sequence[int]) -> None:
        """Registers a timer of each key. ``groups``: the key group of each."""
        self._timers.add_all(timestamp, keys, groups)

    def delete(self, timestamp: int, namespace: Namespace = None) -> None:
        self._timers.remove(Timer(timestamp, self._backend.key, self._backend.group, namespace))

    def next_timestamp(self) -> int | None:
        """Returns when the earliest timer is due; ``None`` if there is none."""
        return self._timers.first_timestamp()

    def last_timestamp(self) -> int:
        """Returns the time of the latest timer."""
        return self._timers.last_timestamp()

    def pop_due(self, time_ms: int) -> Iterator[Timer]:
        """Yields the timers up to ``time_ms``, in the order of their time, also those registered meanwhile. A timer is removed from the state before it is
        yielded, and its key is made the current one.
        """
        while (timer := self._timers.poll(time_ms)) is not None:
            self._backend.set_current(timer.key, timer.group)
            yield timer

    def pop_all_due(self, time_ms: int) -> Iterator[DueTimers]:
        """Yields the timers up to ``time_ms``, all those of one time together, as ``pop_due`` does. No key is made the current one."""
        while (due := self._timers.poll_all(time_ms)) is not None:
            yield due
