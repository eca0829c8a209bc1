from __future__ import annotations

import itertools

import pytest

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason, SnapshotType
from tidegate.model.errors import ErrorInfo
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.machines.subtask import (
    ILLEGAL,
    SUBTASK_TRANSITIONS,
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
    LifecycleCommand,
    LifecycleEvent,
    LifecycleState,
    OutputsDrained,
    PassTrigger,
    ReportEndOfData,
    ReportState,
    SnapshotsSettled,
    SnapshotStarted,
    StopWork,
    SubtaskFailed,
    SubtaskLifecycle,
)

ERROR = ErrorInfo("internal", "internal", "broken")
BARRIER = Barrier(1, 0, CheckpointOptions("mem"))
OVER = (LifecycleState.FINISHED, LifecycleState.CANCELED, LifecycleState.FAILED, LifecycleState.CUT_OFF)
PATHS: dict[LifecycleState, list[LifecycleEvent]] = {
    LifecycleState.CREATED: [],
    LifecycleState.INITIALIZING: [InitializationStarted()],
    LifecycleState.RUNNING: [InitializationStarted(), Initialized()],
    LifecycleState.AT_END: [InitializationStarted(), Initialized(), DataFinished(), SnapshotStarted(3)],
}
PATHS[LifecycleState.SETTLING] = [*PATHS[LifecycleState.AT_END], CheckpointConfirmed(3, True)]
PATHS[LifecycleState.CLOSING] = [*PATHS[LifecycleState.SETTLING], SnapshotsSettled()]
PATHS[LifecycleState.FINISHED] = [*PATHS[LifecycleState.CLOSING], OutputsDrained()]
PATHS[LifecycleState.CANCELED] = [*PATHS[LifecycleState.RUNNING], CancelRequested()]
PATHS[LifecycleState.FAILED] = [*PATHS[LifecycleState.RUNNING], SubtaskFailed(ERROR)]
PATHS[LifecycleState.CUT_OFF] = [*PATHS[LifecycleState.RUNNING], ControlBroken()]


def at(state: LifecycleState, *, checkpointing: bool = True, has_inputs: bool = False) -> SubtaskLifecycle:
    lifecycle = SubtaskLifecycle(checkpointing=checkpointing, has_inputs=has_inputs)
    for event in PATHS[state]:
        lifecycle.on(event, 0)
    assert lifecycle.state is state
    return lifecycle


def on(lifecycle: SubtaskLifecycle, event: LifecycleEvent) -> list[LifecycleCommand]:
    return list(lifecycle.on(event, 0))


def assert_at(lifecycle: SubtaskLifecycle, state: LifecycleState) -> None:
    assert lifecycle.state is state


def test_the_way_to_the_end_with_its_reports() -> None:
    lifecycle = SubtaskLifecycle(checkpointing=True, has_inputs=False)
    assert on(lifecycle, InitializationStarted()) == [ReportState(ExecutionState.INITIALIZING)]
    assert on(lifecycle, Initialized()) == [ReportState(ExecutionState.RUNNING)]
    assert on(lifecycle, SnapshotStarted(2)) == []
    assert on(lifecycle, DataFinished()) == [ReportEndOfData()]
    assert on(lifecycle, SnapshotStarted(3)) == []
    assert on(lifecycle, CheckpointConfirmed(3, True)) == []
    assert on(lifecycle, SnapshotsSettled()) == [EndPartitions()]
    assert on(lifecycle, OutputsDrained()) == [StopWork()]
    assert_at(lifecycle, LifecycleState.FINISHED)


def test_a_checkpoint_from_before_the_end_of_data_is_not_the_final_one() -> None:
    lifecycle = at(LifecycleState.RUNNING)
    on(lifecycle, SnapshotStarted(2))
    on(lifecycle, DataFinished())
    on(lifecycle, CheckpointConfirmed(2, True))
    assert_at(lifecycle, LifecycleState.AT_END)
    on(lifecycle, SnapshotStarted(3))
    on(lifecycle, CheckpointConfirmed(2, True))
    assert_at(lifecycle, LifecycleState.AT_END)


def test_a_checkpoint_that_siblings_were_not_ready_for_is_not_the_final_one() -> None:
    lifecycle = at(LifecycleState.AT_END)
    on(lifecycle, CheckpointConfirmed(3, False))
    assert_at(lifecycle, LifecycleState.AT_END)
    on(lifecycle, SnapshotStarted(4))
    on(lifecycle, CheckpointConfirmed(4, True))
    assert_at(lifecycle, LifecycleState.SETTLING)


def test_a_confirm_before_any_snapshot_at_the_end_means_nothing() -> None:
    lifecycle = at(LifecycleState.RUNNING)
    on(lifecycle, DataFinished())
    on(lifecycle, CheckpointConfirmed(9, True))
    assert_at(lifecycle, LifecycleState.AT_END)


