"""One write of the job store: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.jobmanager.machines.fenced_writes import (
    FencedWrites,
    TermOver,
    WriteDone,
    WriteDue,
    WriteRefused,
    WriteRequested,
    WritesEvent,
    WritesPaused,
    WritesResumed,
    WriteUnanswered,
)

EVENTS: dict[str, WritesEvent] = {
    "another one of its lane": WriteRequested("a", 9),
    "it is done": WriteDone(1),
    "it is not answered": WriteUnanswered(1),
    "it is refused": WriteRefused(1),
    "it is due again": WriteDue(1),
    "the store pauses": WritesPaused(),
    "the store goes on": WritesResumed(),
    "the term is over": TermOver(),
}


def writes(*events: WritesEvent) -> FencedWrites:
    found = FencedWrites()
    for event in events:
        found.on(event, 0)
        found.check_invariants()
    return found


ASKED = WriteRequested("a", 1)
STATES: dict[str, Callable[[], FencedWrites]] = {
    "UNKNOWN": writes,
    "UNDER WAY": lambda: writes(ASKED),
    "TO BE REPEATED": lambda: writes(ASKED, WriteUnanswered(1)),
    "BEHIND ANOTHER": lambda: writes(WriteRequested("a", 0), ASKED),
    "PAUSED": lambda: writes(ASKED, WritesPaused()),
    "DONE IN A PAUSE": lambda: writes(ASKED, WritesPaused(), WriteDone(1)),
    "OVER": lambda: writes(ASKED, TermOver()),
}
TABLE = """
event                   | UNKNOWN | UNDER WAY               | TO BE REPEATED         | BEHIND ANOTHER                  | PAUSED                 | DONE IN A PAUSE        | OVER
another one of its lane | Write   | ·                       | ·                      | ·                               | ·                      | ·                      | Abandon
it is done              | ·       | Grant ▸ UNKNOWN         | Grant ▸ UNKNOWN        | AssertionError                  | ▸ DONE IN A PAUSE      | ·                      | ·
it is not answered      | ·       | WakeUp ▸ TO BE REPEATED | WakeUp                 | WakeUp                          | WakeUp                 | WakeUp                 | ·
it is refused           | ·       | Resign, Abandon ▸ OVER  | Resign, Abandon ▸ OVER | Resign, Abandon, Abandon ▸ OVER | Resign, Abandon ▸ OVER | Resign, Abandon ▸ OVER | ·
it is due again         | ·       | ·                       | Write ▸ UNDER WAY      | ·                               | ·                      | ·                      | ·
the store pauses        | ·       | ▸ PAUSED                | ▸ PAUSED               | ▸ PAUSED                        | ·                      | ·                      | ·
the store goes on       | ·       | ·                       | Write ▸ UNDER WAY      | ·                               | ▸ UNDER WAY            | Grant ▸ UNKNOWN        | ·
the term is over        | ▸ OVER  | Abandon ▸ OVER          | Abandon ▸ OVER         | Abandon, Abandon ▸ OVER         | Abandon ▸ OVER         | Abandon ▸ OVER         | ·
"""


def state_of(found: FencedWrites) -> str:
    if found.is_over:
        return "OVER"
    if 1 not in found._lane_of:
        return "UNKNOWN"
    if found.is_paused:
        return "DONE IN A PAUSE" if 1 in found._done else "PAUSED"
    if found._lanes["a"][0] != 1:
        return "BEHIND ANOTHER"
    return "UNDER WAY" if 1 in found._under_way else "TO BE REPEATED"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, WritesEvent)
