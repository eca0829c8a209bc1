"""Barrier alignment: what a subtask does with the barriers of its input channels (exactly-once, aligned).

    WAITING ── first barrier of n > last ──▶ COLLECTING n ── every open channel delivered n or ended ──▶ snapshot, WAITING
       ▲                                         │
       └── cancel n · newer barrier · abort n ───┘   (channels unblocked, n aborted)

Laws. A channel is blocked when its barrier arrives; the snapshot starts before the channels are unblocked, and an abort
unblocks them too. Ids only grow: what is older than the current id, or finished, is ignored. A channel that ended is not
waited for, and one that delivered both barrier and end counts once.

A trigger by RPC reaches a subtask without running predecessors: it is held until the ends of all its channels were read,
so that nothing which is still on the way is left out of the snapshot (stricter than Flink, which inserts the barrier
before them). Follows Flink's ``SingleCheckpointBarrierHandler.java``, ``WaitingForFirstBarrier.java``, ``CollectingBarriers.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    channel: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class CancelBarrierArrived:
    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """End of partition: the channel delivers nothing more, no barrier either."""

    channel: int


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """The JobManager triggered this subtask itself, since nothing runs before it."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """The JobManager gave the checkpoint up: do not hold the channels for it any longer."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BarrierAnnounced:
    """An aligned barrier that may time out is on its way on this channel, behind data."""

    channel: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class ChannelDrained:
    """All that this channel will ever deliver was persisted for the checkpoint: the end of its partition came before a barrier,
    though it has not been processed yet."""

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AlignmentTimedOut:
    """The timer of ``StartAlignmentTimer`` fired."""

    checkpoint_id: int


AlignmentEvent = (
    BarrierArrived
    | CancelBarrierArrived
    | ChannelEnded
    | CheckpointTriggered
    | CheckpointAborted
    | BarrierAnnounced
    | ChannelDrained
    | AlignmentTimedOut
)


@dataclass(frozen=True, slots=True)
class BlockChannel:
    channel: int


@dataclass(frozen=True, slots=True)
class UnblockChannel:
    channel: int


@dataclass(frozen=True, slots=True)
class StartSnapshot:
    """Take it now, before any command behind this one. ``start_delay_ms``: from the trigger to the first barrier here;
    ``alignment_ms``: from the first barrier to the last."""

    barrier: Barrier
    start_delay_ms: float
    alignment_ms: float
    persists: bool = False
    """Data in flight belongs to it: ``PersistChannel`` follows for each channel, ``FinishPersisting`` ends it, and only
    then it may be acknowledged."""


@dataclass(frozen=True, slots=True)
class AbortAlignment:
    """This subtask takes no part: tell the consumers by a cancel barrier, and the JobManager if there is a reason
    (``None``: it knows, since it was the one who aborted)."""

    checkpoint_id: int
    reason: DeclineReason | None


@dataclass(frozen=True, slots=True)
class StartAlignmentTimer:
    """Comes back as ``AlignmentTimedOut``; a later one replaces it."""

    checkpoint_id: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class PersistChannel:
    """What waits on this channel in front of the barrier of this checkpoint, and what will come in front of it."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class StopPersisting:
    """The barrier of this channel came: nothing behind it belongs to the checkpoint."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class FinishPersisting:
    """All channels were persisted up to their barriers. ``alignment_ms``: from the first barrier to the last."""

    checkpoint_id: int
    alignment_ms: float


@dataclass(frozen=True, slots=True)
class DropPersisted:
    """The checkpoint was given up while channels were persisted for it."""

    checkpoint_id: int


AlignmentCommand = (
    BlockChannel
    | UnblockChannel
    | StartSnapshot
    | AbortAlignment
    | StartAlignmentTimer
    | PersistChannel
    | StopPersisting
    | FinishPersisting
    | DropPersisted
)


class BarrierHandler(Protocol):
    """One class for each mode; chosen when the subtask starts."""

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        """``now_ms`` is wall clock, since start delays are measured against the JobManager's trigger time."""

    @property
    def collecting(self) -> int | None:
        """Id of the newest checkpoint whose barriers are being collected."""


