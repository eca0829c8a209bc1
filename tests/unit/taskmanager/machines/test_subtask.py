from __future__ import annotations

import itertools

import pytest

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.subtask import (
    ILLEGAL,
    LIFE_TRANSITIONS,
    CancelRequested,
    CheckpointConfirmed,
    ClosingFailed,
    CommitAll,
    ControlBroken,
    DataFinished,
    DeclineTrigger,
    EndData,
    EndPartitions,
    InitializationStarted,
    Initialized,
    InputsClosed,
    LifeCommand,
    LifeEvent,
    LifeState,
    OutputsDrained,
    PassTrigger,
    ReportEndOfData,
    ReportState,
    SnapshotsSettled,
    SnapshotStarted,
    StopWork,
    SubtaskFailed,
    SubtaskLife,
)

ERROR = ErrorInfo("internal", "internal", "broken")
BARRIER = Barrier(1, 0, CheckpointOptions("mem"))
OVER = (LifeState.FINISHED, LifeState.CANCELED, LifeState.FAILED, LifeState.CUT_OFF)
PATHS: dict[LifeState, list[LifeEvent]] = {
    LifeState.CREATED: [],
    LifeState.INITIALIZING: [InitializationStarted()],
    LifeState.RUNNING: [InitializationStarted(), Initialized()],
    LifeState.AT_END: [InitializationStarted(), Initialized(), DataFinished(), SnapshotStarted(3)],
}
PATHS[LifeState.SETTLING] = [*PATHS[LifeState.AT_END], CheckpointConfirmed(3, True)]
PATHS[LifeState.CLOSING] = [*PATHS[LifeState.SETTLING], SnapshotsSettled()]
PATHS[LifeState.FINISHED] = [*PATHS[LifeState.CLOSING], OutputsDrained()]
PATHS[LifeState.CANCELED] = [*PATHS[LifeState.RUNNING], CancelRequested()]
PATHS[LifeState.FAILED] = [*PATHS[LifeState.RUNNING], SubtaskFailed(ERROR)]
PATHS[LifeState.CUT_OFF] = [*PATHS[LifeState.RUNNING], ControlBroken()]


def at(state: LifeState, *, checkpointing: bool = True, has_inputs: bool = False) -> SubtaskLife:
    life = SubtaskLife(checkpointing=checkpointing, has_inputs=has_inputs)
    for event in PATHS[state]:
        life.on(event, 0)
    assert life.state is state
    return life


def on(life: SubtaskLife, event: LifeEvent) -> list[LifeCommand]:
    return list(life.on(event, 0))


def assert_at(life: SubtaskLife, state: LifeState) -> None:
    assert life.state is state


def test_the_way_to_the_end_with_its_reports() -> None:
    life = SubtaskLife(checkpointing=True, has_inputs=False)
    assert on(life, InitializationStarted()) == [ReportState(ExecutionState.INITIALIZING)]
    assert on(life, Initialized()) == [ReportState(ExecutionState.RUNNING)]
    assert on(life, SnapshotStarted(2)) == []
    assert on(life, DataFinished()) == [ReportEndOfData()]
    assert on(life, SnapshotStarted(3)) == []
    assert on(life, CheckpointConfirmed(3, True)) == []
    assert on(life, SnapshotsSettled()) == [EndPartitions()]
    assert on(life, OutputsDrained()) == [StopWork()]
    assert_at(life, LifeState.FINISHED)


def test_a_checkpoint_from_before_the_end_of_data_is_not_the_final_one() -> None:
    life = at(LifeState.RUNNING)
    on(life, SnapshotStarted(2))
    on(life, DataFinished())
    on(life, CheckpointConfirmed(2, True))
    assert_at(life, LifeState.AT_END)
    on(life, SnapshotStarted(3))
    on(life, CheckpointConfirmed(2, True))
    assert_at(life, LifeState.AT_END)


def test_a_checkpoint_that_siblings_were_not_ready_for_is_not_the_final_one() -> None:
    life = at(LifeState.AT_END)
    on(life, CheckpointConfirmed(3, False))
    assert_at(life, LifeState.AT_END)
    on(life, SnapshotStarted(4))
    on(life, CheckpointConfirmed(4, True))
    assert_at(life, LifeState.SETTLING)


def test_a_confirm_before_any_snapshot_at_the_end_means_nothing() -> None:
    life = at(LifeState.RUNNING)
    on(life, DataFinished())
    on(life, CheckpointConfirmed(9, True))
    assert_at(life, LifeState.AT_END)


