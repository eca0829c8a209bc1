from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Alignment, CheckpointOptions, DeclineReason
from tidegate.taskmanager.machines.alignment import (
    AbortAlignment,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimedOut,
    BarrierAnnounced,
    BarrierArrived,
    BlockChannel,
    CancelBarrierArrived,
    ChannelDrained,
    ChannelEnded,
    CheckpointAborted,
    DropPersisted,
    FinishPersisting,
    PersistChannel,
    StartAlignmentTimer,
    StartSnapshot,
    StopPersisting,
    UnblockChannel,
)
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler, forced_aligned
from tidegate.taskmanager.machines.barrier_tracker import TrackingHandler

OPTIONS = CheckpointOptions("mem")
SUBSUMED = DeclineReason.SUBSUMED
CANCELLED = DeclineReason.ON_CANCELLATION_BARRIER
TIMEOUT_MS = 50


def unaligned(n: int) -> Barrier:
    return Barrier(n, 1000, replace(OPTIONS, alignment=Alignment.UNALIGNED))


def timed(n: int) -> Barrier:
    return Barrier(n, 1000, replace(OPTIONS, aligned_timeout_ms=TIMEOUT_MS))


def arrives(
    handler: ExactlyOnceBarrierHandler, channel: int, barrier: Barrier, now_ms: float = 1000.0
) -> list[AlignmentCommand]:
    return list(handler.on(BarrierArrived(channel, barrier), now_ms))


def started(n: int, delay_ms: float = 0.0, alignment_ms: float = 0.0) -> StartSnapshot:
    return StartSnapshot(unaligned(n), delay_ms, alignment_ms, persists=True)


def test_the_first_unaligned_barrier_starts_the_snapshot_and_blocks_nothing() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    assert arrives(handler, 1, unaligned(7), 1004.0) == [
        started(7, 4.0),
        PersistChannel(7, 0),
        PersistChannel(7, 1),
        PersistChannel(7, 2),
        StopPersisting(7, 1),
    ]
    assert handler.persisting
    assert handler.blocked == frozenset()


def test_later_barriers_only_stop_the_persisting_of_their_channel_and_the_last_one_finishes() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 1, unaligned(7), 1004.0)
    assert arrives(handler, 0, unaligned(7), 1009.0) == [StopPersisting(7, 0)]
    assert arrives(handler, 0, unaligned(7), 1009.0) == []
    assert arrives(handler, 2, unaligned(7), 1014.0) == [StopPersisting(7, 2), FinishPersisting(7, 10.0)]
    assert handler.collecting is None
    assert arrives(handler, 0, unaligned(7), 1014.0) == []


def test_a_single_channel_is_persisted_too() -> None:
    handler = ExactlyOnceBarrierHandler(range(1))
    assert arrives(handler, 0, unaligned(1)) == [
        started(1),
        PersistChannel(1, 0),
        StopPersisting(1, 0),
        FinishPersisting(1, 0.0),
    ]


def test_a_timeout_while_waiting_starts_the_snapshot_and_unblocks_all_channels() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    assert arrives(handler, 0, timed(4), 1010.0) == [BlockChannel(0), StartAlignmentTimer(4, 40.0)]
    assert arrives(handler, 1, timed(4), 1020.0) == [BlockChannel(1)]
    assert list(handler.on(AlignmentTimedOut(4), 1050.0)) == [
        started(4, 10.0, 40.0),
        PersistChannel(4, 2),
        UnblockChannel(0),
        UnblockChannel(1),
    ]
    assert arrives(handler, 2, timed(4), 1060.0) == [StopPersisting(4, 2), FinishPersisting(4, 50.0)]


def test_an_announcement_starts_the_timer_before_any_barrier_came() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert list(handler.on(BarrierAnnounced(0, timed(4)), 1010.0)) == [StartAlignmentTimer(4, 40.0)]
    assert list(handler.on(BarrierAnnounced(1, timed(4)), 1011.0)) == []
    assert handler.collecting == 4
    assert list(handler.on(AlignmentTimedOut(4), 1050.0)) == [
        started(4, 50.0),
        PersistChannel(4, 0),
        PersistChannel(4, 1),
    ]
    assert arrives(handler, 0, unaligned(4), 1052.0) == [StopPersisting(4, 0)]
    assert arrives(handler, 1, timed(4), 1055.0) == [StopPersisting(4, 1), FinishPersisting(4, 5.0)]


def test_a_barrier_that_comes_late_switches_without_a_timer() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert arrives(handler, 0, timed(4), 1050.0) == [
        BlockChannel(0),
        started(4, 50.0),
        PersistChannel(4, 1),
        UnblockChannel(0),
    ]


def test_a_late_announcement_switches_too() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert next(iter(handler.on(BarrierAnnounced(1, timed(4)), 1051.0))) == started(4, 51.0)