class AlignedHandler:
    """Exactly-once, aligned. Raises ``AssertionError`` when a channel speaks after its end (the gate rules that out)."""

    def __init__(
        self, channels: Iterable[int], *, last_id: int = 0, checkpoints_after_tasks_finish: bool = True
    ) -> None:
        self._open = set(channels)
        self._last_id = last_id
        self._pending: Barrier | None = None
        self._arrived: list[int] = []
        self._first_ms = 0.0
        self._held: Barrier | None = None
        self._after_finish = checkpoints_after_tasks_finish

    @property
    def collecting(self) -> int | None:
        return None if self._pending is None else self._pending.checkpoint_id

    @property
    def blocked(self) -> frozenset[int]:
        """Channels that wait for the others."""
        return frozenset(self._arrived)

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        match event:
            case BarrierArrived(channel, barrier):
                assert channel in self._open, f"barrier {barrier.checkpoint_id} on channel {channel} after its end"
                return self._on_barrier(channel, barrier, now_ms)
            case CancelBarrierArrived(channel, checkpoint_id):
                assert channel in self._open, f"cancel barrier {checkpoint_id} on channel {channel} after its end"
                return self._on_cancel(checkpoint_id)
            case ChannelEnded(channel):
                return self._on_end(channel, now_ms)
            case CheckpointTriggered(barrier):
                return self._on_trigger(barrier, now_ms)
            case CheckpointAborted(checkpoint_id):
                return self._on_abort(checkpoint_id)
            case BarrierAnnounced() | ChannelDrained() | AlignmentTimedOut():
                return []  # of unaligned checkpoints
            case _:
                assert_never(event)

    def _on_barrier(self, channel: int, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        checkpoint_id = barrier.checkpoint_id
        commands: list[AlignmentCommand] = []
        if self._pending is None or checkpoint_id != self._pending.checkpoint_id:
            if checkpoint_id <= self._last_id:
                return []
            commands += self._drop_pending(DeclineReason.SUBSUMED)
            self._pending, self._last_id, self._first_ms = barrier, checkpoint_id, now_ms
            self._drop_held(checkpoint_id)
        if channel not in self._arrived:
            self._arrived.append(channel)
            commands.append(BlockChannel(channel))
        if len(self._arrived) == len(self._open):
            if len(self._open) == 1:
                commands.remove(BlockChannel(channel))  # it alone is waited for: nothing to hold back
                self._arrived.clear()
            commands += self._complete(now_ms)
        return commands

    def _on_cancel(self, checkpoint_id: int) -> list[AlignmentCommand]:
        if self._pending is not None and checkpoint_id == self._pending.checkpoint_id:
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
        commands: list[AlignmentCommand] = []
        if channel in self._arrived:
            self._arrived.remove(channel)  # it counts as its end from now on
        if self._pending is not None:
            if not self._after_finish:
                commands += self._drop_pending(DeclineReason.INPUT_END_OF_STREAM)
            elif len(self._arrived) == len(self._open):
                commands += self._complete(now_ms)
        if not self._open and self._held is not None:
            held, self._held = self._held, None
            commands += self._on_trigger(held, now_ms)
        return commands

    def _on_trigger(self, barrier: Barrier, now_ms: float) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last_id:
            return []
        if self._open:
            if self._held is None or self._held.checkpoint_id < barrier.checkpoint_id:
                self._held = barrier
            return []
        self._last_id = barrier.checkpoint_id
        return [StartSnapshot(barrier, _delay(barrier, now_ms), 0.0)]

    def _on_abort(self, checkpoint_id: int) -> list[AlignmentCommand]:
        if self._held is not None and self._held.checkpoint_id == checkpoint_id:
            self._held = None
        if self._pending is None or self._pending.checkpoint_id != checkpoint_id:
            return []
        return self._drop_pending(None)

    def _complete(self, now_ms: float) -> list[AlignmentCommand]:
        assert self._pending is not None
        barrier, self._pending = self._pending, None
        start = StartSnapshot(barrier, _delay(barrier, self._first_ms), max(0.0, now_ms - self._first_ms))
        return [start, *self._unblock_all()]

    def _drop_pending(self, reason: DeclineReason | None) -> list[AlignmentCommand]:
        if self._pending is None:
            return []
        dropped, self._pending = self._pending.checkpoint_id, None
        return [AbortAlignment(dropped, reason), *self._unblock_all()]

    def _unblock_all(self) -> list[UnblockChannel]:
        blocked, self._arrived = self._arrived, []
        return [UnblockChannel(channel) for channel in blocked]

    def _drop_held(self, checkpoint_id: int) -> None:
        if self._held is not None and self._held.checkpoint_id <= checkpoint_id:
            self._held = None


def _delay(barrier: Barrier, now_ms: float) -> float:
    return max(0.0, now_ms - barrier.timestamp_ms)