def test_without_checkpointing_everything_is_committed_at_the_end_of_data() -> None:
    life = at(LifeState.RUNNING, checkpointing=False)
    assert on(life, DataFinished()) == [ReportEndOfData(), CommitAll()]
    assert on(life, SnapshotsSettled()) == [EndPartitions()]


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_subtask_takes_part_until_its_producers_have_ended_their_partitions(checkpointing: bool) -> None:
    life = at(LifeState.RUNNING, checkpointing=checkpointing, has_inputs=True)
    on(life, DataFinished())
    on(life, SnapshotStarted(3))
    on(life, CheckpointConfirmed(3, True))
    assert_at(life, LifeState.AT_END)
    assert on(life, BARRIER) == [PassTrigger(BARRIER)]
    on(life, InputsClosed())
    assert_at(life, LifeState.SETTLING)


def test_closed_inputs_alone_do_not_end_it() -> None:
    life = at(LifeState.AT_END, has_inputs=True)
    on(life, InputsClosed())
    assert_at(life, LifeState.AT_END)
    on(life, CheckpointConfirmed(3, True))
    assert_at(life, LifeState.SETTLING)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (LifeState.CREATED, DeclineReason.TASK_NOT_READY),
        (LifeState.INITIALIZING, DeclineReason.TASK_NOT_READY),
        (LifeState.SETTLING, DeclineReason.TASK_CLOSING),
        (LifeState.CLOSING, DeclineReason.TASK_CLOSING),
    ],
)
def test_triggers_are_declined_outside_running(state: LifeState, reason: DeclineReason) -> None:
    assert on(at(state), BARRIER) == [DeclineTrigger(1, reason)]


@pytest.mark.parametrize("settled", [[], [SnapshotsSettled()]])
def test_a_repeated_trigger_does_not_decline_the_checkpoint_that_the_first_one_began(settled: list[LifeEvent]) -> None:
    """A checkpoint before it was confirmed in between, and lets the subtask finish."""
    life = at(LifeState.AT_END)
    later = Barrier(4, 0, CheckpointOptions("mem"))
    assert on(life, later) == [PassTrigger(later)]
    for event in (SnapshotStarted(4), CheckpointConfirmed(3, True), *settled):
        on(life, event)
    assert on(life, later) == []
    new = Barrier(5, 0, CheckpointOptions("mem"))
    assert on(life, new) == [DeclineTrigger(5, DeclineReason.TASK_CLOSING)]


@pytest.mark.parametrize("kind", [SnapshotType.SUSPEND, SnapshotType.TERMINATE])
def test_a_stop_ends_the_data_of_a_source_with_its_savepoint_as_the_final_checkpoint(kind: SnapshotType) -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", kind))
    life = at(LifeState.RUNNING)
    commands = on(life, barrier)
    assert commands == [EndData(drain=kind is SnapshotType.TERMINATE), PassTrigger(barrier)]
    assert on(life, DataFinished()) == [ReportEndOfData()]
    on(life, SnapshotStarted(4))
    on(life, CheckpointConfirmed(4, True))
    assert_at(life, LifeState.SETTLING)


@pytest.mark.parametrize("has_inputs", [True, False])
def test_a_stop_finds_a_subtask_at_its_end_like_any_checkpoint(has_inputs: bool) -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", SnapshotType.SUSPEND))
    assert on(at(LifeState.AT_END, has_inputs=has_inputs), barrier) == [PassTrigger(barrier)]


def test_a_stop_of_a_subtask_whose_producers_have_finished_waits_for_what_they_sent() -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", SnapshotType.SUSPEND))
    assert on(at(LifeState.RUNNING, has_inputs=True), barrier) == [PassTrigger(barrier)]


@pytest.mark.parametrize("kind", [SnapshotType.SUSPEND, SnapshotType.TERMINATE])
def test_without_checkpointing_nothing_can_be_stopped_with_a_savepoint(kind: SnapshotType) -> None:
    barrier = Barrier(1, 0, CheckpointOptions("mem", kind))
    life = at(LifeState.RUNNING, checkpointing=False)
    assert on(life, barrier) == [DeclineTrigger(1, DeclineReason.DECLINED)]


@pytest.mark.parametrize("state", [LifeState.RUNNING, LifeState.AT_END])
def test_triggers_pass_while_running(state: LifeState) -> None:
    assert on(at(state), BARRIER) == [PassTrigger(BARRIER)]


