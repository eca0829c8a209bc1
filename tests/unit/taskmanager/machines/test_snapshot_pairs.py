"""Checkpoint 5 in a subtask that was restored from checkpoint 3: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason
from tidegate.model.errors import ErrorInfo
from tidegate.taskmanager.machines.snapshot import (
    AbortReceived,
    AlignmentAborted,
    ConfirmReceived,
    SnapshotCoordinator,
    SnapshotEvent,
    SnapshotFailed,
    SnapshotWritten,
    SubtaskStopped,
)

BARRIER = Barrier(5, 1000, CheckpointOptions("mem"))
WRITTEN = SnapshotWritten(5)
EVENTS: dict[str, SnapshotEvent] = {
    "its barrier": BARRIER,
    "an older barrier": Barrier(3, 900, CheckpointOptions("mem")),
    "its alignment is given up": AlignmentAborted(5, DeclineReason.SUBSUMED),
    "the JobManager had its alignment given up": AlignmentAborted(5, None),
    "it is written": WRITTEN,
    "it cannot be written": SnapshotFailed(5, ErrorInfo("storage", "external", "disk full")),
    "its confirm": ConfirmReceived(5),
    "an older confirm": ConfirmReceived(3),
    "its abort": AbortReceived(5),
    "its abort, with the one before confirmed": AbortReceived(5, 4),
    "the subtask stops": SubtaskStopped(),
}


def machine(*events: SnapshotEvent) -> SnapshotCoordinator:
    found = SnapshotCoordinator(restored_id=3)
    for event in events:
        found.on(event, 0)
        found.check_invariants()
    return found


STATES: dict[str, Callable[[], SnapshotCoordinator]] = {
    "UNSEEN": machine,
    "FORBIDDEN": lambda: machine(AbortReceived(5)),
    "RUNNING": lambda: machine(BARRIER),
    "COMPLETED": lambda: machine(BARRIER, WRITTEN),
    "DISCARDED": lambda: machine(BARRIER, AbortReceived(5)),
    "CONFIRMED": lambda: machine(BARRIER, WRITTEN, ConfirmReceived(5)),
    "STOPPED": lambda: machine(BARRIER, SubtaskStopped()),
}
TABLE = """
event                                     | UNSEEN                                                   | FORBIDDEN                          | RUNNING                                                  | COMPLETED                     | DISCARDED                     | CONFIRMED | STOPPED
its barrier                               | PrepareSnapshot, BroadcastBarrier, FreezeState ▸ RUNNING | BroadcastCancelBarrier ▸ DISCARDED | ·                                                        | ·                             | ·                             | ·         | ·
an older barrier                          | ·                                                        | ·                                  | ·                                                        | ·                             | ·                             | ·         | ·
its alignment is given up                 | Decline, BroadcastCancelBarrier ▸ DISCARDED              | BroadcastCancelBarrier ▸ DISCARDED | CancelWrite, Decline, BroadcastCancelBarrier ▸ DISCARDED | ·                             | ·                             | ·         | ·
the JobManager had its alignment given up | BroadcastCancelBarrier ▸ DISCARDED                       | BroadcastCancelBarrier ▸ DISCARDED | CancelWrite, BroadcastCancelBarrier ▸ DISCARDED          | ·                             | ·                             | ·         | ·
it is written                             | ·                                                        | ·                                  | ▸ COMPLETED                                              | ·                             | ·                             | ·         | ·
it cannot be written                      | ·                                                        | ·                                  | Decline ▸ DISCARDED                                      | ·                             | ·                             | ·         | ·
its confirm                               | NotifyComplete ▸ CONFIRMED                               | NotifyComplete ▸ CONFIRMED         | NotifyComplete ▸ CONFIRMED                               | NotifyComplete ▸ CONFIRMED    | NotifyComplete ▸ CONFIRMED    | ·         | ·
an older confirm                          | ·                                                        | ·                                  | ·                                                        | ·                             | ·                             | ·         | ·
its abort                                 | NotifyAborted ▸ FORBIDDEN                                | NotifyAborted                      | CancelWrite, NotifyAborted ▸ DISCARDED                   | NotifyAborted                 | NotifyAborted                 | ·         | ·
its abort, with the one before confirmed  | NotifyComplete, NotifyAborted ▸ FORBIDDEN                | NotifyComplete, NotifyAborted      | NotifyComplete, CancelWrite, NotifyAborted ▸ DISCARDED   | NotifyComplete, NotifyAborted | NotifyComplete, NotifyAborted | ·         | ·
the subtask stops                         | ▸ STOPPED                                                | ▸ STOPPED                          | CancelWrite ▸ STOPPED                                    | ▸ STOPPED                     | ▸ STOPPED                     | ▸ STOPPED | ·
"""


def state_of(found: SnapshotCoordinator) -> str:
    if found._stopped:
        return "STOPPED"
    if found.last_confirmed == 5:
        return "CONFIRMED"
    if found.last_id < 5:
        return "FORBIDDEN" if found._aborted else "UNSEEN"
    written = found._writes.get(5)
    return "DISCARDED" if written is None else written.value


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 1000.0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, SnapshotEvent)
