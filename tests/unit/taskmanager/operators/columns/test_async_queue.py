"""The queue of asynchronous calls for batches: what is invoked when, and which rows leave in which order; every state meets every event."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pairs import answer, assert_every_pair, cells
from tidegate.taskmanager.operators.columns.async_queue import (
    AsyncBatchesCommand,
    AsyncBatchesEvent,
    AsyncBatchesQueue,
    BatchArrived,
    BatchMarkArrived,
    CallsCompleted,
    EmitRows,
    InvokeCall,
    PassBatchMark,
)


def batch(number: int, *codes: int, completed: Sequence[int] = ()) -> BatchArrived:
    return BatchArrived(number, np.array(codes, np.int64), max(codes, default=-1) + 1, completed)


def done(*calls: tuple[int, int]) -> CallsCompleted:
    return CallsCompleted(calls)


def shown(commands: Sequence[AsyncBatchesCommand]) -> list[tuple[object, ...]]:
    """``EmitRows`` cannot be compared, as its rows are an array."""
    return [
        (one.number, *one.rows.tolist(), *(["last"] if one.is_last else []))
        if isinstance(one, EmitRows)
        else (type(one), *(getattr(one, name) for name in one.__dataclass_fields__))
        for one in commands
    ]


def made(*events: AsyncBatchesEvent, capacity: int = 3, ordered: bool = False) -> AsyncBatchesQueue:
    found = AsyncBatchesQueue(capacity=capacity, ordered=ordered)
    for event in events:
        found.on(event)
        found.check_invariants()
    return found


def test_the_calls_of_several_batches_run_at_the_same_time_up_to_the_capacity() -> None:
    queue = made()
    assert shown(queue.on(batch(1, 0, 1))) == [(InvokeCall, 1, 0), (InvokeCall, 1, 1)]
    assert queue.has_room
    assert shown(queue.on(batch(2, 0, 1))) == [(InvokeCall, 2, 0)]
    assert not queue.has_room
    assert shown(queue.on(done((2, 0)))) == [(2, 0), (InvokeCall, 2, 1)]


def test_rows_that_share_a_call_leave_together_and_those_without_one_at_once() -> None:
    queue = made()
    assert shown(queue.on(batch(1, 0, -1, 0, 1))) == [(1, 1), (InvokeCall, 1, 0), (InvokeCall, 1, 1)]
    assert shown(queue.on(done((1, 0)))) == [(1, 0, 2)]
    assert shown(queue.on(done((1, 1)))) == [(1, 3, "last")]
    assert queue.is_empty


def test_ordered_rows_wait_for_those_in_front_of_them() -> None:
    queue = made(ordered=True)
    queue.on(batch(1, 0, 1, -1))
    queue.on(batch(2, 0))
    assert shown(queue.on(done((1, 1)))) == []
    assert shown(queue.on(done((2, 0)))) == []
    assert shown(queue.on(done((1, 0)))) == [(1, 0, 1, 2, "last"), (2, 0, "last")]


def test_calls_whose_results_are_known_are_not_invoked() -> None:
    assert shown(made(ordered=True).on(batch(1, 1, 0, completed=[1]))) == [(1, 0), (InvokeCall, 1, 0)]
    assert shown(made().on(batch(1, 1, 0, completed=[0, 1]))) == [(1, 0, 1, "last")]


def test_no_mark_overtakes_a_row_and_no_row_a_mark() -> None:
    queue = made(batch(1, 0), BatchMarkArrived(2), batch(3, 0))
    assert shown(queue.on(done((3, 0)))) == []
    assert shown(queue.on(done((1, 0)))) == [(1, 0, "last"), (PassBatchMark, 2), (3, 0, "last")]


def test_a_snapshot_finds_the_rows_that_were_not_emitted_and_the_marks() -> None:
    queue = made(batch(1, 0, 1), BatchMarkArrived(2), batch(3, 0))
    queue.on(done((1, 0)))
    assert [(number, None if rows is None else rows.tolist()) for number, rows in queue.in_flight] == [
        (1, [1]),
        (2, None),
        (3, [0]),
    ]


def test_a_batch_without_rows_changes_nothing() -> None:
    assert shown(made().on(batch(1))) == []
    assert made(batch(1)).is_empty


@given(st.integers(1, 4), st.booleans(), st.lists(st.lists(st.integers(-1, 3), max_size=6), max_size=8), st.randoms())
def test_everything_leaves_once_and_in_its_order(
    capacity: int, ordered: bool, batches: list[list[int]], chance: random.Random
) -> None:
    queue = AsyncBatchesQueue(capacity=capacity, ordered=ordered)
    running: list[tuple[int, int]] = []
    left: list[tuple[int, int]] = []
    came: list[tuple[int, int]] = []

    def obey(commands: Sequence[AsyncBatchesCommand]) -> None:
        queue.check_invariants()
        for command in commands:
            if isinstance(command, InvokeCall):
                running.append((command.number, command.call))
            elif isinstance(command, EmitRows):
                left.extend((command.number, row) for row in command.rows.tolist())
            else:
                left.append((command.number, -1))
        assert len(running) <= capacity

    def complete() -> None:
        obey(queue.on(CallsCompleted([running.pop(chance.randrange(len(running)))])))

    for number, codes in enumerate(batches):
        if not codes:
            came.append((number, -1))
            obey(queue.on(BatchMarkArrived(number)))
            continue
        used = sorted(set(codes) - {-1})
        came += [(number, row) for row in range(len(codes))]
        places = np.array([used.index(code) if code >= 0 else -1 for code in codes], np.int64)
        obey(queue.on(BatchArrived(number, places, len(used))))
        if running and chance.random() < 0.5:
            complete()
    while running:
        complete()
    assert queue.is_empty
    assert between_marks(left) == between_marks(came)
    assert not ordered or left == came


def between_marks(items: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    return [sorted(part) for _, part in itertools.groupby(items, key=lambda item: item[1] < 0)]


EVENTS: dict[str, AsyncBatchesEvent] = {
    "a batch": batch(9, 0),
    "a mark": BatchMarkArrived(9),
    "the first one is done": done((0, 0)),
    "the second one is done": done((1, 0)),
}
STATES: dict[str, Callable[[], AsyncBatchesQueue]] = {
    "EMPTY": lambda: made(capacity=2),
    "ROOM": lambda: made(batch(0, 0), capacity=2),
    "FULL": lambda: made(batch(0, 0), batch(1, 0), capacity=2),
    "WAITING": lambda: made(batch(0, 0), batch(1, 0), batch(2, 0), capacity=2),
    "MARK BETWEEN": lambda: made(batch(0, 0), BatchMarkArrived(8), batch(1, 0), capacity=2),
}
TABLE = """
event                  | EMPTY             | ROOM              | FULL            | WAITING                     | MARK BETWEEN
a batch                | InvokeCall ▸ ROOM | InvokeCall ▸ FULL | ▸ WAITING       | ·                           | ·
a mark                 | PassBatchMark     | ▸ MARK BETWEEN    | ▸ MARK BETWEEN  | ▸ MARK BETWEEN              | ·
the first one is done  | KeyError          | EmitRows ▸ EMPTY  | EmitRows ▸ ROOM | EmitRows, InvokeCall ▸ FULL | EmitRows, PassBatchMark ▸ ROOM
the second one is done | KeyError          | KeyError          | EmitRows ▸ ROOM | EmitRows, InvokeCall ▸ FULL | ·
"""


def state_of(found: AsyncBatchesQueue) -> str:
    if found.is_empty:
        return "EMPTY"
    if any(rows is None for _, rows in found.in_flight):
        return "MARK BETWEEN"
    return "WAITING" if found._waiting else "ROOM" if found.has_room else "FULL"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event]), lambda: state_of(found)) == expected


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, AsyncBatchesEvent)