def test_without_checkpointing_everything_is_committed_at_the_end_of_data() -> None:
    lifecycle = at(LifecycleState.RUNNING, checkpointing=False)
    assert on(lifecycle, DataFinished()) == [ReportEndOfData(), CommitAll()]
    assert on(lifecycle, SnapshotsSettled()) == [EndPartitions()]


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_subtask_takes_part_until_its_producers_have_ended_their_partitions(checkpointing: bool) -> None:
    lifecycle = at(LifecycleState.RUNNING, checkpointing=checkpointing, has_inputs=True)
    on(lifecycle, DataFinished())
    on(lifecycle, SnapshotStarted(3))
    on(lifecycle, CheckpointConfirmed(3, True))
    assert_at(lifecycle, LifecycleState.AT_END)
    assert on(lifecycle, BARRIER) == [PassTrigger(BARRIER)]
    on(lifecycle, InputsClosed())
    assert_at(lifecycle, LifecycleState.SETTLING)


def test_closed_inputs_alone_do_not_end_it() -> None:
    lifecycle = at(LifecycleState.AT_END, has_inputs=True)
    on(lifecycle, InputsClosed())
    assert_at(lifecycle, LifecycleState.AT_END)
    on(lifecycle, CheckpointConfirmed(3, True))
    assert_at(lifecycle, LifecycleState.SETTLING)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (LifecycleState.CREATED, DeclineReason.TASK_NOT_READY),
        (LifecycleState.INITIALIZING, DeclineReason.TASK_NOT_READY),
        (LifecycleState.SETTLING, DeclineReason.TASK_CLOSING),
        (LifecycleState.CLOSING, DeclineReason.TASK_CLOSING),
    ],
)
def test_triggers_are_declined_outside_running(state: LifecycleState, reason: DeclineReason) -> None:
    assert on(at(state), BARRIER) == [DeclineTrigger(1, reason)]


@pytest.mark.parametrize("settled", [[], [SnapshotsSettled()]])
def test_a_repeated_trigger_does_not_decline_the_checkpoint_that_the_first_one_began(
    settled: list[LifecycleEvent],
) -> None:
    """A checkpoint before it was confirmed in between, and lets the subtask finish."""
    lifecycle = at(LifecycleState.AT_END)
    later = Barrier(4, 0, CheckpointOptions("mem"))
    assert on(lifecycle, later) == [PassTrigger(later)]
    for event in (SnapshotStarted(4), CheckpointConfirmed(3, True), *settled):
        on(lifecycle, event)
    assert on(lifecycle, later) == []
    new = Barrier(5, 0, CheckpointOptions("mem"))
    assert on(lifecycle, new) == [DeclineTrigger(5, DeclineReason.TASK_CLOSING)]


@pytest.mark.parametrize("kind", [SnapshotType.SUSPEND, SnapshotType.TERMINATE])
def test_a_stop_ends_the_data_of_a_source_with_its_savepoint_as_the_final_checkpoint(kind: SnapshotType) -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", kind))
    lifecycle = at(LifecycleState.RUNNING)
    commands = on(lifecycle, barrier)
    assert commands == [EndData(drain=kind is SnapshotType.TERMINATE), PassTrigger(barrier)]
    assert on(lifecycle, DataFinished()) == [ReportEndOfData()]
    on(lifecycle, SnapshotStarted(4))
    on(lifecycle, CheckpointConfirmed(4, True))
    assert_at(lifecycle, LifecycleState.SETTLING)


@pytest.mark.parametrize("has_inputs", [True, False])
def test_a_stop_finds_a_subtask_at_its_end_like_any_checkpoint(has_inputs: bool) -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", SnapshotType.SUSPEND))
    assert on(at(LifecycleState.AT_END, has_inputs=has_inputs), barrier) == [PassTrigger(barrier)]


def test_a_stop_of_a_subtask_whose_producers_have_finished_waits_for_what_they_sent() -> None:
    barrier = Barrier(4, 0, CheckpointOptions("mem", SnapshotType.SUSPEND))
    assert on(at(LifecycleState.RUNNING, has_inputs=True), barrier) == [PassTrigger(barrier)]


@pytest.mark.parametrize("kind", [SnapshotType.SUSPEND, SnapshotType.TERMINATE])
def test_without_checkpointing_nothing_can_be_stopped_with_a_savepoint(kind: SnapshotType) -> None:
    barrier = Barrier(1, 0, CheckpointOptions("mem", kind))
    lifecycle = at(LifecycleState.RUNNING, checkpointing=False)
    assert on(lifecycle, barrier) == [DeclineTrigger(1, DeclineReason.DECLINED)]


