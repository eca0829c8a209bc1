"""Scenarios of Flink's tests of barriers, snapshots and ends of tasks, on the real loop; docs/scenarios.md says which test
stands for which (``AlignedCheckpointsTest``, ``SubtaskCheckpointCoordinatorTest``, ``StreamTaskFinalCheckpointsTest``)."""

from __future__ import annotations

import threading

import pytest

from tests.unit.taskmanager.runtime.fakes import FakeFrozen
from tests.unit.taskmanager.runtime.subtask_kit import Subtask, barrier, numbers
from tidegate.model.channel_events import Barrier, CancelBarrier, EndOfData, EndOfPartition
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason, OperatorSnapshot, SnapshotType
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.runtime.ports import AbortCheckpoint, ConfirmCheckpoint
from tidegate.taskmanager.state.ports import SegmentStore

SUBSUMED, CANCELED = DeclineReason.SUBSUMED, DeclineReason.ON_CANCELLATION_BARRIER


class HeldWrite(FakeFrozen):
    """Its asynchronous part has begun, and goes on when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        self.begun.set()
        assert self.may_go_on.wait(30)
        return super().write(store)


def told(subtask: Subtask) -> list[tuple[str, int]]:
    """What left for the JobManager about checkpoints."""
    return [(entry[0], entry[1]) for entry in subtask.port.sent if entry[0] in ("ack", "decline")]


def notified(subtask: Subtask) -> list[tuple[str, int]]:
    return [call[1:3] for call in subtask.operator.calls if call[1] in ("freeze", "complete", "aborted")]


def sent(subtask: Subtask) -> list[Barrier | CancelBarrier]:
    return [item for item in subtask.partition.items if isinstance(item, Barrier | CancelBarrier)]


def end(subtask: Subtask, *channels: int) -> None:
    for channel in channels:
        subtask.send(channel, EndOfData(), EndOfPartition())


# ---- barriers ----------------------------------------------------------------------------------------------------------


def test_a_barrier_that_jumps_over_a_checkpoint_aborts_the_older_and_keeps_the_channels_consistent() -> None:
    subtask = Subtask(channels=3)
    subtask.send(0, barrier(1), numbers(1))
    subtask.send(1, barrier(2), numbers(2))
    subtask.run()
    assert told(subtask) == [("decline", 1)]
    assert subtask.port.of("decline") == [("decline", 1, SUBSUMED)]
    assert subtask.gate.blocked == {1}
    assert [call[2] for call in subtask.operator.calls if call[1] == "process"] == [[0]], "channel 0 goes on"
    subtask.send(2, barrier(1), barrier(2))
    subtask.send(0, barrier(2))
    subtask.settle()
    assert told(subtask) == [("decline", 1), ("ack", 2)]
    assert sent(subtask) == [CancelBarrier(1), barrier(2)]
    assert subtask.gate.blocked == set()


def test_cancel_markers_of_a_checkpoint_that_is_over_are_ignored() -> None:
    subtask = Subtask()
    subtask.send(0, barrier(1))
    subtask.send(1, barrier(2))
    subtask.run()
    subtask.send(0, CancelBarrier(1), barrier(2))
    subtask.settle()
    assert told(subtask) == [("decline", 1), ("ack", 2)]
    subtask.send(0, CancelBarrier(2))
    subtask.send(1, CancelBarrier(1))
    subtask.run()
    assert told(subtask) == [("decline", 1), ("ack", 2)]
    assert sent(subtask) == [CancelBarrier(1), barrier(2)]


@pytest.mark.parametrize("sees_barrier_first", [False, True])
def test_a_cancel_marker_stands_for_the_barrier_that_will_not_come(sees_barrier_first: bool) -> None:
    subtask = Subtask()
    if sees_barrier_first:
        subtask.send(1, barrier(1), numbers(1))
        subtask.run()
    subtask.send(0, CancelBarrier(1))
    subtask.run()
    assert subtask.port.of("decline") == [("decline", 1, CANCELED)]
    assert subtask.gate.blocked == set()
    if not sees_barrier_first:
        subtask.send(1, barrier(1), numbers(1))
    subtask.send(0, barrier(2))
    subtask.send(1, barrier(2))
    subtask.settle()
    assert told(subtask) == [("decline", 1), ("ack", 2)]


def test_the_end_of_a_channel_completes_the_alignment_of_those_that_wait() -> None:
    subtask = Subtask(channels=3)
    subtask.send(0, barrier(1), numbers(1))
    end(subtask, 1)
    subtask.run()
    assert told(subtask) == []
    end(subtask, 2)
    subtask.settle()
    assert told(subtask) == [("ack", 1)]
    assert [call[1] for call in subtask.operator.calls if call[1] in ("freeze", "process")] == ["freeze", "process"]
    subtask = Subtask(channels=3)
    end(subtask, 1, 2)
    subtask.send(0, barrier(2))
    subtask.settle()
    assert told(subtask) == [("ack", 2)], "those that ended before are not waited for"


def test_a_channel_that_delivered_both_its_barrier_and_its_end_counts_once() -> None:
    subtask = Subtask(channels=3)
    subtask.send(0, barrier(1))
    end(subtask, 0)
    subtask.run()
    subtask.send(1, barrier(1))
    subtask.run()
    assert told(subtask) == []
    subtask.send(2, barrier(1))
    subtask.settle()
    assert told(subtask) == [("ack", 1)]


# ---- aborts before, during and after the asynchronous part ----------------------------------------------------------------


def test_an_abort_before_the_barriers_arrive_takes_no_snapshot_and_passes_a_cancel_marker_on() -> None:
    subtask = Subtask()
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.run()
    subtask.send(0, barrier(1))
    subtask.send(1, barrier(1))
    subtask.settle()
    assert told(subtask) == []
    assert notified(subtask) == [("aborted", 1)]
    assert sent(subtask) == [CancelBarrier(1)]


def test_an_abort_during_the_asynchronous_part_silences_it_and_releases_what_was_frozen() -> None:
    subtask = Subtask(channels=1)
    subtask.operator.frozen = held = HeldWrite()
    subtask.send(0, barrier(1))
    subtask.run()
    assert held.begun.wait(30)
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.run()
    held.may_go_on.set()
    subtask.settle()
    assert told(subtask) == []
    assert notified(subtask) == [("freeze", 1), ("aborted", 1)]
    assert held.released == 1


def test_an_abort_after_the_acknowledgement_is_told_to_the_operators_and_nobody_else() -> None:
    subtask = Subtask(channels=1)
    subtask.operator.frozen = frozen = FakeFrozen()
    subtask.send(0, barrier(1))
    subtask.settle()
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.run()
    assert told(subtask) == [("ack", 1)]
    assert notified(subtask) == [("freeze", 1), ("aborted", 1)]
    assert sent(subtask) == [barrier(1)]
    assert frozen.released == 1


def test_the_next_checkpoint_starts_while_the_write_of_an_aborted_one_still_runs() -> None:
    subtask = Subtask(channels=1)
    subtask.operator.frozen = held = HeldWrite()
    subtask.send(0, barrier(1))
    subtask.run()
    assert held.begun.wait(30)
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.run()
    subtask.operator.frozen = FakeFrozen()
    subtask.send(0, barrier(2))
    subtask.run()
    held.may_go_on.set()
    subtask.settle()
    assert told(subtask) == [("ack", 2)]
    assert notified(subtask) == [("freeze", 1), ("aborted", 1), ("freeze", 2)]


def test_an_abort_that_knows_of_a_completion_which_was_missed_tells_it_first() -> None:
    subtask = Subtask(channels=1)
    subtask.send(0, barrier(1))
    subtask.settle()
    subtask.mailbox.put(AbortCheckpoint(2, latest_completed_id=1))
    subtask.run()
    assert notified(subtask) == [("freeze", 1), ("complete", 1), ("aborted", 2)]


# ---- the end of a task -------------------------------------------------------------------------------------------------------


def test_a_subtask_at_its_end_waits_for_a_checkpoint_that_began_after_it() -> None:
    subtask = Subtask(channels=1)
    subtask.send(0, barrier(1), EndOfData(), barrier(2), EndOfPartition())
    subtask.settle()
    assert told(subtask) == [("ack", 1), ("ack", 2)]
    subtask.mailbox.put(ConfirmCheckpoint(1, may_finish=True))
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.AT_END)
    subtask.mailbox.put(ConfirmCheckpoint(2, may_finish=True))
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.FINISHED)


def test_a_job_that_waits_for_its_final_checkpoint_can_be_stopped_with_a_savepoint() -> None:
    subtask = Subtask(channels=1)
    subtask.send(0, EndOfData())
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.AT_END)
    subtask.send(0, Barrier(5, 1000, CheckpointOptions("sp", SnapshotType.SUSPEND)))
    subtask.settle()
    assert told(subtask) == [("ack", 5)]
    subtask.mailbox.put(ConfirmCheckpoint(5, may_finish=True))
    subtask.send(0, EndOfPartition())
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.FINISHED)
    assert [call[1] for call in subtask.operator.calls].count("finish") == 1
    assert ("op", "complete", 5) in subtask.operator.calls
