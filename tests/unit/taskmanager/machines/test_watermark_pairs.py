"""One channel of a watermark valve beside another one that is at 10: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.taskmanager.machines.watermarks import (
    DataEnded,
    StatusArrived,
    ValveEvent,
    WatermarkArrived,
    WatermarkValve,
)

EVENTS: dict[str, ValveEvent] = {
    "a watermark behind its last": WatermarkArrived(0, 3),
    "a watermark before the other's": WatermarkArrived(0, 8),
    "a watermark beyond the other's": WatermarkArrived(0, 20),
    "it is idle": StatusArrived(0, True),
    "it is active": StatusArrived(0, False),
    "its end, drained": DataEnded(0, True),
    "its end, suspended": DataEnded(0, False),
}


def valve(*events: ValveEvent) -> WatermarkValve:
    found = WatermarkValve(2)
    for event in (WatermarkArrived(0, 5), WatermarkArrived(1, 10), *events):
        found.on(event, 0)
        found.check_invariants()
    return found


STATES: dict[str, Callable[[], WatermarkValve]] = {
    "ACTIVE": valve,
    "IDLE": lambda: valve(StatusArrived(0, True)),
    "CATCHING UP": lambda: valve(StatusArrived(0, True), StatusArrived(0, False)),
    "ENDED": lambda: valve(DataEnded(0, True)),
}
TABLE = """
event                          | ACTIVE                   | IDLE          | CATCHING UP | ENDED
a watermark behind its last    | ·                        | ·             | ·           | ·
a watermark before the other's | AdvanceWatermark         | ·             | ·           | ·
a watermark beyond the other's | AdvanceWatermark         | ·             | ▸ ACTIVE    | ·
it is idle                     | AdvanceWatermark ▸ IDLE  | ·             | ▸ IDLE      | ·
it is active                   | ·                        | ▸ CATCHING UP | ·           | ·
its end, drained               | AdvanceWatermark ▸ ENDED | ▸ ENDED       | ▸ ENDED     | ·
its end, suspended             | ·                        | ·             | ·           | ·
"""


def state_of(found: WatermarkValve) -> str:
    channel = found._channels[0]
    if channel.ended:
        return "ENDED"
    if channel.idle:
        return "IDLE"
    return "ACTIVE" if channel.aligned else "CATCHING UP"


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 0.0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(TABLE, STATES, EVENTS, ValveEvent)
