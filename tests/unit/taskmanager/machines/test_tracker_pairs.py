"""Checkpoint 4 over two channels, at least once: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.taskmanager.machines.alignment import (
    AlignmentEvent,
    AlignmentTimedOut,
    BarrierAnnounced,
    BarrierArrived,
    CancelBarrierArrived,
    ChannelDrained,
    ChannelEnded,
    CheckpointAborted,
)
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler


def barrier(checkpoint_id: int) -> Barrier:
    return Barrier(checkpoint_id, 1000, CheckpointOptions("mem"))


EVENTS: dict[str, AlignmentEvent] = {
    "its barrier in 1": BarrierArrived(1, barrier(4)),
    "a newer barrier in 1": BarrierArrived(1, barrier(5)),
    "an older barrier in 1": BarrierArrived(1, barrier(3)),
    "its cancel barrier in 1": CancelBarrierArrived(1, 4),
    "a newer cancel barrier in 1": CancelBarrierArrived(1, 5),
    "an older cancel barrier in 1": CancelBarrierArrived(1, 3),
    "the end of 1": ChannelEnded(1),
    "its trigger": barrier(4),
    "an older trigger": barrier(3),
    "its abort": CheckpointAborted(4),
    "another abort": CheckpointAborted(3),
    "an announcement": BarrierAnnounced(1, barrier(4)),
    "a drained channel": ChannelDrained(1, 4),
    "a timer": AlignmentTimedOut(4),
}


def handler(*events: AlignmentEvent) -> TrackingHandler:
    found = TrackingHandler(range(2), last_id=3)
    for event in events:
        found.on(event, 1000.0)
        found.check_invariants()
    return found


STATES: dict[str, Callable[[], TrackingHandler]] = {
    "IDLE": handler,
    "COUNTING": lambda: handler(BarrierArrived(0, barrier(4))),
    "GIVEN UP": lambda: handler(BarrierArrived(0, barrier(4)), CheckpointAborted(4)),
    "HOLDING": lambda: handler(barrier(4)),
    "PAST": lambda: handler(BarrierArrived(0, barrier(4)), BarrierArrived(1, barrier(4))),
    "ALL ENDED": lambda: handler(ChannelEnded(0), ChannelEnded(1)),
}
TABLE = """
event                        | IDLE                      | COUNTING                                  | GIVEN UP       | HOLDING        | PAST                      | ALL ENDED
its barrier in 1             | ▸ COUNTING                | StartSnapshot ▸ PAST                      | ▸ PAST         | ·              | ·                         | StartSnapshot
a newer barrier in 1         | ▸ COUNTING                | ·                                         | ▸ COUNTING     | ·              | ▸ COUNTING                | StartSnapshot
an older barrier in 1        | ·                         | ·                                         | ·              | ·              | ·                         | ·
its cancel barrier in 1      | AbortAlignment ▸ GIVEN UP | AbortAlignment ▸ PAST                     | ▸ PAST         | AbortAlignment | ·                         | AbortAlignment
a newer cancel barrier in 1  | AbortAlignment ▸ GIVEN UP | AbortAlignment, AbortAlignment ▸ GIVEN UP | AbortAlignment | AbortAlignment | AbortAlignment ▸ GIVEN UP | AbortAlignment
an older cancel barrier in 1 | ·                         | ·                                         | ·              | ·              | ·                         | ·
the end of 1                 | ·                         | StartSnapshot ▸ PAST                      | ▸ PAST         | ·              | ·                         | ·
its trigger                  | ▸ HOLDING                 | ·                                         | ·              | ·              | ·                         | StartSnapshot
an older trigger             | ·                         | ·                                         | ·              | ·              | ·                         | ·
its abort                    | ·                         | AbortAlignment ▸ GIVEN UP                 | ·              | ▸ IDLE         | ·                         | ·
another abort                | ·                         | ·                                         | ·              | ·              | ·                         | ·
an announcement              | ·                         | ·                                         | ·              | ·              | ·                         | ·
a drained channel            | ·                         | ·                                         | ·              | ·              | ·                         | ·
a timer                      | ·                         | ·                                         | ·              | ·              | ·                         | ·
"""


def state_of(found: TrackingHandler) -> str:
    if found._held is not None:
        return "HOLDING"
    if not found._open:
        return "ALL ENDED"
    if found.collecting is not None:
        return "COUNTING"
    if found._entries:
        return "GIVEN UP"
    return "IDLE" if found._last_id == 3 else "PAST"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 1000.0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, AlignmentEvent)
