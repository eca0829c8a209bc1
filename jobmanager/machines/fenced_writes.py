"""Orders writes to the job store under a leader's fencing token: per job in the order of the requests, each granted only once it is durable.

    WriteRequested ─▶ Write ──┬─ WriteDone ──────▶ Grant: what depends on it may happen, such as a confirm, a deployment, a removal of files
                          ├─ WriteUnanswered ─▶ Write again, when WriteDue: a write is made so that a second one does no harm
                          └─ WriteRefused ────▶ Deposed: everything is abandoned, now and later

Laws: nothing is granted before its write is durable; the writes of a job keep their order, so a pointer moves before the checkpoint before it
is removed, and a result is stored before its job is cleaned up; while paused none is begun or granted; after the end of the term none is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

RETRY_MS = 200
"""The pause before a failed write is repeated, in ms. Chosen, not measured: storage that failed once mostly answers soon."""


@dataclass(frozen=True, slots=True)
class WriteRequested:
    """A write is requested. ``lane``: writes of one lane keep their order. ``number``: unique."""

    lane: str
    number: int


@dataclass(frozen=True, slots=True)
class WriteDone:
    """A write to the job store is durable."""

    number: int


@dataclass(frozen=True, slots=True)
class WriteUnanswered:
    """A write failed with an unknown outcome: it may have happened."""

    number: int


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """The store refused a write because a later leader exists."""

    number: int


@dataclass(frozen=True, slots=True)
class WriteDue:
    """The pause before a write is repeated is over."""

    number: int


@dataclass(frozen=True, slots=True)
class WritesPaused:
    """The connection to the store is suspended."""


@dataclass(frozen=True, slots=True)
class WritesResumed:
    """The connection to the store is back and the term continues."""


@dataclass(frozen=True, slots=True)
class TermOver:
    """This process is not the leader any longer."""


WritesEvent = (
    WriteRequested | WriteDone | WriteUnanswered | WriteRefused | WriteDue | WritesPaused | WritesResumed | TermOver
)


@dataclass(frozen=True, slots=True)
class Write:
    """Orders a write to the job store."""

    number: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Allows what depends on a write that is now durable."""

    number: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Drops a write; what depends on it must not happen, whether or not it was written."""

    number: int


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Asks for a ``WriteDue`` after ``delay_ms``."""

    number: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Resign:
    """Gives up leadership because the store has a later leader."""


WritesCommand = Write | Grant | Abandon | WakeUp | Resign


class FencedWrites:
    """The writes of one term of leadership."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[int]] = {}
        self._lane_of: dict[int, str] = {}
        self._under_way: set[int] = set()
        self._done: list[int] = []
        """Writes that are durable and not granted yet because of a pause."""
        self.is_paused = False
        self.is_over = False

    def on(self, event: WritesEvent, now_ms: int) -> Sequence[WritesCommand]:
        del now_ms
        match event:
            case WriteRequested():
                return self._on_requested(event)
            case WriteDone():
                return self._on_done(event.number)
            case WriteUnanswered():
                self._under_way.discard(event.number)
                return () if self._is_stale(event.number) else (WakeUp(event.number, RETRY_MS),)
            case WriteRefused():
                return () if self._is_stale(event.number) else [Resign(), *self._end()]
            case WriteDue():
                return self._begin(event.number)
            case WritesPaused():
                self.is_paused = True
                return ()
            case WritesResumed():
                return self._resume()
            case TermOver():
                return self._end()
            case _:
                assert_never(event)

    def _on_requested(self, event: WriteRequested) -> Sequence[WritesCommand]:
        if self.is_over:
            return (Abandon(event.number),)
        lane = self._lanes.setdefault(event.lane, deque())
        lane.append(event.number)
        self._lane_of[event.number] = event.lane
        return self._begin(event.number)

    def _on_done(self, number: int) -> Sequence[WritesCommand]:
        self._under_way.discard(number)
        if self._is_stale(number):
            return ()
        assert self._is_first(number), f"write {number} is done, and was never begun"
        if self.is_paused:
            self._done.append(number)
            return ()
        return self._grant(number)

    def _grant(self, number: int) -> Sequence[WritesCommand]:
        name = self._lane_of.pop(number)
        lane = self._lanes[name]
        lane.popleft()
        if not lane:
            del self._lanes[name]
            return (Grant(number),)
        return [Grant(number), *self._begin(lane[0])]

    def _begin(self, number: int) -> Sequence[WritesCommand]:
        """Begins the write if it is the first of its lane, is not under way, and nothing blocks it."""
        is_blocked = self.is_paused or self._is_stale(number) or number in self._under_way or number in self._done
        if is_blocked or not self._is_first(number):
            return ()
        self._under_way.add(number)
        return (Write(number),)

    def _resume(self) -> Sequence[WritesCommand]:
        self.is_paused = False
        done, self._done = self._done, []
        granted = [command for number in done for command in self._grant(number)]
        return [*granted, *(command for lane in list(self._lanes.values()) for command in self._begin(lane[0]))]

    def _end(self) -> Sequence[WritesCommand]:
        self.is_over = True
        abandoned = [Abandon(number) for number in sorted(self._lane_of)]
        self._lanes.clear()
        self._lane_of.clear()
        self._under_way.clear()
        self._done.clear()
        return abandoned

    def _is_stale(self, number: int) -> bool:
        return number not in self._lane_of

    def _is_first(self, number: int) -> bool:
        """Tells whether the write is the oldest of its lane."""
        return self._lanes[self._lane_of[number]][0] == number

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the machine contradicts itself. Called between events."""
        waiting = [number for lane in self._lanes.values() for number in lane]
        assert sorted(waiting) == sorted(self._lane_of), f"{waiting} wait, and {self._lane_of} is known"
        heads = {lane[0] for lane in self._lanes.values()}
        assert self._under_way <= heads, f"{self._under_way - heads} are under way before what was asked earlier"
        assert set(self._done) <= heads, f"{self._done} are done before what was asked earlier"
        assert not (self.is_over and waiting), f"the term is over, and {waiting} wait"
