"""Matching of one key's events, ordered by time (behaves as Flink's ``CepOperator``).

event time: event ─▶ queue by time ─▶ watermark ─▶ those up to it, in order ─▶ automaton ─▶ found
processing time: event ────────────────────────────────────────────────────▶ automaton ─▶ found
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Protocol

from tidegate.functions.cep.nfa import NFA, Found, NFAState
from tidegate.functions.cep.shared_buffer import SharedBuffer


@dataclass(frozen=True, slots=True)
class PatternOutcome:
    """A match, or a timed-out partial match, with its time in ms."""

    events: Found
    timestamp: int
    is_timed_out: bool = False


class Queue(Protocol):
    """Buffered events by time in ms: a dictionary, or keyed state."""

    def get(self, time: int, /) -> list[Any] | None:
        """Returns the events of a time in ms, ``None`` where there are none."""
        ...

    def __setitem__(self, time: int, events: list[Any], /) -> None: ...

    def __delitem__(self, time: int, /) -> None: ...

    def __iter__(self) -> Iterator[int]: ...


def enqueue(queue: Queue, value: Any, timestamp: int, register: Callable[[int], None]) -> None:
    """Buffers an event that is not late until ``KeyMatcher.advance``; ``register`` sets a timer that calls it when the watermark reaches the event. In
    event time."""
    waiting = queue.get(timestamp)
    if waiting is None:
        register(timestamp)
    queue[timestamp] = [*(waiting or ()), value]


class KeyMatcher:
    """Matches the events of one key. ``register``: sets a timer that calls ``advance`` when the watermark, or the clock, reaches a time. ``compare``:
    orders events of one time."""

    __slots__ = ("_compare", "_nfa", "_register", "buffer", "current", "queue", "state")

    def __init__(
        self,
        nfa: NFA,
        state: NFAState,
        buffer: SharedBuffer,
        queue: Queue,
        register: Callable[[int], None],
        compare: Callable[[Any, Any], int] | None = None,
    ) -> None:
        self._nfa, self._register, self._compare = nfa, register, compare
        self.state, self.buffer, self.queue = state, buffer, queue
        self.current: tuple[Any, ...] = ()
        """The event that is being processed; empty before the first one."""

    def advance(self, now: int) -> list[PatternOutcome]:
        """Processes the events up to the watermark, or to the clock's time; returns the matches that they complete, and timed-out ones."""
        found: list[PatternOutcome] = []
        for timestamp in sorted(time for time in self.queue if time <= now):
            self._advance_time(timestamp, found)
            events = self.queue.get(timestamp) or []
            for value in events if self._compare is None else sorted(events, key=cmp_to_key(self._compare)):
                self._process(value, timestamp, found)
            del self.queue[timestamp]
        self._advance_time(now, found)
        return found

    def take(self, value: Any, now: int) -> list[PatternOutcome]:
        """Processes an event in processing time; returns the matches that it completes, and timed-out ones."""
        found: list[PatternOutcome] = []
        self._advance_time(now, found)
        self._process(value, now, found)
        return found

    @property
    def has_begun(self) -> bool:
        """Returns whether there is state to keep besides the automaton's start."""
        return len(self.state.partial) != 1 or len(self.state.completed) > 0

    def _advance_time(self, timestamp: int, found: list[PatternOutcome]) -> None:
        matches, timed_out = self._nfa.advance_time(self.state, self.buffer, timestamp)
        found += [PatternOutcome(match, timestamp) for match in matches]
        found += [PatternOutcome(match, ended, is_timed_out=True) for match, ended in timed_out]

    def _process(self, value: Any, timestamp: int, found: list[PatternOutcome]) -> None:
        self.current = (value,)
        matches = self._nfa.process(self.state, self.buffer, value, timestamp)
        if self.state.has_begun and self._nfa.window_ms > 0:
            self._register(timestamp + self._nfa.window_ms)
            self.state.has_begun = False
        found += [PatternOutcome(match, timestamp) for match in matches]


__all__ = ["KeyMatcher", "PatternOutcome", "Queue", "enqueue"]
