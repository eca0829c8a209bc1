"""An election by compare-and-swap, with and without a request under way: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.high_availability.object_store.lease import (
    ChangeRequested,
    LeadershipRequested,
    Lease,
    LeaseEvent,
    Look,
    Looked,
    NotAnswered,
    ReleaseRequested,
    Seen,
    Swapped,
    SwapRefused,
    Version,
    Woken,
)
from tidegate.high_availability.object_store.ledger import LEADER, Ledger, Put

V1 = Version("1")
OTHER = Ledger(4, 9, "other", 5_000, {LEADER: b"where it is"})
ASKED = ChangeRequested(1, 1, Put("a", b"1"))
EVENTS: dict[str, LeaseEvent] = {
    "its time has come": Woken(),
    "it sees no ledger": Looked(None),
    "it sees another leader": Looked(Seen(OTHER, V1)),
    "its swap is durable": Swapped(V1),
    "its swap is refused": SwapRefused(),
    "no answer": NotAnswered(),
    "it is to get in line": LeadershipRequested(1),
    "it is to give up": ReleaseRequested(),
    "a change": ChangeRequested(2, 1, Put("b", b"2")),
}


def lease(*events: LeaseEvent) -> Lease:
    found = Lease("me", 5_000, 1_000)
    for event in events:
        found.on(event, 0)
        found.check_invariants()
    return found


WATCHING = (Woken(), Looked(None))
IN_LINE = (Woken(), Looked(Seen(OTHER, V1)), LeadershipRequested(1), Looked(Seen(OTHER, V1)))
CLAIMING = (*WATCHING, LeadershipRequested(1), Looked(None))
LEADING = (*CLAIMING, Swapped(V1))
STATES: dict[str, Callable[[], Lease]] = {
    "NEW": lease,
    "NEW, LOOKS": lambda: lease(Woken()),
    "WATCHING": lambda: lease(*WATCHING),
    "WATCHING, LOOKS": lambda: lease(*WATCHING, Woken()),
    "IN_LINE": lambda: lease(*IN_LINE),
    "IN_LINE, LOOKS": lambda: lease(*IN_LINE, Woken()),
    "CLAIMING": lambda: lease(*CLAIMING),
    "LEADING": lambda: lease(*LEADING),
    "WRITING": lambda: lease(*LEADING, ASKED),
    "IN DOUBT": lambda: lease(*LEADING, ASKED, NotAnswered()),
    "IN DOUBT, LOOKS": lambda: lease(*LEADING, ASKED, NotAnswered(), Woken()),
    "LEAVING": lambda: lease(*LEADING, ReleaseRequested()),
}
TABLE = """
event                  | NEW               | NEW, LOOKS              | WATCHING               | WATCHING, LOOKS   | IN_LINE               | IN_LINE, LOOKS           | CLAIMING              | LEADING        | WRITING                 | IN DOUBT                      | IN DOUBT, LOOKS                              | LEAVING
its time has come      | Look ▸ NEW, LOOKS | ·                       | Look ▸ WATCHING, LOOKS | ·                 | Look ▸ IN_LINE, LOOKS | ·                        | ·                     | Swap           | ·                       | Look ▸ IN DOUBT, LOOKS        | ·                                            | ·
it sees no ledger      | AssertionError    | Tell, WakeMe ▸ WATCHING | AssertionError         | WakeMe ▸ WATCHING | AssertionError        | Swap ▸ CLAIMING          | AssertionError        | AssertionError | AssertionError          | AssertionError                | ChangeUnknown, Tell, Tell, WakeMe ▸ WATCHING | AssertionError
it sees another leader | AssertionError    | Tell, WakeMe ▸ WATCHING | AssertionError         | WakeMe ▸ WATCHING | AssertionError        | WakeMe ▸ IN_LINE         | AssertionError        | AssertionError | AssertionError          | AssertionError                | ChangeUnknown, Tell, Tell, WakeMe ▸ WATCHING | AssertionError
its swap is durable    | AssertionError    | AssertionError          | AssertionError         | AssertionError    | AssertionError        | AssertionError           | Tell, Swap ▸ LEADING  | AssertionError | Done, Swap ▸ LEADING    | AssertionError                | AssertionError                               | GaveUp, WakeMe ▸ WATCHING
its swap is refused    | AssertionError    | AssertionError          | AssertionError         | AssertionError    | AssertionError        | AssertionError           | Look ▸ IN_LINE, LOOKS | AssertionError | Look ▸ LEADING          | AssertionError                | AssertionError                               | Look
no answer              | AssertionError    | WakeMe ▸ NEW            | AssertionError         | WakeMe ▸ WATCHING | AssertionError        | WakeMe ▸ IN_LINE         | WakeMe ▸ IN_LINE      | AssertionError | WakeMe ▸ IN DOUBT       | AssertionError                | WakeMe ▸ IN DOUBT                            | GaveUp, WakeMe ▸ WATCHING
it is to get in line   | ·                 | ·                       | Look ▸ IN_LINE, LOOKS  | ▸ IN_LINE, LOOKS  | ·                     | ·                        | ·                     | ·              | ·                       | ·                             | ·                                            | ·
it is to give up       | GaveUp            | GaveUp                  | GaveUp                 | GaveUp            | GaveUp ▸ WATCHING     | GaveUp ▸ WATCHING, LOOKS | ·                     | Swap ▸ LEAVING | ChangeUnknown ▸ LEAVING | ChangeUnknown, Look ▸ LEAVING | ChangeUnknown ▸ LEAVING                      | ·
a change               | ChangeRefused     | ChangeRefused           | ChangeRefused          | ChangeRefused     | ChangeRefused         | ChangeRefused            | ChangeRefused         | Swap ▸ WRITING | ·                       | ·                             | ·                                            | ChangeRefused
"""


def state_of(found: Lease) -> str:
    looks = ", LOOKS" if isinstance(found._in_flight, Look) else ""
    if not found.session:
        return f"NEW{looks}"
    if not found.leads:
        return f"{found.state.value}{looks}"
    if found._is_leaving:
        return "LEAVING"
    if found._must_look:
        return f"IN DOUBT{looks}"
    return "WRITING" if found._sent else "LEADING"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 1_000), lambda: state_of(found)) == expected


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, LeaseEvent)
