"""The slot table: every state meets every event."""

from __future__ import annotations

import pytest

from tidegate.model.ids import AllocationId, AttemptId, Generation, JobId, VertexId
from tidegate.taskmanager.machines.slots import (
    FailTasks,
    JobManagerFound,
    JobManagerLost,
    LossGraceOver,
    Refuse,
    ReportSlotFreed,
    SlotCommand,
    SlotEvent,
    SlotFreeRequested,
    SlotRequested,
    SlotState,
    SlotTable,
    SlotTimedOut,
    StartSlotTimer,
    StopSlotTimer,
    TaskAdded,
    TaskRemoved,
)

GENERATION = Generation("g1")
JOB, OTHER_JOB = JobId("a" * 32), JobId("b" * 32)
ALLOCATION, OTHER = AllocationId("1" * 32), AllocationId("2" * 32)
FIRST = AttemptId(JOB, VertexId("c" * 32), 0, 0)
SECOND = AttemptId(JOB, VertexId("d" * 32), 0, 0)
REQUEST = SlotRequested(GENERATION, JOB, ALLOCATION, 0)
FREE = SlotFreeRequested(GENERATION, ALLOCATION, "the job ended")


def table_in(state: SlotState) -> SlotTable:
    """Slot 0 of two in a state; RELEASING and ACTIVE with one task in it."""
    table = SlotTable(2, 10_000)
    events: list[SlotEvent] = [JobManagerFound(GENERATION)]
    if state is not SlotState.FREE:
        events.append(REQUEST)
    if state in (SlotState.ACTIVE, SlotState.RELEASING):
        events.append(TaskAdded(ALLOCATION, FIRST))
    if state is SlotState.RELEASING:
        events.append(FREE)
    for event in events:
        assert not any(isinstance(command, Refuse) for command in table.on(event, 0))
    assert table.report()[0].state is state
    return table


def shape(commands: object) -> list[str]:
    assert isinstance(commands, list | tuple)
    return [type(command).__name__ for command in commands]


S = SlotState
TABLE: list[tuple[SlotState, SlotEvent, list[str], SlotState]] = [
    (S.FREE, REQUEST, ["StartSlotTimer"], S.ALLOCATED),
    (S.FREE, FREE, ["ReportSlotFreed"], S.FREE),
    (S.FREE, SlotTimedOut(ALLOCATION), [], S.FREE),
    (S.FREE, TaskAdded(ALLOCATION, FIRST), ["Refuse"], S.FREE),
    (S.FREE, TaskRemoved(ALLOCATION, FIRST), [], S.FREE),
    (S.FREE, JobManagerLost(), [], S.FREE),
    (S.FREE, LossGraceOver(), [], S.FREE),
    (S.FREE, JobManagerFound(Generation("g2")), [], S.FREE),
    (S.ALLOCATED, REQUEST, [], S.ALLOCATED),
    (S.ALLOCATED, FREE, ["StopSlotTimer", "ReportSlotFreed"], S.FREE),
    (S.ALLOCATED, SlotTimedOut(ALLOCATION), ["ReportSlotFreed"], S.FREE),
    (S.ALLOCATED, TaskAdded(ALLOCATION, FIRST), ["StopSlotTimer"], S.ACTIVE),
    (S.ALLOCATED, TaskRemoved(ALLOCATION, FIRST), [], S.ALLOCATED),
    (S.ALLOCATED, JobManagerLost(), [], S.ALLOCATED),
    (S.ALLOCATED, LossGraceOver(), ["StopSlotTimer", "ReportSlotFreed"], S.FREE),
    (S.ALLOCATED, JobManagerFound(Generation("g2")), [], S.ALLOCATED),
    (S.ACTIVE, REQUEST, [], S.ACTIVE),
    (S.ACTIVE, FREE, ["FailTasks"], S.RELEASING),
    (S.ACTIVE, SlotTimedOut(ALLOCATION), [], S.ACTIVE),
    (S.ACTIVE, TaskAdded(ALLOCATION, SECOND), [], S.ACTIVE),
    (S.ACTIVE, TaskRemoved(ALLOCATION, FIRST), [], S.ACTIVE),
    (S.ACTIVE, JobManagerLost(), [], S.ACTIVE),
    (S.ACTIVE, LossGraceOver(), ["FailTasks"], S.RELEASING),
    (S.ACTIVE, JobManagerFound(Generation("g2")), [], S.ACTIVE),
    (S.RELEASING, REQUEST, ["Refuse"], S.RELEASING),
    (S.RELEASING, FREE, [], S.RELEASING),
    (S.RELEASING, SlotTimedOut(ALLOCATION), [], S.RELEASING),
    (S.RELEASING, TaskAdded(ALLOCATION, SECOND), ["Refuse"], S.RELEASING),
    (S.RELEASING, TaskRemoved(ALLOCATION, FIRST), ["ReportSlotFreed"], S.FREE),
    (S.RELEASING, JobManagerLost(), [], S.RELEASING),
    (S.RELEASING, LossGraceOver(), [], S.RELEASING),
    (S.RELEASING, JobManagerFound(Generation("g2")), [], S.RELEASING),
]