def test_a_checkpoint_whose_last_barrier_came_stays_aligned_however_late_it_is() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, timed(4), 1010.0)
    assert arrives(handler, 1, timed(4), 1070.0) == [
        BlockChannel(1),
        StartSnapshot(timed(4), 10.0, 60.0),
        UnblockChannel(0),
        UnblockChannel(1),
    ]
    assert list(handler.on(AlignmentTimedOut(4), 1080.0)) == []


def test_an_unaligned_barrier_while_aligning_switches_at_once() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, timed(4), 1010.0)
    assert arrives(handler, 2, unaligned(4), 1020.0) == [
        started(4, 10.0, 10.0),
        PersistChannel(4, 1),
        PersistChannel(4, 2),
        UnblockChannel(0),
        StopPersisting(4, 2),
    ]


def test_the_timer_of_an_older_checkpoint_does_nothing() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, timed(4), 1010.0)
    arrives(handler, 0, timed(5), 1011.0)
    assert list(handler.on(AlignmentTimedOut(4), 1050.0)) == []


def test_a_newer_barrier_subsumes_what_is_being_persisted() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, unaligned(4))
    commands = arrives(handler, 1, unaligned(5))
    assert commands[:3] == [AbortAlignment(4, SUBSUMED), DropPersisted(4), started(5)]
    assert arrives(handler, 1, unaligned(4)) == []


def test_a_cancel_barrier_drops_what_was_persisted() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, unaligned(4))
    assert list(handler.on(CancelBarrierArrived(1, 4), 1000.0)) == [AbortAlignment(4, CANCELLED), DropPersisted(4)]
    assert list(handler.on(CancelBarrierArrived(0, 4), 1000.0)) == []
    assert arrives(handler, 1, unaligned(4)) == []


def test_an_abort_drops_what_was_persisted() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    arrives(handler, 0, unaligned(4))
    assert list(handler.on(CheckpointAborted(4), 1000.0)) == [AbortAlignment(4, None), DropPersisted(4)]


def test_the_end_of_a_channel_counts_as_its_barrier() -> None:
    handler = ExactlyOnceBarrierHandler(range(3))
    arrives(handler, 0, unaligned(4))
    assert list(handler.on(ChannelEnded(0), 1000.0)) == []
    assert list(handler.on(ChannelEnded(1), 1001.0)) == [StopPersisting(4, 1)]
    assert arrives(handler, 2, unaligned(4), 1002.0) == [StopPersisting(4, 2), FinishPersisting(4, 2.0)]


def test_without_checkpoints_after_the_end_a_persisting_one_is_aborted() -> None:
    handler = ExactlyOnceBarrierHandler(range(2), checkpoints_after_tasks_finish=False)
    arrives(handler, 0, unaligned(4))
    reason = DeclineReason.INPUT_END_OF_STREAM
    assert list(handler.on(ChannelEnded(1), 1000.0)) == [AbortAlignment(4, reason), DropPersisted(4)]


@pytest.mark.parametrize("before", [unaligned(4), timed(4)], ids=["unaligned", "with timeout"])
def test_a_forced_barrier_aligns_and_is_behind_the_subtask_what_it_was(before: Barrier) -> None:
    forced = replace(before, options=forced_aligned(before.options))
    assert forced.options.alignment is Alignment.FORCED_ALIGNED
    handler = ExactlyOnceBarrierHandler(range(2))
    assert arrives(handler, 0, forced, 5000.0) == [BlockChannel(0)]
    assert arrives(handler, 1, forced, 5000.0)[1] == StartSnapshot(before, 4000.0, 0.0)


def test_an_aligned_barrier_is_never_forced() -> None:
    assert forced_aligned(OPTIONS) == OPTIONS


def test_a_barrier_that_was_announced_only_is_forgotten_when_all_channels_end() -> None:
    handler = ExactlyOnceBarrierHandler(range(1))
    handler.on(BarrierAnnounced(0, timed(4)), 1000.0)
    assert list(handler.on(ChannelEnded(0), 1000.0)) == []
    assert list(handler.on(timed(5), 1000.0)) == [StartSnapshot(timed(5), 0.0, 0.0)]


def test_who_tracks_barriers_takes_no_notice_of_announcements_and_timers() -> None:
    handler = TrackingHandler(range(2))
    assert list(handler.on(BarrierAnnounced(0, timed(4)), 1000.0)) == []
    assert list(handler.on(AlignmentTimedOut(4), 1000.0)) == []


def test_an_unaligned_trigger_takes_what_the_channels_still_have_and_waits_for_no_barrier() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    assert list(handler.on(unaligned(4), 1003.0)) == [
        started(4, 3.0),
        PersistChannel(4, 0),
        PersistChannel(4, 1),
    ]
    assert list(handler.on(ChannelDrained(1, 4), 1003.0)) == [StopPersisting(4, 1)]
    assert list(handler.on(ChannelDrained(1, 4), 1003.0)) == []
    assert list(handler.on(ChannelDrained(0, 4), 1004.0)) == [StopPersisting(4, 0), FinishPersisting(4, 1.0)]
    assert list(handler.on(ChannelDrained(0, 4), 1004.0)) == []


