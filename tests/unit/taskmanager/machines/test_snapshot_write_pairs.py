"""A write that overtook data in its outputs, and waits for its input channels: every state meets every event."""

from __future__ import annotations

from collections.abc import Callable, Set

import pytest

from tests.pairs import answer, assert_every_pair, cells
from tidegate.model.checkpoint import CheckpointMetrics, SubtaskSnapshot
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.taskmanager.machines.snapshot_write import (
    ChannelsWritten,
    InputsPersisted,
    OutputsPassed,
    Part,
    SnapshotWrite,
    StateWritten,
    WriteCanceled,
    WriteEvent,
)

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 0)
STATE = StateWritten(SubtaskSnapshot())
INPUTS: InputsPersisted[str] = InputsPersisted(["a batch"], 5.0, "source (1/2)")
OUTPUTS: OutputsPassed[str] = OutputsPassed(["an overtaken batch"])
CHANNELS = ChannelsWritten({})
EVENTS: dict[str, WriteEvent[str]] = {
    "the state is written": STATE,
    "the inputs have come": INPUTS,
    "the barrier overtook": OUTPUTS,
    "data in flight is written": CHANNELS,
    "it is given up": WriteCanceled(),
}


def machine(awaits: Set[Part], *events: WriteEvent[str]) -> SnapshotWrite[str]:
    found = SnapshotWrite[str](ATTEMPT, 5, CheckpointMetrics(), 100.0, awaits=awaits)
    found.begin(100.0)
    for event in events:
        found.on(event, 100.0)
        found.check_invariants()
    return found


BOTH = {Part.INPUTS, Part.OUTPUTS}
STATES: dict[str, Callable[[], SnapshotWrite[str]]] = {
    "WRITING": lambda: machine(set()),
    "WRITING, awaits INPUTS": lambda: machine({Part.INPUTS}),
    "WRITING, awaits CHANNELS": lambda: machine(BOTH, INPUTS, OUTPUTS),
    "IN_FLIGHT, awaits INPUTS OUTPUTS": lambda: machine(BOTH, STATE),
    "IN_FLIGHT, awaits CHANNELS": lambda: machine({Part.INPUTS}, INPUTS, STATE),
    "DONE": lambda: machine(set(), STATE),
    "CANCELED": lambda: machine(BOTH, STATE, WriteCanceled()),
}
TABLE = """
event                     | WRITING                | WRITING, awaits INPUTS                   | WRITING, awaits CHANNELS     | IN_FLIGHT, awaits INPUTS OUTPUTS | IN_FLIGHT, awaits CHANNELS | DONE | CANCELED
the state is written      | Acknowledgement ▸ DONE | ▸ IN_FLIGHT, awaits INPUTS               | ▸ IN_FLIGHT, awaits CHANNELS | ·                                | ·                          | ·    | ·
the inputs have come      | ·                      | WriteChannels ▸ WRITING, awaits CHANNELS | ·                            | ▸ IN_FLIGHT, awaits OUTPUTS      | ·                          | ·    | ·
the barrier overtook      | ·                      | ·                                        | ·                            | ▸ IN_FLIGHT, awaits INPUTS       | ·                          | ·    | ·
data in flight is written | ·                      | ·                                        | ▸ WRITING                    | ·                                | Acknowledgement ▸ DONE     | ·    | ·
it is given up            | ▸ CANCELED             | ▸ CANCELED                               | ▸ CANCELED                   | ▸ CANCELED                       | ▸ CANCELED                 | ·    | ·
"""


def state_of(found: SnapshotWrite[str]) -> str:
    awaited = " ".join(part.value for part in Part if found.awaits(part))
    return f"{found.stage.value}, awaits {awaited}" if awaited else found.stage.value


@pytest.mark.parametrize(("state", "event", "expected"), cells(TABLE))
def test_every_event_in_every_state(state: str, event: str, expected: str) -> None:
    found = STATES[state]()
    assert state_of(found) == state
    assert answer(lambda: found.on(EVENTS[event], 1000.0), lambda: state_of(found)) == expected
    found.check_invariants()


def test_every_state_meets_every_event() -> None:
    assert_every_pair(
        TABLE, STATES, EVENTS, StateWritten | InputsPersisted | OutputsPassed | ChannelsWritten | WriteCanceled
    )