@pytest.mark.parametrize("state", [LifecycleState.RUNNING, LifecycleState.AT_END])
def test_triggers_pass_while_running(state: LifecycleState) -> None:
    assert on(at(state), BARRIER) == [PassTrigger(BARRIER)]


@pytest.mark.parametrize("state", [state for state in LifecycleState if state not in OVER])
def test_cancel_failure_and_loss_end_every_state(state: LifecycleState) -> None:
    for event, expected in (
        (CancelRequested(), LifecycleState.CANCELED),
        (SubtaskFailed(ERROR), LifecycleState.FAILED),
        (ControlBroken(), LifecycleState.CUT_OFF),
    ):
        lifecycle = at(state)
        answer = [ReportState(ExecutionState.CANCELING)] if isinstance(event, CancelRequested) else []
        assert on(lifecycle, event) == [*answer, StopWork()]
        assert_at(lifecycle, expected)
        assert lifecycle.is_over


@pytest.mark.parametrize("state", OVER)
def test_after_the_end_nothing_matters(state: LifecycleState) -> None:
    lifecycle = at(state)
    for event in (
        *PATHS[LifecycleState.FINISHED],
        BARRIER,
        CancelRequested(),
        ControlBroken(),
        SubtaskFailed(ERROR),
    ):
        assert on(lifecycle, event) == []
        assert_at(lifecycle, state)


@pytest.mark.parametrize(
    "state", [LifecycleState.CREATED, LifecycleState.INITIALIZING, LifecycleState.RUNNING, LifecycleState.AT_END]
)
def test_events_of_later_states_change_nothing(state: LifecycleState) -> None:
    lifecycle = at(state)
    for event in (SnapshotsSettled(), OutputsDrained()):
        assert on(lifecycle, event) == []
    assert_at(lifecycle, state)


@pytest.mark.parametrize("kind", list(SnapshotType))
def test_a_job_in_batch_mode_declines_every_snapshot(kind: SnapshotType) -> None:
    lifecycle = SubtaskLifecycle(checkpointing=False, has_inputs=False, has_snapshots=False)
    lifecycle.on(InitializationStarted(), 0)
    lifecycle.on(Initialized(), 0)
    barrier = Barrier(1, 0, CheckpointOptions("somewhere", snapshot_type=kind))
    assert lifecycle.on(barrier, 0) == [DeclineTrigger(1, DeclineReason.DECLINED)]
    assert lifecycle.state is LifecycleState.RUNNING


EVENTS: list[LifecycleEvent] = [
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


def lives_in(state: LifecycleState) -> list[SubtaskLifecycle]:
    """Every way to be in that state: with and without inputs, closed or open, with and without checkpoints, confirmed or not."""
    found = []
    for checkpointing, has_inputs, closed in itertools.product([True, False], [True, False], [True, False]):
        lifecycle = SubtaskLifecycle(checkpointing=checkpointing, has_inputs=has_inputs)
        for event in PATHS[state]:
            if lifecycle.state is LifecycleState.RUNNING and isinstance(event, DataFinished) and has_inputs and closed:
                lifecycle.on(InputsClosed(), 0)
            lifecycle.on(event, 0)
        if lifecycle.state is state:
            found.append(lifecycle)
    return found


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("state", LifecycleState)
def test_every_event_in_every_state_leads_where_the_table_says(state: LifecycleState, event: LifecycleEvent) -> None:
    allowed = SUBTASK_TRANSITIONS[state].get(type(event), ())
    lives = lives_in(state)
    assert lives, f"{state} is never reached"
    for lifecycle in lives:
        if state in ILLEGAL.get(type(event), ()):
            with pytest.raises(AssertionError, match=f"{type(event).__name__} while {state.value}"):
                lifecycle.on(event, 0)
        else:
            commands = on(lifecycle, event)
            assert lifecycle.state in (state, *allowed)
            if lifecycle.state in OVER and state not in OVER:
                answer = [ReportState(ExecutionState.CANCELING)] if isinstance(event, CancelRequested) else []
                assert commands == [*answer, StopWork()]
            if state in OVER:
                assert not commands


@pytest.mark.parametrize("state", LifecycleState)
def test_every_transition_of_the_table_happens(state: LifecycleState) -> None:
    wanted = {(event, target) for event, targets in SUBTASK_TRANSITIONS[state].items() for target in targets}
    reached = set()
    for event in EVENTS:
        if state in ILLEGAL.get(type(event), ()):
            continue
        for lifecycle in lives_in(state):
            lifecycle.on(event, 0)
            if lifecycle.state is not state:
                reached.add((type(event), lifecycle.state))
    assert reached == wanted