@pytest.mark.parametrize(("state", "event", "commands", "after"), TABLE)
def test_transition(state: SlotState, event: SlotEvent, commands: list[str], after: SlotState) -> None:
    table = table_in(state)
    assert shape(table.on(event, 5)) == commands
    assert table.report()[0].state is after
    table.check_invariants()


def test_every_state_meets_every_event() -> None:
    kinds = set(SlotEvent.__args__)
    assert {(state, type(event)) for state, event, _, _ in TABLE} == {(s, kind) for s in SlotState for kind in kinds}


def refusal_of(commands: object) -> str:
    assert isinstance(commands, list | tuple)
    (refusal,) = commands
    assert isinstance(refusal, Refuse)
    return f"{refusal.error.code}: {refusal.error.message}"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SlotRequested(GENERATION, JOB, OTHER, 0), "slot 0 is taken"),
        (SlotRequested(GENERATION, OTHER_JOB, ALLOCATION, 0), "already stands for slot 0"),
        (SlotRequested(GENERATION, JOB, ALLOCATION, 1), "already stands for slot 0"),
        (SlotRequested(GENERATION, JOB, OTHER, 2), "there is no slot 2"),
        (SlotRequested(GENERATION, JOB, OTHER, -1), "there is no slot -1"),
        (SlotRequested(Generation("old"), JOB, OTHER, 1), "fenced"),
        (SlotFreeRequested(Generation("old"), ALLOCATION, ""), "fenced"),
        (TaskAdded(ALLOCATION, AttemptId(OTHER_JOB, VertexId("c" * 32), 0, 0)), "no slot here is allocated"),
    ],
)
def test_claims_that_do_not_fit_are_refused_and_change_nothing(event: SlotEvent, said: str) -> None:
    table = table_in(SlotState.ALLOCATED)
    before = table.report()
    assert said in refusal_of(table.on(event, 0))
    assert table.report() == before


def test_the_commands_carry_what_the_driver_needs() -> None:
    table = table_in(SlotState.FREE)
    assert list(table.on(REQUEST, 0)) == [StartSlotTimer(ALLOCATION, 10_000)]
    assert list(table.on(TaskAdded(ALLOCATION, FIRST), 0)) == [StopSlotTimer(ALLOCATION)]
    table.on(TaskAdded(ALLOCATION, SECOND), 0)
    (failing,) = table.on(FREE, 0)
    assert isinstance(failing, FailTasks)
    assert failing.attempts == (FIRST, SECOND)
    assert "the job ended" in failing.error.message
    assert list(table.on(TaskRemoved(ALLOCATION, FIRST), 0)) == []
    freed: list[SlotCommand] = [ReportSlotFreed(ALLOCATION)]
    assert list(table.on(TaskRemoved(ALLOCATION, SECOND), 0)) == freed


def test_an_empty_active_slot_is_freed_at_once() -> None:
    table = table_in(SlotState.ACTIVE)
    table.on(TaskRemoved(ALLOCATION, FIRST), 0)
    assert table.report()[0].state is SlotState.ACTIVE
    assert list(table.on(FREE, 0)) == [ReportSlotFreed(ALLOCATION)]
    assert table.report()[0].state is SlotState.FREE


def test_after_the_loss_of_the_job_manager_everything_is_fenced_until_it_is_found_again() -> None:
    table = table_in(SlotState.FREE)
    table.on(JobManagerLost(), 0)
    assert "not registered with any JobManager" in refusal_of(table.on(REQUEST, 0))
    table.on(JobManagerFound(Generation("g2")), 0)
    assert "registered with generation g2" in refusal_of(table.on(REQUEST, 0))
    assert shape(table.on(SlotRequested(Generation("g2"), JOB, ALLOCATION, 0), 0)) == ["StartSlotTimer"]


@pytest.mark.parametrize("end", [FREE, LossGraceOver(), SlotTimedOut(ALLOCATION)])
def test_a_late_copy_of_a_request_brings_nothing_back_that_was_freed(end: SlotEvent) -> None:
    table = table_in(SlotState.ALLOCATED)
    assert ReportSlotFreed(ALLOCATION) in table.on(end, 0)
    assert shape(table.on(REQUEST, 0)) == ["Refuse"]
    assert table.report()[0].state is SlotState.FREE
    assert shape(table.on(SlotRequested(GENERATION, JOB, OTHER, 0), 0)) == ["StartSlotTimer"]
    table.check_invariants()


def test_so_does_one_that_comes_when_its_last_task_has_gone() -> None:
    table = table_in(SlotState.RELEASING)
    table.on(TaskRemoved(ALLOCATION, FIRST), 0)
    assert shape(table.on(REQUEST, 0)) == ["Refuse"]