@pytest.mark.parametrize("state", [state for state in LifeState if state not in OVER])
def test_cancel_failure_and_loss_end_every_state(state: LifeState) -> None:
    for event, expected in (
        (CancelRequested(), LifeState.CANCELED),
        (SubtaskFailed(ERROR), LifeState.FAILED),
        (ControlBroken(), LifeState.CUT_OFF),
    ):
        life = at(state)
        answer = [ReportState(ExecutionState.CANCELING)] if isinstance(event, CancelRequested) else []
        assert on(life, event) == [*answer, StopWork()]
        assert_at(life, expected)
        assert life.is_over


@pytest.mark.parametrize("state", OVER)
def test_after_the_end_nothing_matters(state: LifeState) -> None:
    life = at(state)
    for event in (
        *PATHS[LifeState.FINISHED],
        BARRIER,
        CancelRequested(),
        ControlBroken(),
        SubtaskFailed(ERROR),
    ):
        assert on(life, event) == []
        assert_at(life, state)


@pytest.mark.parametrize("state", [LifeState.CREATED, LifeState.INITIALIZING, LifeState.RUNNING, LifeState.AT_END])
def test_events_of_later_states_change_nothing(state: LifeState) -> None:
    life = at(state)
    for event in (SnapshotsSettled(), OutputsDrained()):
        assert on(life, event) == []
    assert_at(life, state)


@pytest.mark.parametrize("kind", list(SnapshotType))
def test_a_job_in_batch_mode_declines_every_snapshot(kind: SnapshotType) -> None:
    life = SubtaskLife(checkpointing=False, has_inputs=False, has_snapshots=False)
    life.on(InitializationStarted(), 0)
    life.on(Initialized(), 0)
    barrier = Barrier(1, 0, CheckpointOptions("somewhere", snapshot_type=kind))
    assert life.on(barrier, 0) == [DeclineTrigger(1, DeclineReason.DECLINED)]
    assert life.state is LifeState.RUNNING


EVENTS: list[LifeEvent] = [
    InitializationStarted(),
    Initialized(),
    BARRIER,
    SnapshotStarted(4),
    DataFinished(),
    InputsClosed(),
    CheckpointConfirmed(4, True),
    CheckpointConfirmed(4, False),
    SnapshotsSettled(),
    OutputsDrained(),
    CancelRequested(),
    ControlBroken(),
    SubtaskFailed(ERROR),
    ClosingFailed(),
]


def lives_in(state: LifeState) -> list[SubtaskLife]:
    """Every way to be in that state: with and without inputs, closed or open, with and without checkpoints, confirmed or not."""
    found = []
    for checkpointing, has_inputs, closed in itertools.product([True, False], [True, False], [True, False]):
        life = SubtaskLife(checkpointing=checkpointing, has_inputs=has_inputs)
        for event in PATHS[state]:
            if life.state is LifeState.RUNNING and isinstance(event, DataFinished) and has_inputs and closed:
                life.on(InputsClosed(), 0)
            life.on(event, 0)
        if life.state is state:
            found.append(life)
    return found


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("state", LifeState)
def test_every_event_in_every_state_leads_where_the_table_says(state: LifeState, event: LifeEvent) -> None:
    allowed = LIFE_TRANSITIONS[state].get(type(event), ())
    lives = lives_in(state)
    assert lives, f"{state} is never reached"
    for life in lives:
        if state in ILLEGAL.get(type(event), ()):
            with pytest.raises(AssertionError, match=f"{type(event).__name__} while {state.value}"):
                life.on(event, 0)
        else:
            commands = on(life, event)
            assert life.state in (state, *allowed)
            if life.state in OVER and state not in OVER:
                answer = [ReportState(ExecutionState.CANCELING)] if isinstance(event, CancelRequested) else []
                assert commands == [*answer, StopWork()]
            if state in OVER:
                assert not commands


@pytest.mark.parametrize("state", LifeState)
def test_every_transition_of_the_table_happens(state: LifeState) -> None:
    wanted = {(event, target) for event, targets in LIFE_TRANSITIONS[state].items() for target in targets}
    reached = set()
    for event in EVENTS:
        if state in ILLEGAL.get(type(event), ()):
            continue
        for life in lives_in(state):
            life.on(event, 0)
            if life.state is not state:
                reached.add((type(event), life.state))
    assert reached == wanted
