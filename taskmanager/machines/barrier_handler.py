"""Exactly-once barriers, aligned, unaligned, and aligned until it takes too long: what a subtask does with those of its input
channels.

The states are classes of ``barrier_states``, and where each event leads is data: ``BARRIER_TRANSITIONS`` (docs/state-machines.md draws it).
The handler compares checkpoint ids, knows which channels are open, and holds a trigger.

Laws. A channel is blocked when its aligned barrier arrives; the snapshot starts before the channels are unblocked, and an abort unblocks them too. Checkpoint
ids only grow: events of an older or finished checkpoint are ignored. The barrier of an ended channel is not awaited, and a channel that delivered both barrier
and end counts once.

An unaligned snapshot starts with the first barrier and blocks no channel: the data of each channel before its barrier is persisted once, and none after it. A
blocked channel has no data before its barrier. A checkpoint whose last barrier arrives before the timeout stays aligned. The timeout counts from the
JobManager's trigger, and is also checked with each barrier. A FORCED_ALIGNED barrier (pointwise and broadcast inputs) never times out here; downstream of this
subtask it has its original alignment again.

A subtask without running predecessors is triggered by RPC. An aligned trigger is held until the ends of all channels were read, so that no data in flight is
left out of the snapshot (stricter than Flink, which inserts the barrier before them). An unaligned trigger starts the snapshot at once: the remaining data of
each channel is persisted up to its end (``ChannelDrained``), without a barrier.

Follows Flink's ``SingleCheckpointBarrierHandler.java``, ``WaitingForFirstBarrier.java``, ``CollectingBarriers.java``
and ``Alternating*.java``; the timeout starts the snapshot at once instead of making the announced barriers overtake first, which gives the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    CancelBarrierArrived,
    ChannelDrained,
    ChannelEnded,
    CheckpointAborted,
    StartAlignmentTimer,
    StartSnapshot,
)
from tidegate.taskmanager.machines.barrier_states import (
    Aligning,
    Announced,
    BarrierState,
    Persisting,
    Step,
    Waiting,
    as_unaligned,
    start_delay,
    start_unaligned,
)

_GIVEN_UP: Mapping[type[AlignmentEvent], tuple[type[BarrierState], ...]] = {
    CancelBarrierArrived: (Waiting,),
    CheckpointAborted: (Waiting,),
}
BARRIER_TRANSITIONS: Mapping[type[BarrierState], Mapping[type[AlignmentEvent], tuple[type[BarrierState], ...]]] = {
    Waiting: {
        BarrierArrived: (Aligning, Persisting),
        BarrierAnnounced: (Announced, Persisting),
        Barrier: (Persisting,),
        AlignmentTimedOut: (Persisting,),
    },
    Announced: {
        **_GIVEN_UP,
        BarrierArrived: (Aligning, Persisting, Waiting),
        BarrierAnnounced: (Persisting,),
        ChannelEnded: (Waiting,),
        Barrier: (Persisting,),
        AlignmentTimedOut: (Persisting,),
    },
    Aligning: {
        **_GIVEN_UP,
        BarrierArrived: (Persisting, Waiting),
        BarrierAnnounced: (Announced, Persisting),
        ChannelEnded: (Waiting,),
        Barrier: (Persisting,),
        AlignmentTimedOut: (Persisting,),
    },
    Persisting: {
        **_GIVEN_UP,
        BarrierArrived: (Aligning, Waiting),
        BarrierAnnounced: (Announced,),
        ChannelDrained: (Waiting,),
        ChannelEnded: (Waiting,),
    },
}
"""The states that an event may lead to from each state. An event may also leave the state as it is."""


class ExactlyOnceBarrierHandler:
    """Handles barriers exactly-once; the barriers say whether they are aligned. Raises ``AssertionError`` when a barrier comes on a channel that has ended."""

    def __init__(
        self, channels: Iterable[int], *, last_id: int = 0, checkpoints_after_tasks_finish: bool = True
    ) -> None:
        self.state: BarrierState = Waiting()
        self._open = set(channels)
        self._last_id = last_id
        self._held: Barrier | None = None
        """A trigger by RPC that waits for the ends of all channels; its checkpoint is always newer than ``_last_id``."""
        self._after_finish = checkpoints_after_tasks_finish

    @property
    def collecting(self) -> int | None:
        return self.state.collecting

    @property
    def persisting(self) -> bool:
        """Whether the snapshot of ``collecting`` was started and data in flight is being persisted for it."""
        return isinstance(self.state, Persisting)

    @property
    def blocked(self) -> frozenset[int]:
        """The blocked channels, which wait for the barriers of the others."""
        return frozenset(self.state.blocked)

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        before = type(self.state)
        commands = self._on(event, now_ms)
        after = type(self.state)
        allowed = after is before or after in BARRIER_TRANSITIONS[before].get(type(event), ())
        assert allowed, f"{type(event).__name__} led from {before.__name__} to {after.__name__}"
        return commands

    def _on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        match event:
            case BarrierArrived(channel, barrier):
                assert channel in self._open, f"barrier {barrier.checkpoint_id} on channel {channel} after its end"
                if self._is_over(barrier.checkpoint_id):
                    return []
                begun = self._begin(barrier)
                return [*begun, *self._move(self.state.on_barrier(channel, barrier, self._open, now_ms))]
            case BarrierAnnounced(channel, barrier):
                assert channel in self._open, f"announcement {barrier.checkpoint_id} on channel {channel} after its end"
                if self._is_over(barrier.checkpoint_id):
                    return []
                begun = self._begin(barrier)
                return [*begun, *self._move(self.state.on_announced(barrier, self._open, now_ms))]
            case ChannelDrained(channel, checkpoint_id):
                is_mine = self.collecting == checkpoint_id
                return self._move(self.state.on_drained(channel, self._open, now_ms)) if is_mine else []
            case AlignmentTimedOut(checkpoint_id):
                return self._on_timed_out(checkpoint_id, now_ms)
            case CancelBarrierArrived(channel, checkpoint_id):
                assert channel in self._open, f"cancel barrier {checkpoint_id} on channel {channel} after its end"
                return self._on_cancel(checkpoint_id)
            case ChannelEnded(channel):
                return self._on_end(channel, now_ms)
            case Barrier():  # of a trigger: nothing runs before this subtask
                return self._on_trigger(event, now_ms)
            case CheckpointAborted(checkpoint_id):
                if self._held is not None and self._held.checkpoint_id == checkpoint_id:
                    self._held = None
                return self._drop(None) if self.collecting == checkpoint_id else []
            case _:
                assert_never(event)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when state, open channels, ids and the held trigger contradict each other."""
        collecting, held = self.collecting, self._held
        assert collecting in (None, self._last_id), f"collects {collecting}, and the newest id is {self._last_id}"
        self.state.check_invariants(self._open)
        if held is not None:
            assert held.checkpoint_id > self._last_id, f"holds trigger {held.checkpoint_id} behind {self._last_id}"
            assert self._open, f"holds trigger {held.checkpoint_id}, and all channels have ended"

    def _move(self, step: Step) -> Sequence[AlignmentCommand]:
        self.state, commands = step
        return commands

    def _drop(self, reason: DeclineReason | None) -> Sequence[AlignmentCommand]:
        return self._move((Waiting(), self.state.drop(reason)))

    def _is_over(self, checkpoint_id: int) -> bool:
        return checkpoint_id <= self._last_id and checkpoint_id != self.collecting

    def _begin(self, barrier: Barrier) -> Sequence[AlignmentCommand]:
        """Drops the current checkpoint for a newer one whose barrier came. Does nothing if the barrier is of the current checkpoint."""
        if barrier.checkpoint_id == self.collecting:
            return []
        commands = self._drop(DeclineReason.SUBSUMED)
        self._advance(barrier.checkpoint_id)
        return commands

    def _advance(self, checkpoint_id: int) -> None:
        self._last_id = checkpoint_id
        if self._held is not None and self._held.checkpoint_id <= checkpoint_id:
            self._held = None

    def _on_timed_out(self, checkpoint_id: int, now_ms: float) -> Sequence[AlignmentCommand]:
        if self._held is not None and self._held.checkpoint_id == checkpoint_id:
            return self._on_trigger(as_unaligned(self._held), now_ms)
        if self.collecting != checkpoint_id:
            return []
        return self._move(self.state.on_timed_out(self._open, now_ms))

    def _on_cancel(self, checkpoint_id: int) -> Sequence[AlignmentCommand]:
        if self.collecting == checkpoint_id:
            return self._drop(DeclineReason.ON_CANCELLATION_BARRIER)
        if checkpoint_id <= self._last_id:
            return []
        commands = self._drop(DeclineReason.SUBSUMED)
        self._advance(checkpoint_id)
        return [*commands, AbortAlignment(checkpoint_id, DeclineReason.ON_CANCELLATION_BARRIER)]

    def _on_end(self, channel: int, now_ms: float) -> Sequence[AlignmentCommand]:
        if channel not in self._open:
            return []
        self._open.discard(channel)
        if self._after_finish:
            commands = self._move(self.state.on_channel_ended(channel, self._open, now_ms))
        else:
            self.state = self.state.without(channel)
            commands = self._drop(DeclineReason.INPUT_END_OF_STREAM)
        if self._open or self._held is None:
            return commands
        held, self._held = self._held, None
        return [*commands, *self._on_trigger(held, now_ms)]

    def _on_trigger(self, barrier: Barrier, now_ms: float) -> Sequence[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last_id:
            return []
        if not self._open:
            self._last_id = barrier.checkpoint_id
            return [StartSnapshot(barrier, start_delay(barrier, now_ms), 0.0)]
        if barrier.options.alignment is Alignment.UNALIGNED:
            begun = self._begin(barrier)
            return [*begun, *self._move(start_unaligned(barrier, self._open, now_ms))]
        if self._held is not None and self._held.checkpoint_id >= barrier.checkpoint_id:
            return []
        self._held = barrier
        return self._time_of_held(barrier, now_ms)

    def _time_of_held(self, barrier: Barrier, now_ms: float) -> Sequence[AlignmentCommand]:
        timeout_ms = barrier.options.aligned_timeout_ms
        if timeout_ms is None:
            return []
        left_ms = barrier.timestamp_ms + timeout_ms - now_ms
        if left_ms <= 0:
            return self._on_trigger(as_unaligned(barrier), now_ms)
        return [StartAlignmentTimer(barrier.checkpoint_id, left_ms)]


def forced_aligned(options: CheckpointOptions) -> CheckpointOptions:
    """Returns the options for an edge on which barriers may not overtake data: FORCED_ALIGNED if they could become unaligned, otherwise as they are."""
    can_overtake = options.alignment is Alignment.UNALIGNED or options.aligned_timeout_ms is not None
    return replace(options, alignment=Alignment.FORCED_ALIGNED) if can_overtake else options
