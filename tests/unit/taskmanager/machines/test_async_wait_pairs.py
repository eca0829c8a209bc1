"""Two calls at once, in any order: every state of the queue meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.taskmanager.machines.async_wait import (
    AsyncWaitEvent,
    AsyncWaitQueue,
    MarkArrived,
    RecordArrived,
    RecordCompleted,
)

EVENTS: dict[str, AsyncWaitEvent] = {
    "a record": RecordArrived(9),
    "a mark": MarkArrived(9),
    "the first one is done": RecordCompleted(0),
    "the second one is done": RecordCompleted(1),
}


def queue(*events: AsyncWaitEvent) -> AsyncWaitQueue:
    found = AsyncWaitQueue(capacity=2, ordered=False)
    for event in events:
        found.on(event)
        found.check_invariants()
    return found


STATES: dict[str, Callable[[], AsyncWaitQueue]] = {
    "EMPTY": queue,
    "ROOM": lambda: queue(RecordArrived(0)),
    "FULL": lambda: queue(RecordArrived(0), RecordArrived(1)),
    "WAITING": lambda: queue(RecordArrived(0), RecordArrived(1), RecordArrived(2)),
    "MARK BETWEEN": lambda: queue(RecordArrived(0), MarkArrived(8), RecordArrived(1)),
}
TABLE = """
event                  | EMPTY         | ROOM                | FULL               | WAITING                    | MARK BETWEEN
a record               | Invoke ▸ ROOM | Invoke ▸ FULL       | ▸ WAITING          | ·                          | ·
a mark                 | PassMark      | ·                   | ·                  | ·                          | ·
the first one is done  | KeyError      | EmitResults ▸ EMPTY | EmitResults ▸ ROOM | EmitResults, Invoke ▸ FULL | EmitResults, PassMark ▸ ROOM
the second one is done | KeyError      | KeyError            | EmitResults ▸ ROOM | EmitResults, Invoke ▸ FULL | ·
"""


def state_of(found: AsyncWaitQueue) -> str:
    if found.is_empty:
        return "EMPTY"
    if len(found._segments) > 1:
        return "MARK BETWEEN"
    return "WAITING" if found._waiting else "ROOM" if found.has_room else "FULL"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event]), lambda: state_of(found)) == expected


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, AsyncWaitEvent)
