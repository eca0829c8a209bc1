"""Exactly-once barriers, aligned, unaligned, and aligned until it takes too long: what a subtask does with those of its input
channels.

    WAITING ── aligned barrier, or its announcement ──▶ COLLECTING n (channels blocked) ── the last barrier ──▶ snapshot, WAITING
       │                                                   │ timed out · an unaligned barrier of n came
       └── unaligned barrier of n ──▶ snapshot ◀───────────┘ (channels unblocked)
                                         └──▶ PERSISTING n ── every open channel delivered n or ended ──▶ finished, WAITING

    cancel n · newer barrier · abort n, in COLLECTING and PERSISTING: n aborted, WAITING

Laws. A channel is blocked when its aligned barrier arrives; the snapshot starts before the channels are unblocked, and an abort
unblocks them too. Ids only grow: what is older than the current id, or finished, is ignored. A channel that ended is not waited
for, and one that delivered both barrier and end counts once.

An unaligned snapshot starts with the first barrier and blocks nothing: what each channel still has in front of its
barrier is persisted, once, and nothing behind it. A channel that was blocked has nothing in front of its barrier. A checkpoint
whose last barrier came in time stays aligned. The timer counts from the JobManager's trigger, and is looked at with each
barrier too. A FORCED_ALIGNED barrier (pointwise and broadcast inputs) never times out here; behind this subtask it is again
what it was.

A trigger by RPC reaches a subtask without running predecessors. An aligned one is held until the ends of all its channels were
read, so that nothing which is still on the way is left out of the snapshot (stricter than Flink, which inserts the barrier before
them). An unaligned one starts the snapshot: each channel ends with what it has (``ChannelDrained``), and needs no barrier.

Follows Flink's ``SingleCheckpointBarrierHandler.java``, ``WaitingForFirstBarrier.java``, ``CollectingBarriers.java`` and ``Alternating*.java``; the timeout starts the snapshot at once
instead of making the announced barriers overtake first, which gives the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

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
    CheckpointTriggered,
    DropPersisted,
    FinishPersisting,
    PersistChannel,
    StartAlignmentTimer,
    StartSnapshot,
    StopPersisting,
    UnblockChannel,
)


class ExactlyOnceBarrierHandler:
    """Exactly-once; the barriers say whether they are aligned. Raises ``AssertionError`` when a channel speaks after its end."""

    def __init__(
        self, channels: Iterable[int], *, last_id: int = 0, checkpoints_after_tasks_finish: bool = True
    ) -> None:
        self._open = set(channels)
        self._last_id = last_id
        self._pending: Barrier | None = None
        self._arrived: list[int] = []
        self._blocked: list[int] = []
        self._first_ms: float | None = None
        self._persisting = False
        self._has_timer = False
        self._held: Barrier | None = None
        self._after_finish = checkpoints_after_tasks_finish

    @property
    def collecting(self) -> int | None:
        return None if self._pending is None else self._pending.checkpoint_id

    @property
    def persisting(self) -> bool:
        """The snapshot of ``collecting`` was started, and data in flight is persisted for it."""
        return self._persisting

    @property
    def blocked(self) -> frozenset[int]:
        """Channels that wait for the others."""
        return frozenset(self._blocked)

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        match event:
            case BarrierArrived(channel, barrier):
                assert channel in self._open, f"barrier {barrier.checkpoint_id} on channel {channel} after its end"
                return self._on_barrier(channel, barrier, now_ms)
            case BarrierAnnounced(channel, barrier):
                assert channel in self._open, f"announcement {barrier.checkpoint_id} on channel {channel} after its end"
                return self._on_announced(barrier, now_ms)
            case ChannelDrained(channel, checkpoint_id):
                return self._on_drained(channel, checkpoint_id, now_ms)
            case AlignmentTimedOut(checkpoint_id):
                return self._on_timed_out(checkpoint_id, now_ms)
            case CancelBarrierArrived(channel, checkpoint_id):
                assert channel in self._open, f"cancel barrier {checkpoint_id} on channel {channel} after its end"
                return self._on_cancel(checkpoint_id)
            case ChannelEnded(channel):
                return self._on_end(channel, now_ms)
            case CheckpointTriggered(barrier):
                return self._on_trigger(barrier, now_ms)
            case CheckpointAborted(checkpoint_id):
                return self._on_abort(checkpoint_id)
            case _:
                assert_never(event)

    def _on_barrier(self, channel: int, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        commands: list[AlignmentCommand] = []
        if self.collecting != barrier.checkpoint_id:
            if barrier.checkpoint_id <= self._last_id:
                return []
            commands += self._begin(barrier)
        if channel in self._arrived:
            return commands
        self._first_ms = now_ms if self._first_ms is None else self._first_ms
        if self._persisting:
            self._arrived.append(channel)
            return [*commands, StopPersisting(barrier.checkpoint_id, channel), *self._finish_if_all(now_ms)]
        if barrier.options.alignment is Alignment.UNALIGNED:
            return [*commands, *self._switch(now_ms, unaligned=channel)]
        self._arrived.append(channel)
        if len(self._open) > 1:  # one alone is waited for: nothing to hold back
            self._blocked.append(channel)
            commands.append(BlockChannel(channel))
        if len(self._arrived) == len(self._open):
            return [*commands, *self._complete(now_ms)]
        return [*commands, *self._watch_time(barrier, now_ms)]

    def _on_announced(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        commands: list[AlignmentCommand] = []
        if self.collecting != barrier.checkpoint_id:
            if barrier.checkpoint_id <= self._last_id:
                return []
            commands += self._begin(barrier)
        return commands if self._persisting else [*commands, *self._watch_time(barrier, now_ms)]

    def _watch_time(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        """The snapshot now, if its time is over; otherwise a timer, once."""
        timeout_ms = barrier.options.aligned_timeout_ms
        if timeout_ms is None or barrier.options.alignment is not Alignment.ALIGNED:
            return []
        left_ms = barrier.timestamp_ms + timeout_ms - now_ms
        if left_ms <= 0:
            return self._switch(now_ms)
        if self._has_timer:
            return []
        self._has_timer = True
        return [StartAlignmentTimer(barrier.checkpoint_id, left_ms)]

    def _on_timed_out(self, checkpoint_id: int, now_ms: float) -> list[AlignmentCommand]:
        if self._held is not None and self._held.checkpoint_id == checkpoint_id:
            return self._on_trigger(_as_unaligned(self._held), now_ms)
        if self.collecting != checkpoint_id or self._persisting:
            return []
        return self._switch(now_ms)

    def _on_drained(self, channel: int, checkpoint_id: int, now_ms: float) -> list[AlignmentCommand]:
        if not self._persisting or self.collecting != checkpoint_id or channel in self._arrived:
            return []
        if channel not in self._open:
            return []
        self._arrived.append(channel)
        return [StopPersisting(checkpoint_id, channel), *self._finish_if_all(now_ms)]

    def _switch(self, now_ms: float, unaligned: int | None = None) -> list[AlignmentCommand]:
        """Start the unaligned snapshot. ``unaligned``: the channel whose barrier overtook its data just now."""
        assert self._pending is not None
        barrier = _as_unaligned(self._pending)
        checkpoint_id = barrier.checkpoint_id
        self._first_ms = now_ms if self._first_ms is None else self._first_ms
        self._pending, self._persisting = barrier, True
        commands: list[AlignmentCommand] = [
            StartSnapshot(barrier, _delay(barrier, self._first_ms), max(0.0, now_ms - self._first_ms), persists=True)
        ]
        commands += [PersistChannel(checkpoint_id, c) for c in sorted(self._open) if c not in self._arrived]
        commands += self._unblock_all()
        if unaligned is not None:
            self._arrived.append(unaligned)
            commands.append(StopPersisting(checkpoint_id, unaligned))
        return [*commands, *self._finish_if_all(now_ms)]

    def _finish_if_all(self, now_ms: float) -> list[AlignmentCommand]:
        if len(self._arrived) < len(self._open):
            return []
        assert self._pending is not None
        assert self._first_ms is not None
        finished = FinishPersisting(self._pending.checkpoint_id, max(0.0, now_ms - self._first_ms))
        self._reset()
        return [finished]

    def _on_cancel(self, checkpoint_id: int) -> list[AlignmentCommand]:
        if self.collecting == checkpoint_id:
            return self._drop_pending(DeclineReason.ON_CANCELLATION_BARRIER)
        if checkpoint_id <= self._last_id:
            return []
        commands = self._drop_pending(DeclineReason.SUBSUMED)
        self._last_id = checkpoint_id
        self._drop_held(checkpoint_id)
        return [*commands, AbortAlignment(checkpoint_id, DeclineReason.ON_CANCELLATION_BARRIER)]

    def _on_end(self, channel: int, now_ms: float) -> list[AlignmentCommand]:
        if channel not in self._open:
            return []
        self._open.discard(channel)
        had_arrived = channel in self._arrived
        if had_arrived:
            self._arrived.remove(channel)  # it counts as its end from now on
        if channel in self._blocked:
            self._blocked.remove(channel)
        commands: list[AlignmentCommand] = []
        if self._pending is not None:
            if not self._after_finish:
                commands += self._drop_pending(DeclineReason.INPUT_END_OF_STREAM)
            elif self._persisting:
                stop = [] if had_arrived else [StopPersisting(self._pending.checkpoint_id, channel)]
                commands += [*stop, *self._finish_if_all(now_ms)]
            elif len(self._arrived) == len(self._open):
                commands += self._complete(now_ms)
        if not self._open and self._held is not None:
            held, self._held = self._held, None
            commands += self._on_trigger(held, now_ms)
        return commands

    def _on_trigger(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last_id:
            return []
        if self._open and barrier.options.alignment is Alignment.UNALIGNED:
            return [*self._begin(barrier), *self._switch(now_ms)]
        if self._open:
            if self._held is None or self._held.checkpoint_id < barrier.checkpoint_id:
                self._held = barrier
                return self._time_of_held(barrier, now_ms)
            return []
        self._last_id = barrier.checkpoint_id
        return [StartSnapshot(barrier, _delay(barrier, now_ms), 0.0)]

    def _time_of_held(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        timeout_ms = barrier.options.aligned_timeout_ms
        if timeout_ms is None:
            return []
        left_ms = barrier.timestamp_ms + timeout_ms - now_ms
        if left_ms <= 0:
            return self._on_trigger(_as_unaligned(barrier), now_ms)
        return [StartAlignmentTimer(barrier.checkpoint_id, left_ms)]

    def _on_abort(self, checkpoint_id: int) -> list[AlignmentCommand]:
        if self._held is not None and self._held.checkpoint_id == checkpoint_id:
            self._held = None
        return self._drop_pending(None) if self.collecting == checkpoint_id else []

    def _begin(self, barrier: Barrier) -> list[AlignmentCommand]:
        commands = self._drop_pending(DeclineReason.SUBSUMED)
        self._pending, self._last_id = barrier, barrier.checkpoint_id
        self._drop_held(barrier.checkpoint_id)
        return commands

    def _complete(self, now_ms: float) -> list[AlignmentCommand]:
        """Aligned: the last barrier came."""
        assert self._pending is not None
        barrier, first_ms = _behind_forced(self._pending), self._first_ms
        unblocked = self._unblock_all()
        self._reset()
        if first_ms is None:
            return []  # it was announced only, and all channels ended without it
        return [StartSnapshot(barrier, _delay(barrier, first_ms), max(0.0, now_ms - first_ms)), *unblocked]

    def _drop_pending(self, reason: DeclineReason | None) -> list[AlignmentCommand]:
        if self._pending is None:
            return []
        dropped = self._pending.checkpoint_id
        commands: list[AlignmentCommand] = [AbortAlignment(dropped, reason)]
        commands += [DropPersisted(dropped)] if self._persisting else self._unblock_all()
        self._reset()
        return commands

    def _unblock_all(self) -> list[AlignmentCommand]:
        blocked, self._blocked = self._blocked, []
        return [UnblockChannel(channel) for channel in blocked]

    def _reset(self) -> None:
        self._pending, self._first_ms = None, None
        self._persisting, self._has_timer = False, False
        self._arrived = []

    def _drop_held(self, checkpoint_id: int) -> None:
        if self._held is not None and self._held.checkpoint_id <= checkpoint_id:
            self._held = None


def forced_aligned(options: CheckpointOptions) -> CheckpointOptions:
    """For an edge on which nothing may be overtaken. Other options stay as they are."""
    can_overtake = options.alignment is Alignment.UNALIGNED or options.aligned_timeout_ms is not None
    return replace(options, alignment=Alignment.FORCED_ALIGNED) if can_overtake else options


def _behind_forced(barrier: Barrier) -> Barrier:
    """What the barrier was before it came to an edge that forces alignment."""
    if barrier.options.alignment is not Alignment.FORCED_ALIGNED:
        return barrier
    again = Alignment.UNALIGNED if barrier.options.aligned_timeout_ms is None else Alignment.ALIGNED
    return replace(barrier, options=replace(barrier.options, alignment=again))


def _as_unaligned(barrier: Barrier) -> Barrier:
    options = replace(barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
    return replace(barrier, options=options)


def _delay(barrier: Barrier, now_ms: float) -> float:
    return max(0.0, now_ms - barrier.timestamp_ms)
