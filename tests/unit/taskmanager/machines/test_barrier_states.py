"""Every state of the barrier handler meets every event: for the checkpoint that it collects, for a newer and for an older one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, product
from typing import get_args

import pytest

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Alignment, CheckpointOptions
from tidegate.taskmanager.machines import barrier_states
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
from tidegate.taskmanager.machines.barrier_handler import BARRIER_TRANSITIONS, ExactlyOnceBarrierHandler
from tidegate.taskmanager.machines.barrier_states import Aligning, Announced, BarrierState, Persisting, Waiting

OPTIONS = CheckpointOptions("mem")


def timed(n: int) -> Barrier:
    return Barrier(n, 1000, replace(OPTIONS, aligned_timeout_ms=50))


def unaligned(n: int) -> Barrier:
    return Barrier(n, 1000, replace(OPTIONS, alignment=Alignment.UNALIGNED))


LEADS_TO: dict[type[BarrierState], list[AlignmentEvent]] = {
    Waiting: [],
    Announced: [BarrierAnnounced(0, timed(4))],
    Aligning: [BarrierArrived(0, timed(4))],
    Persisting: [BarrierArrived(0, unaligned(4))],
}

EVENTS: dict[str, AlignmentEvent] = {
    "its barrier": BarrierArrived(1, timed(4)),
    "its barrier on channel 0": BarrierArrived(0, timed(4)),
    "its unaligned barrier": BarrierArrived(1, unaligned(4)),
    "newer barrier": BarrierArrived(1, timed(5)),
    "newer unaligned barrier": BarrierArrived(1, unaligned(5)),
    "older barrier": BarrierArrived(1, timed(3)),
    "its announcement": BarrierAnnounced(1, timed(4)),
    "newer announcement": BarrierAnnounced(1, timed(5)),
    "older announcement": BarrierAnnounced(1, timed(3)),
    "its cancel barrier": CancelBarrierArrived(1, 4),
    "newer cancel barrier": CancelBarrierArrived(1, 5),
    "older cancel barrier": CancelBarrierArrived(1, 3),
    "end of a channel": ChannelEnded(1),
    "trigger": timed(5),
    "unaligned trigger": unaligned(5),
    "older trigger": unaligned(3),
    "its abort": CheckpointAborted(4),
    "another abort": CheckpointAborted(3),
    "channel drained": ChannelDrained(1, 4),
    "channel drained of another": ChannelDrained(1, 3),
    "its timeout": AlignmentTimedOut(4),
    "another timeout": AlignmentTimedOut(3),
}

EXPECTED: dict[str, tuple[str, str, str, str]] = {
    "its barrier": (
        "Aligning: BlockChannel StartAlignmentTimer",
        "Aligning: BlockChannel",
        "Aligning: BlockChannel",
        "Persisting: StopPersisting",
    ),
    "its barrier on channel 0": (
        "Aligning: BlockChannel StartAlignmentTimer",
        "Aligning: BlockChannel",
        "Aligning:",
        "Persisting:",
    ),
    "its unaligned barrier": (
        "Persisting: StartSnapshot 3*PersistChannel StopPersisting",
        "Persisting: StartSnapshot 3*PersistChannel StopPersisting",
        "Persisting: StartSnapshot 2*PersistChannel UnblockChannel StopPersisting",
        "Persisting: StopPersisting",
    ),
    "newer barrier": (
        "Aligning: BlockChannel StartAlignmentTimer",
        "Aligning: AbortAlignment BlockChannel StartAlignmentTimer",
        "Aligning: AbortAlignment UnblockChannel BlockChannel StartAlignmentTimer",
        "Aligning: AbortAlignment DropPersisted BlockChannel StartAlignmentTimer",
    ),
    "newer unaligned barrier": (
        "Persisting: StartSnapshot 3*PersistChannel StopPersisting",
        "Persisting: AbortAlignment StartSnapshot 3*PersistChannel StopPersisting",
        "Persisting: AbortAlignment UnblockChannel StartSnapshot 3*PersistChannel StopPersisting",
        "Persisting: AbortAlignment DropPersisted StartSnapshot 3*PersistChannel StopPersisting",
    ),
    "older barrier": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "its announcement": (
        "Announced: StartAlignmentTimer",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "newer announcement": (
        "Announced: StartAlignmentTimer",
        "Announced: AbortAlignment StartAlignmentTimer",
        "Announced: AbortAlignment UnblockChannel StartAlignmentTimer",
        "Announced: AbortAlignment DropPersisted StartAlignmentTimer",
    ),
    "older announcement": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "its cancel barrier": (
        "Waiting: AbortAlignment",
        "Waiting: AbortAlignment",
        "Waiting: AbortAlignment UnblockChannel",
        "Waiting: AbortAlignment DropPersisted",
    ),
    "newer cancel barrier": (
        "Waiting: AbortAlignment",
        "Waiting: 2*AbortAlignment",
        "Waiting: AbortAlignment UnblockChannel AbortAlignment",
        "Waiting: AbortAlignment DropPersisted AbortAlignment",
    ),
    "older cancel barrier": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "end of a channel": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting: StopPersisting",
    ),
    "trigger": (
        "Waiting: StartAlignmentTimer",
        "Announced: StartAlignmentTimer",
        "Aligning: StartAlignmentTimer",
        "Persisting: StartAlignmentTimer",
    ),
    "unaligned trigger": (
        "Persisting: StartSnapshot 3*PersistChannel",
        "Persisting: AbortAlignment StartSnapshot 3*PersistChannel",
        "Persisting: AbortAlignment UnblockChannel StartSnapshot 3*PersistChannel",
        "Persisting: AbortAlignment DropPersisted StartSnapshot 3*PersistChannel",
    ),
    "older trigger": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "its abort": (
        "Waiting:",
        "Waiting: AbortAlignment",
        "Waiting: AbortAlignment UnblockChannel",
        "Waiting: AbortAlignment DropPersisted",
    ),
    "another abort": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "channel drained": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting: StopPersisting",
    ),
    "channel drained of another": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
    "its timeout": (
        "Waiting:",
        "Persisting: StartSnapshot 3*PersistChannel",
        "Persisting: StartSnapshot 2*PersistChannel UnblockChannel",
        "Persisting:",
    ),
    "another timeout": (
        "Waiting:",
        "Announced:",
        "Aligning:",
        "Persisting:",
    ),
}
"""The next state and the commands, from Waiting, Announced, Aligning and Persisting."""


def handler_in(state: type[BarrierState], channels: int = 3) -> ExactlyOnceBarrierHandler:
    """Open channels, and checkpoint 4 as far as the state says."""
    handler = ExactlyOnceBarrierHandler(range(channels), last_id=3)
    for event in LEADS_TO[state]:
        handler.on(event, 1010.0)
        handler.check_invariants()
    assert type(handler.state) is state
    return handler


def names(commands: Iterable[object]) -> Iterator[str]:
    for name, same in groupby(type(command).__name__ for command in commands):
        count = len(list(same))
        yield name if count == 1 else f"{count}*{name}"


@pytest.mark.parametrize("state", LEADS_TO, ids=lambda state: state.__name__)
@pytest.mark.parametrize("event", EVENTS)
def test_every_state_answers_every_event(state: type[BarrierState], event: str) -> None:
    handler = handler_in(state)
    commands = names(handler.on(EVENTS[event], 1020.0))
    assert " ".join([f"{type(handler.state).__name__}:", *commands]) == EXPECTED[event][list(LEADS_TO).index(state)]
    handler.check_invariants()


@pytest.mark.parametrize("state", LEADS_TO, ids=lambda state: state.__name__)
def test_every_transition_of_the_table_happens_and_no_other(state: type[BarrierState]) -> None:
    events = [*EVENTS.values(), ChannelEnded(0), AlignmentTimedOut(5)]  # 5: of the trigger that is held
    ways = [[event] for event in events] + [[first, last] for first in events for last in events]
    reached: set[tuple[type[AlignmentEvent], type[BarrierState]]] = set()
    for channels, way, now_ms in product((1, 2, 3), ways, (1020.0, 1060.0)):
        if channels == 1 and state in (Aligning, Persisting):
            continue  # one channel alone is never waited for
        handler = handler_in(state, channels)
        for event in way:
            before = type(handler.state)
            if getattr(event, "channel", 0) not in handler._open:
                break
            handler.on(event, now_ms)
            if before is state and type(handler.state) is not state:
                reached.add((type(event), type(handler.state)))
    wanted = {(event, target) for event, targets in BARRIER_TRANSITIONS[state].items() for target in targets}
    assert reached == wanted


def test_the_table_has_every_state_and_every_kind_of_event() -> None:
    classes = {c for c in vars(barrier_states).values() if isinstance(c, type) and issubclass(c, BarrierState)}
    assert set(LEADS_TO) == classes - {BarrierState}
    assert {type(event) for event in EVENTS.values()} == set(get_args(AlignmentEvent))
    assert EVENTS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("state", LEADS_TO, ids=lambda state: state.__name__)
def test_the_end_of_all_channels_ends_every_state(state: type[BarrierState]) -> None:
    handler = handler_in(state)
    for channel in range(3):
        handler.on(ChannelEnded(channel), 1020.0)
        handler.check_invariants()
    assert handler.state == Waiting()


@pytest.mark.parametrize("state", LEADS_TO, ids=lambda state: state.__name__)
def test_a_held_trigger_stays_until_a_newer_barrier_or_its_abort(state: type[BarrierState]) -> None:
    for gives_up in (CheckpointAborted(6), BarrierArrived(1, timed(7)), CancelBarrierArrived(1, 6)):
        handler = handler_in(state)
        handler.on(timed(6), 1020.0)
        handler.on(BarrierArrived(2, timed(5)), 1021.0)
        handler.check_invariants()
        handler.on(gives_up, 1022.0)
        handler.check_invariants()
        assert list(handler.on(AlignmentTimedOut(6), 1050.0)) == []


@pytest.mark.parametrize(
    ("inconsistent", "says"),
    [
        (Announced(timed(5)), "the newest id is 4"),
        (Aligning(timed(4), 1010.0, (0, 0)), "blocked twice"),
        (Aligning(timed(4), 1010.0, (0, 7)), "only"),
        (Aligning(timed(4), 1010.0, (0, 1, 2)), "none for them"),
        (Persisting(4, 1010.0, (1, 1)), "twice"),
        (Persisting(4, 1010.0, (7,)), "only"),
        (Persisting(4, 1010.0, (0, 1, 2)), "is not finished"),
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_found(inconsistent: BarrierState, says: str) -> None:
    handler = handler_in(Aligning)
    handler.state = inconsistent
    with pytest.raises(AssertionError, match=says):
        handler.check_invariants()
