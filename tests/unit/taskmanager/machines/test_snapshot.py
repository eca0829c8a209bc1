from __future__ import annotations

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason
from tidegate.model.errors import ErrorInfo
from tidegate.taskmanager.machines.snapshot import (
    MAX_ABORTED,
    AbortReceived,
    AlignmentAborted,
    BroadcastBarrier,
    BroadcastCancelBarrier,
    CancelWrite,
    ConfirmReceived,
    Decline,
    FreezeState,
    NotifyAborted,
    NotifyComplete,
    PrepareSnapshot,
    SnapshotCommand,
    SnapshotCoordinator,
    SnapshotEvent,
    SnapshotFailed,
    SnapshotWritten,
    SubtaskStopped,
)

ERROR = ErrorInfo("storage", "external", "disk full")


def on(machine: SnapshotCoordinator, event: SnapshotEvent) -> list[SnapshotCommand]:
    return list(machine.on(event, 0))


def barrier(n: int) -> Barrier:
    return Barrier(n, 1000, CheckpointOptions("mem"))


def begin(machine: SnapshotCoordinator, n: int) -> list[SnapshotCommand]:
    return on(machine, barrier(n))


def written(n: int) -> SnapshotWritten:
    return SnapshotWritten(n)


def test_the_barrier_goes_out_before_the_state_is_frozen() -> None:
    machine = SnapshotCoordinator()
    assert begin(machine, 1) == [PrepareSnapshot(1), BroadcastBarrier(barrier(1)), FreezeState(barrier(1))]
    assert machine.writing == (1,)


def test_ids_at_or_below_the_last_seen_are_ignored() -> None:
    machine = SnapshotCoordinator(restored_id=4)
    assert begin(machine, 4) == []
    assert begin(machine, 6) != []
    assert begin(machine, 5) == []
    assert begin(machine, 6) == []


def test_what_was_acknowledged_is_not_declined() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    assert on(machine, written(1)) == []
    assert on(machine, written(1)) == []
    assert on(machine, SnapshotFailed(1, ERROR)) == []
    assert machine.writing == ()


def test_a_failed_write_declines_once() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    assert on(machine, SnapshotFailed(1, ERROR)) == [Decline(1, DeclineReason.ASYNC_EXCEPTION, ERROR)]
    assert on(machine, written(1)) == []


def test_an_abort_during_the_write_silences_it() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    assert on(machine, AbortReceived(1)) == [CancelWrite(1), NotifyAborted(1)]
    assert on(machine, written(1)) == []
    assert on(machine, SnapshotFailed(1, ERROR)) == []


def test_an_abort_after_the_acknowledgement_only_tells_the_operators() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    on(machine, written(1))
    assert on(machine, AbortReceived(1)) == [NotifyAborted(1)]


def test_what_was_aborted_before_it_started_is_passed_on_and_never_acknowledged() -> None:
    machine = SnapshotCoordinator()
    assert on(machine, AbortReceived(2)) == [NotifyAborted(2)]
    assert begin(machine, 2) == [BroadcastCancelBarrier(2)]
    assert machine.writing == ()
    assert begin(machine, 3)[0] == PrepareSnapshot(3)


def test_a_barrier_that_is_late_behind_several_aborts_is_still_known_as_aborted() -> None:
    machine = SnapshotCoordinator()
    for n in (2, 3, 5):
        on(machine, AbortReceived(n))
    assert begin(machine, 2) == [BroadcastCancelBarrier(2)]
    assert begin(machine, 4) != [BroadcastCancelBarrier(4)]
    assert begin(machine, 5) == [BroadcastCancelBarrier(5)]


def test_ids_that_are_no_longer_remembered_count_as_aborted() -> None:
    machine = SnapshotCoordinator()
    for n in range(2, MAX_ABORTED + 4):
        on(machine, AbortReceived(n))
    assert begin(machine, 1) == [BroadcastCancelBarrier(1)]
    assert begin(machine, 3) == [BroadcastCancelBarrier(3)]
    assert begin(machine, MAX_ABORTED + 4)[0] == PrepareSnapshot(MAX_ABORTED + 4)


def test_an_aborted_alignment_declines_and_passes_it_on() -> None:
    machine = SnapshotCoordinator()
    reason = DeclineReason.SUBSUMED
    assert on(machine, AlignmentAborted(1, reason)) == [Decline(1, reason), BroadcastCancelBarrier(1)]
    assert on(machine, AlignmentAborted(1, reason)) == []
    assert begin(machine, 1) == []


def test_an_alignment_that_the_jobmanager_aborted_is_only_passed_on() -> None:
    machine = SnapshotCoordinator()
    on(machine, AbortReceived(1))
    assert on(machine, AlignmentAborted(1, None)) == [BroadcastCancelBarrier(1)]
    on(machine, AbortReceived(2))
    assert on(machine, AlignmentAborted(2, DeclineReason.ON_CANCELLATION_BARRIER)) == [BroadcastCancelBarrier(2)]


def test_confirms_only_go_forward() -> None:
    machine = SnapshotCoordinator(restored_id=1)
    assert on(machine, ConfirmReceived(1)) == []
    assert on(machine, ConfirmReceived(3)) == [NotifyComplete(3)]
    assert on(machine, ConfirmReceived(3)) == []
    assert on(machine, ConfirmReceived(2)) == []


def test_an_abort_tells_of_a_missed_completion_first() -> None:
    machine = SnapshotCoordinator()
    for n in (1, 2):
        begin(machine, n)
    on(machine, written(1))
    assert on(machine, AbortReceived(2, latest_completed_id=1)) == [NotifyComplete(1), CancelWrite(2), NotifyAborted(2)]
    assert on(machine, AbortReceived(2, latest_completed_id=1)) == [NotifyAborted(2)]


def test_a_confirmed_checkpoint_is_never_aborted() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    on(machine, written(1))
    on(machine, ConfirmReceived(1))
    assert on(machine, AbortReceived(1)) == []


def test_after_the_stop_nothing_leaves() -> None:
    machine = SnapshotCoordinator()
    begin(machine, 1)
    assert on(machine, SubtaskStopped()) == [CancelWrite(1)]
    for event in (
        written(1),
        SnapshotFailed(1, ERROR),
        ConfirmReceived(1),
        AbortReceived(1),
        barrier(2),
    ):
        assert on(machine, event) == []
    assert on(machine, AlignmentAborted(3, DeclineReason.SUBSUMED)) == []
