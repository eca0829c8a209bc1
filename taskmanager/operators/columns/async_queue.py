"""The queue of asynchronous calls for batches: which calls run, and which rows may be emitted, ordered or unordered.

    BatchArrived ─▶ its calls, one for several rows ── capacity ──▶ InvokeCall ── CallsCompleted ─▶ its rows ── their turn ──▶ EmitRows
    BatchMarkArrived (a watermark, a status) ─▶ PassBatchMark, when everything before it was emitted

Laws. Every call is invoked once, in the order of arrival, and at most ``capacity`` run at a time, of however many batches. Every row is emitted once, when its
call is complete; a row without a call waits for its turn only. No mark overtakes a row, and no row a mark. Ordered: rows are emitted in the order of arrival.
Unordered: in the order of completion between two marks. ``has_room`` is false while as many rows wait as calls may run; the last batch may be larger. It is
``async_wait`` for rows that share calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BatchArrived:
    """A batch of rows has arrived, with the calls that they need; several rows may share one.

    ``number``: counts up over batches and marks. ``codes``: for each row the number of its call, from 0 on; -1 where it needs none. ``calls``: how many there
    are. ``completed``: those whose results are known already.
    """

    number: int
    codes: Positions
    calls: int
    completed: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class BatchMarkArrived:
    """A watermark, a status or an event arrived."""

    number: int


@dataclass(frozen=True, slots=True)
class CallsCompleted:
    """Results of calls have arrived. ``calls``: each as the number of its batch and its own. The rows that they complete are emitted together."""

    calls: Sequence[tuple[int, int]]


AsyncBatchesEvent = BatchArrived | BatchMarkArrived | CallsCompleted


@dataclass(frozen=True, slots=True)
class InvokeCall:
    """Starts a call of a batch. ``call``: its number in the batch."""

    number: int
    call: int


@dataclass(frozen=True, slots=True, eq=False)
class EmitRows:
    """Emits rows of a batch. ``rows``: their positions in the batch, ascending. ``is_last``: no row of the batch is left."""

    number: int
    rows: Positions
    is_last: bool


@dataclass(frozen=True, slots=True)
class PassBatchMark:
    """Passes on a mark."""

    number: int


AsyncBatchesCommand = InvokeCall | EmitRows | PassBatchMark


@dataclass(slots=True)
class _Held:
    """A batch: the rows that were not emitted, and which calls are complete; the last entry stands for rows without a call."""

    number: int
    codes: Positions
    rows: Positions
    completed: npt.NDArray[np.bool_]


class AsyncBatchesQueue:
    """The queue of an asynchronous operator on batches. ``capacity``: the most calls that run at a time. ``ordered``: rows are emitted in the order of
    arrival.
    """

    def __init__(self, *, capacity: int, ordered: bool) -> None:
        assert capacity > 0, capacity
        self._capacity = capacity
        self._ordered = ordered
        self._elements: deque[_Held | int] = deque()
        """Batches with rows, and marks by number, in the order of arrival."""
        self._held: dict[int, _Held] = {}
        self._waiting: deque[InvokeCall] = deque()
        self._running = 0
        self._rows = 0

    @property
    def has_room(self) -> bool:
        """Whether a further batch is accepted."""
        return self._rows < self._capacity

    @property
    def is_empty(self) -> bool:
        return not self._elements

    @property
    def in_flight(self) -> list[tuple[int, Positions | None]]:
        """The batches with the positions of the rows that were not emitted, and the marks, with ``None``, in the order of arrival."""
        return [(one, None) if isinstance(one, int) else (one.number, one.rows) for one in self._elements]

    def on(self, event: AsyncBatchesEvent, now_ms: float = 0.0) -> Sequence[AsyncBatchesCommand]:
        match event:
            case BatchArrived():
                self._add(event)
            case BatchMarkArrived(number):
                self._elements.append(number)
            case CallsCompleted(calls):
                for number, call in calls:
                    self._held[number].completed[call] = True
                self._running -= len(calls)
            case _:
                assert_never(event)
        commands = self._emitted()
        while self._waiting and self._running < self._capacity:
            self._running += 1
            commands.append(self._waiting.popleft())
        return commands

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when batches, calls and rows contradict each other."""
        batches = [one for one in self._elements if not isinstance(one, int)]
        assert list(self._held) == [one.number for one in batches], "batches are held that are not in the queue"
        assert self._rows == sum(len(one.rows) for one in batches), f"{self._rows} rows are counted"
        assert all(len(one.rows) for one in batches), "a batch without rows stays"
        assert 0 <= self._running <= self._capacity, f"{self._running} calls run, {self._capacity} may"
        assert not (self._waiting and self._running < self._capacity), f"{len(self._waiting)} calls wait, and may run"
        assert all(one.number in self._held for one in self._waiting), "a call waits for a batch that was emitted"
        if self._elements:
            first = self._elements[0]
            assert not isinstance(first, int), "a mark is first, and was not passed"
            assert not self._ordered or not first.completed[first.codes[first.rows[0]]], "the first row is complete"

    def _add(self, event: BatchArrived) -> None:
        if not len(event.codes):
            return
        completed = np.zeros(event.calls + 1, np.bool_)
        completed[-1] = True
        completed[list(event.completed)] = True
        held = _Held(event.number, event.codes, np.arange(len(event.codes)), completed)
        self._elements.append(held)
        self._held[event.number] = held
        self._rows += len(event.codes)
        self._waiting += [InvokeCall(event.number, call) for call in range(event.calls) if not completed[call]]

    def _emitted(self) -> list[AsyncBatchesCommand]:
        """Takes the rows out of the queue that may leave, and the marks that nothing is in front of."""
        commands: list[AsyncBatchesCommand] = []
        kept: list[_Held] = []
        while self._elements:
            first = self._elements[0]
            if isinstance(first, int):
                if kept:
                    break
                commands.append(PassBatchMark(first))
                self._elements.popleft()
                continue
            rows = self._complete_rows(first)
            if len(rows):
                self._rows -= len(rows)
                commands.append(EmitRows(first.number, rows, not len(first.rows)))
            if len(first.rows):
                if self._ordered:
                    break
                kept.append(first)
            else:
                del self._held[first.number]
            self._elements.popleft()
        self._elements.extendleft(reversed(kept))
        return commands

    def _complete_rows(self, held: _Held) -> Positions:
        """Takes the complete rows of a batch out of it: if ordered, those in front of the first that is not complete."""
        is_complete = held.completed[held.codes[held.rows]]
        if self._ordered:
            end = len(is_complete) if is_complete.all() else int(is_complete.argmin())
            rows, held.rows = held.rows[:end], held.rows[end:]
        else:
            rows, held.rows = held.rows[is_complete], held.rows[~is_complete]
        return rows


__all__ = [
    "AsyncBatchesCommand",
    "AsyncBatchesEvent",
    "AsyncBatchesQueue",
    "BatchArrived",
    "BatchMarkArrived",
    "CallsCompleted",
    "EmitRows",
    "InvokeCall",
    "PassBatchMark",
    "Positions",
]
