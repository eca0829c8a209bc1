"""Every pair of a state and an event of the election's machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidegate.jobmanager.machines.leadership import (
    GiveUpLock,
    Leadership,
    LeadershipCommand,
    LeadershipEvent,
    LeadershipState,
    PauseCommits,
    ResumeCommits,
    StartLeading,
    StopLeading,
    WaitForTurn,
)
from tidegate.model.leadership import Connected, LockAcquired, Lost, ResignationRequested, StoreRefused, Suspended

S = LeadershipState


def machine(*events: LeadershipEvent) -> Leadership:
    found = Leadership()
    for event in events:
        found.on(event, 0)
        found.check_invariants()
    return found


IN_LINE = (Connected(1),)
LEADS = (*IN_LINE, LockAcquired(1, 7))
PAUSED = (*LEADS, Suspended())
ENDED = (*LEADS, ResignationRequested())
STOP = StopLeading(7, "x")


TABLE: list[tuple[Sequence[LeadershipEvent], LeadershipEvent, Sequence[LeadershipCommand], LeadershipState]] = [
    ((), Connected(1), [WaitForTurn(1)], S.STANDBY),
    ((), Suspended(), [], S.CONNECTING),
    ((), Lost(), [], S.CONNECTING),
    ((), LockAcquired(1, 7), [], S.CONNECTING),
    ((), StoreRefused(7), [], S.CONNECTING),
    ((), ResignationRequested(), [GiveUpLock()], S.ENDED),
    (IN_LINE, Connected(1), [], S.STANDBY),
    (IN_LINE, Connected(2), [WaitForTurn(2)], S.STANDBY),
    (IN_LINE, Suspended(), [], S.CONNECTING),
    (IN_LINE, Lost(), [], S.CONNECTING),
    (IN_LINE, LockAcquired(1, 7), [StartLeading(7)], S.LEADING),
    (IN_LINE, LockAcquired(9, 7), [], S.STANDBY),
    (IN_LINE, StoreRefused(7), [], S.STANDBY),
    (IN_LINE, ResignationRequested(), [GiveUpLock()], S.ENDED),
    ((*IN_LINE, Suspended()), Connected(1), [], S.STANDBY),
    ((*IN_LINE, Suspended(), LockAcquired(1, 7)), Connected(1), [StartLeading(7)], S.LEADING),
    ((*IN_LINE, Suspended(), LockAcquired(1, 7)), Connected(2), [WaitForTurn(2)], S.STANDBY),
    ((*IN_LINE, Lost()), LockAcquired(1, 7), [], S.CONNECTING),
    (LEADS, Connected(1), [], S.LEADING),
    (LEADS, Connected(2), [StopLeading(7, "its session is over"), WaitForTurn(2)], S.STANDBY),
    (LEADS, Suspended(), [PauseCommits()], S.PAUSED),
    (LEADS, Lost("x"), [STOP], S.CONNECTING),
    (LEADS, LockAcquired(1, 8), [], S.LEADING),
    (LEADS, StoreRefused(7, "x"), [STOP, GiveUpLock(), WaitForTurn(1)], S.STANDBY),
    (LEADS, StoreRefused(6, "x"), [], S.LEADING),
    (LEADS, ResignationRequested(), [StopLeading(7, "the process ends"), GiveUpLock()], S.ENDED),
    (PAUSED, Connected(1), [ResumeCommits()], S.LEADING),
    (PAUSED, Connected(2), [StopLeading(7, "its session is over"), WaitForTurn(2)], S.STANDBY),
    (PAUSED, Suspended(), [], S.PAUSED),
    (PAUSED, Lost("x"), [STOP], S.CONNECTING),
    (PAUSED, StoreRefused(7, "x"), [STOP, GiveUpLock(), WaitForTurn(1)], S.STANDBY),
    (PAUSED, ResignationRequested(), [StopLeading(7, "the process ends"), GiveUpLock()], S.ENDED),
    ((*LEADS, Lost(), Connected(2)), LockAcquired(2, 7), [], S.STANDBY),
    ((*LEADS, Lost(), Connected(2)), LockAcquired(2, 8), [StartLeading(8)], S.LEADING),
    (ENDED, Connected(2), [], S.ENDED),
    (ENDED, LockAcquired(1, 8), [GiveUpLock()], S.ENDED),
    (ENDED, Lost(), [], S.ENDED),
    (PAUSED, LockAcquired(1, 8), [], S.PAUSED),
    (ENDED, Suspended(), [], S.ENDED),
    (ENDED, StoreRefused(7), [], S.ENDED),
    (ENDED, ResignationRequested(), [], S.ENDED),
]


@pytest.mark.parametrize(("before", "event", "commands", "state"), TABLE)
def test_what_happens_in_a_state(
    before: Sequence[LeadershipEvent],
    event: LeadershipEvent,
    commands: Sequence[LeadershipCommand],
    state: LeadershipState,
) -> None:
    leadership = machine(*before)
    assert list(leadership.on(event, 0)) == list(commands)
    leadership.check_invariants()
    assert leadership.state is state


def test_every_state_meets_every_event() -> None:
    met = {(machine(*before).state, type(event)) for before, event, _, _ in TABLE}
    assert met == {(state, kind) for state in LeadershipState for kind in LeadershipEvent.__args__}