def test_a_drained_channel_that_ends_counts_once() -> None:
    handler = ExactlyOnceBarrierHandler(range(2))
    handler.on(unaligned(4), 1000.0)
    handler.on(ChannelDrained(1, 4), 1000.0)
    assert list(handler.on(ChannelEnded(1), 1000.0)) == []
    assert list(handler.on(ChannelEnded(0), 1001.0)) == [StopPersisting(4, 0), FinishPersisting(4, 1.0)]


def test_a_held_trigger_becomes_unaligned_in_time() -> None:
    handler = ExactlyOnceBarrierHandler(range(1))
    assert list(handler.on(timed(4), 1010.0)) == [StartAlignmentTimer(4, 40.0)]
    assert list(handler.on(AlignmentTimedOut(4), 1050.0)) == [started(4, 50.0), PersistChannel(4, 0)]
    late = ExactlyOnceBarrierHandler(range(1))
    assert list(late.on(timed(4), 1060.0)) == [started(4, 60.0), PersistChannel(4, 0)]
    ended = ExactlyOnceBarrierHandler(range(1))
    ended.on(timed(4), 1010.0)
    assert list(ended.on(ChannelEnded(0), 1020.0)) == [StartSnapshot(timed(4), 20.0, 0.0)]
    assert list(ended.on(AlignmentTimedOut(4), 1050.0)) == []


CHANNELS = 3
_channel, _id = st.integers(0, CHANNELS - 1), st.integers(1, 6)
_aligned_events: st.SearchStrategy[AlignmentEvent] = st.one_of(
    st.builds(lambda c, n: BarrierArrived(c, Barrier(n, 1000, OPTIONS)), _channel, _id),
    st.builds(CancelBarrierArrived, _channel, _id),
    st.builds(ChannelEnded, _channel),
    st.builds(lambda n: Barrier(n, 1000, OPTIONS), _id),
    st.builds(CheckpointAborted, _id),
)


_any_events: st.SearchStrategy[AlignmentEvent] = st.one_of(
    _aligned_events,
    st.builds(lambda c, n: BarrierArrived(c, unaligned(n)), _channel, _id),
    st.builds(lambda c, n: BarrierArrived(c, timed(n)), _channel, _id),
    st.builds(lambda c, n: BarrierAnnounced(c, timed(n)), _channel, _id),
    st.builds(AlignmentTimedOut, _id),
    st.builds(ChannelDrained, _channel, _id),
    st.builds(lambda n: unaligned(n), _id),
    st.builds(lambda n: timed(n), _id),
)


@given(st.lists(_any_events, max_size=40))
def test_each_snapshot_is_finished_or_dropped_once_and_persists_each_channel_once(events: list[AlignmentEvent]) -> None:
    handler = ExactlyOnceBarrierHandler(range(CHANNELS))
    ended: set[int] = set()
    started_ids: list[int] = []
    persisting: dict[int, set[int]] = {}
    blocked: set[int] = set()
    for at, event in enumerate(events):
        if isinstance(event, (BarrierArrived, CancelBarrierArrived, BarrierAnnounced)) and event.channel in ended:
            continue
        if isinstance(event, ChannelEnded):
            ended.add(event.channel)
        for command in handler.on(event, 990.0 + 4 * at):
            match command:
                case StartSnapshot(barrier, delay_ms, alignment_ms, persists):
                    assert barrier.checkpoint_id not in started_ids
                    assert all(n < barrier.checkpoint_id for n in started_ids)
                    assert delay_ms >= 0
                    assert alignment_ms >= 0
                    started_ids.append(barrier.checkpoint_id)
                    if persists:
                        assert not persisting, "one at a time"
                        assert barrier.options.alignment is Alignment.UNALIGNED
                        persisting[barrier.checkpoint_id] = set()
                case PersistChannel(n, channel):
                    assert channel not in persisting[n]
                    assert channel not in blocked
                    assert channel not in ended
                    persisting[n].add(channel)
                case StopPersisting(n, channel):
                    persisting[n].remove(channel)
                case FinishPersisting(n, _):
                    assert not persisting.pop(n)
                case DropPersisted(n):
                    del persisting[n]
                case BlockChannel(channel):
                    assert channel not in blocked
                    blocked.add(channel)
                case UnblockChannel(channel):
                    blocked.remove(channel)
                case StartAlignmentTimer(_, delay_ms):
                    assert delay_ms > 0
                case AbortAlignment(n, _):
                    assert n not in started_ids or n in persisting
        blocked -= ended
        assert not (blocked and persisting)
        assert blocked == set(handler.blocked)
