from __future__ import annotations

import pytest

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions, DeclineReason
from tidegate.taskmanager.machines.alignment import (
    AbortAlignment,
    AlignmentCommand,
    BarrierArrived,
    BlockChannel,
    CancelBarrierArrived,
    ChannelEnded,
    CheckpointAborted,
    StartSnapshot,
    UnblockChannel,
)
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler

OPTIONS = CheckpointOptions("mem")
SUBSUMED = DeclineReason.SUBSUMED
CANCELLED = DeclineReason.ON_CANCELLATION_BARRIER


def barrier(n: int, timestamp_ms: int = 1000) -> Barrier:
    return Barrier(n, timestamp_ms, OPTIONS)


def start(n: int, delay_ms: float = 0.0, alignment_ms: float = 0.0) -> StartSnapshot:
    return StartSnapshot(barrier(n), delay_ms, alignment_ms)


def arrives(handler: ExactlyOnceBarrierHandler, channel: int, n: int, now_ms: float = 1000.0) -> list[AlignmentCommand]:
    return list(handler.on(BarrierArrived(channel, barrier(n)), now_ms))


def cancel(handler: ExactlyOnceBarrierHandler, channel: int, n: int) -> list[AlignmentCommand]:
    return list(handler.on(CancelBarrierArrived(channel, n), 1000.0))


def ends(handler: ExactlyOnceBarrierHandler, channel: int) -> list[AlignmentCommand]:
    return list(handler.on(ChannelEnded(channel), 1000.0))


def test_a_single_channel_needs_no_blocking() -> None:
    handler = ExactlyOnceBarrierHandler(range(1))
    assert arrives(handler, 0, 1, 1007.0) == [start(1, 7.0)]
    assert handler.collecting is None


def test_channels_wait_for_the_last_barrier_and_the_snapshot_starts_before_they_go_on() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    assert arrives(handler, 1, 5, 1004.0) == [BlockChannel(1)]
    assert arrives(handler, 0, 5, 1006.0) == [BlockChannel(0)]
    assert handler.collecting == 5
    assert arrives(handler, 2, 5, 1010.0) == [
        BlockChannel(2),
        start(5, 4.0, 6.0),
        UnblockChannel(1),
        UnblockChannel(0),
        UnblockChannel(2),
    ]
    assert handler.blocked == frozenset()


def test_a_newer_barrier_subsumes_the_pending_checkpoint() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, 1)
    assert arrives(handler, 1, 2) == [AbortAlignment(1, SUBSUMED), UnblockChannel(0), BlockChannel(1)]
    assert arrives(handler, 2, 1) == []
    assert arrives(handler, 0, 2) == [BlockChannel(0)]
    assert start(2) in arrives(handler, 2, 2)


def test_older_and_finished_barriers_are_ignored() -> None:
    handler = ExactlyOnceBarrierHandler(range(2), last_id=7)
    assert arrives(handler, 0, 7) == []
    arrives(handler, 0, 8)
    assert start(8) in arrives(handler, 1, 8)
    assert arrives(handler, 0, 8) == []
    assert arrives(handler, 1, 3) == []


def test_a_cancel_barrier_of_the_pending_checkpoint_aborts_it_and_unblocks() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, 1)
    assert cancel(handler, 1, 1) == [AbortAlignment(1, CANCELLED), UnblockChannel(0)]
    assert cancel(handler, 2, 1) == []
    assert arrives(handler, 2, 1) == []
    assert arrives(handler, 2, 2) == [BlockChannel(2)]


def test_a_cancel_barrier_of_a_newer_checkpoint_aborts_both() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, 1)
    assert cancel(handler, 1, 2) == [AbortAlignment(1, SUBSUMED), UnblockChannel(0), AbortAlignment(2, CANCELLED)]
    assert arrives(handler, 0, 2) == []
    assert cancel(handler, 2, 2) == []


def test_a_cancel_barrier_before_any_barrier_aborts_once() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert cancel(handler, 0, 3) == [AbortAlignment(3, CANCELLED)]
    assert cancel(handler, 1, 3) == []
    assert arrives(handler, 1, 3) == []
    assert cancel(handler, 1, 2) == []


def test_the_end_of_a_channel_completes_the_alignment() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, 1)
    arrives(handler, 1, 1)
    assert ends(handler, 2) == [start(1), UnblockChannel(0), UnblockChannel(1)]


def test_channels_that_ended_before_the_first_barrier_are_not_waited_for() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    assert ends(handler, 2) == []
    arrives(handler, 0, 1)
    assert start(1) in arrives(handler, 1, 1)


def test_a_channel_with_both_barrier_and_end_counts_once() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, 1)
    assert ends(handler, 0) == []
    assert ends(handler, 0) == []
    assert handler.collecting == 1
    assert arrives(handler, 1, 1) == [BlockChannel(1)]
    assert ends(handler, 2) == [start(1), UnblockChannel(1)]


def test_the_end_of_the_last_channel_completes_what_the_ended_ones_delivered() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, 1)
    ends(handler, 0)
    assert ends(handler, 1) == [start(1)]


def test_without_checkpoints_after_the_end_a_pending_one_is_aborted() -> None:
    handler = ExactlyOnceBarrierHandler(range(2), checkpoints_after_tasks_finish=False)
    arrives(handler, 0, 1)
    assert ends(handler, 1) == [AbortAlignment(1, DeclineReason.INPUT_END_OF_STREAM), UnblockChannel(0)]


def test_a_trigger_waits_for_the_ends_of_all_channels() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert handler.on(barrier(4), 1000.0) == []
    assert ends(handler, 0) == []
    assert ends(handler, 1) == [start(4)]
    assert handler.on(barrier(5), 1003.0) == [start(5, 3.0)]
    assert handler.on(barrier(5), 1003.0) == []


def test_a_held_trigger_is_dropped_when_its_barrier_or_an_abort_comes() -> None:
    by_barrier = ExactlyOnceBarrierHandler(range(1))
    by_barrier.on(barrier(4), 1000.0)
    assert arrives(by_barrier, 0, 4) == [start(4)]
    assert ends(by_barrier, 0) == []
    by_abort = ExactlyOnceBarrierHandler(range(1))
    by_abort.on(barrier(4), 1000.0)
    assert by_abort.on(CheckpointAborted(4), 1000.0) == []
    assert ends(by_abort, 0) == []


def test_an_abort_of_the_pending_checkpoint_unblocks_and_passes_it_on_without_a_decline() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, 1)
    assert handler.on(CheckpointAborted(2), 1000.0) == []
    assert handler.on(CheckpointAborted(1), 1000.0) == [AbortAlignment(1, None), UnblockChannel(0)]
    assert arrives(handler, 1, 1) == []


def test_a_barrier_behind_the_end_of_its_channel_is_a_mistake() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    ends(handler, 0)
    with pytest.raises(AssertionError, match="after its end"):
        arrives(handler, 0, 1)
