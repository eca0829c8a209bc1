from __future__ import annotations

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason
from tidegate.taskmanager.machines.alignment import (
    AbortAlignment,
    AlignmentCommand,
    BarrierArrived,
    CancelBarrierArrived,
    ChannelEnded,
    CheckpointAborted,
    StartSnapshot,
)
from tidegate.taskmanager.machines.barrier_tracker import MAX_TRACKED, TrackingHandler

CANCELLED = DeclineReason.ON_CANCELLATION_BARRIER


def barrier(n: int) -> Barrier:
    return Barrier(n, 1000, CheckpointOptions("mem"))


def start(n: int, delay_ms: float = 0.0, alignment_ms: float = 0.0) -> StartSnapshot:
    return StartSnapshot(barrier(n), delay_ms, alignment_ms)


def arrives(handler: TrackingHandler, channel: int, n: int, now_ms: float = 1000.0) -> list[AlignmentCommand]:
    return list(handler.on(BarrierArrived(channel, barrier(n)), now_ms))


def cancel(handler: TrackingHandler, channel: int, n: int) -> list[AlignmentCommand]:
    return list(handler.on(CancelBarrierArrived(channel, n), 1000.0))


def test_nothing_is_ever_blocked_and_the_last_barrier_starts_the_snapshot() -> None:
    handler = TrackingHandler(range(2))
    assert arrives(handler, 0, 1, 1002.0) == []
    assert handler.collecting == 1
    assert arrives(handler, 1, 1, 1005.0) == [start(1, 2.0, 3.0)]
    assert handler.collecting is None
    assert arrives(handler, 1, 1) == []


def test_several_checkpoints_are_followed_and_a_completed_one_drops_the_older() -> None:
    handler = TrackingHandler(range(2))
    arrives(handler, 0, 1)
    arrives(handler, 0, 2)
    assert arrives(handler, 1, 2) == [start(2)]
    assert arrives(handler, 1, 1) == []


def test_only_so_many_are_followed() -> None:
    handler = TrackingHandler(range(2))
    for n in range(1, MAX_TRACKED + 2):
        arrives(handler, 0, n)
    assert arrives(handler, 1, 1) == []
    assert arrives(handler, 1, 2) == [start(2)]


def test_a_cancel_barrier_aborts_once_and_everything_older() -> None:
    handler = TrackingHandler(range(2))
    arrives(handler, 0, 1)
    arrives(handler, 0, 2)
    assert cancel(handler, 1, 2) == [AbortAlignment(1, CANCELLED), AbortAlignment(2, CANCELLED)]
    assert cancel(handler, 0, 2) == []
    assert arrives(handler, 1, 2) == []
    assert cancel(handler, 0, 5) == [AbortAlignment(5, CANCELLED)]
    assert arrives(handler, 1, 5) == []
    assert arrives(handler, 0, 6) == []
    assert arrives(handler, 1, 6) == [start(6)]


def test_the_end_of_a_channel_completes_the_newest_checkpoint_that_waited_for_it() -> None:
    handler = TrackingHandler(range(2))
    arrives(handler, 0, 1)
    arrives(handler, 0, 2)
    assert handler.on(ChannelEnded(1), 1000.0) == [start(2)]
    assert handler.on(ChannelEnded(1), 1000.0) == []
    assert arrives(handler, 0, 3) == [start(3)]


def test_without_checkpoints_after_the_end_pending_ones_are_aborted() -> None:
    handler = TrackingHandler(range(2), checkpoints_after_tasks_finish=False)
    arrives(handler, 0, 1)
    assert handler.on(ChannelEnded(1), 1000.0) == [AbortAlignment(1, DeclineReason.INPUT_END_OF_STREAM)]


def test_an_abort_is_passed_on_and_later_barriers_are_counted_away() -> None:
    handler = TrackingHandler(range(2))
    arrives(handler, 0, 1)
    assert handler.on(CheckpointAborted(1), 1000.0) == [AbortAlignment(1, None)]
    assert handler.on(CheckpointAborted(1), 1000.0) == []
    assert arrives(handler, 1, 1) == []
    assert handler.collecting is None


def test_a_trigger_is_held_until_all_channels_ended() -> None:
    handler = TrackingHandler(range(1))
    assert handler.on(barrier(2), 1000.0) == []
    assert handler.on(ChannelEnded(0), 1000.0) == [start(2)]
    assert handler.on(barrier(3), 1004.0) == [start(3, 4.0)]
