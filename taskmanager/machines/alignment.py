"""Events and commands of barrier handlers, and the protocol that every barrier handler implements.

``barrier_handler`` is exactly-once, aligned or unaligned; ``barrier_tracker`` is at-least-once. Handlers identify channels by number, and get the time from
their caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import DeclineReason


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    """A checkpoint barrier was read from a channel."""

    channel: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class CancelBarrierArrived:
    """A cancel barrier was read from a channel: its producer takes no part in this checkpoint."""

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """The end of partition of a channel was read: it delivers nothing more, no barrier either."""

    channel: int


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """The JobManager aborted a checkpoint: channels must not stay blocked for it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BarrierAnnounced:
    """A channel announced an aligned barrier that may time out and that comes after data."""

    channel: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class ChannelDrained:
    """All data that a channel will ever deliver was persisted for the checkpoint: the end of its partition came before a barrier, but has not been processed
    yet.
    """

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AlignmentTimedOut:
    """The timer of ``StartAlignmentTimer`` fired: the checkpoint's aligned timeout is over."""

    checkpoint_id: int


AlignmentEvent = (
    BarrierArrived
    | CancelBarrierArrived
    | ChannelEnded
    | Barrier  # of a trigger: the JobManager triggers a subtask itself when nothing runs before it
    | CheckpointAborted
    | BarrierAnnounced
    | ChannelDrained
    | AlignmentTimedOut
)


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Stops reading a channel until ``UnblockChannel``."""

    channel: int


@dataclass(frozen=True, slots=True)
class UnblockChannel:
    """Reads a blocked channel again."""

    channel: int


@dataclass(frozen=True, slots=True)
class StartSnapshot:
    """Starts the snapshot of a checkpoint, before any later command is carried out. ``start_delay_ms``: from the trigger to the first barrier here;
    ``alignment_ms``: from the first barrier to the last.
    """

    barrier: Barrier
    start_delay_ms: float
    alignment_ms: float
    persists: bool = False
    """Whether data in flight is part of the snapshot. Then ``PersistChannel`` follows for each channel, and the checkpoint may be acknowledged only after
    ``FinishPersisting``.
    """


@dataclass(frozen=True, slots=True)
class AbortAlignment:
    """Gives the checkpoint up in this subtask: sends a cancel barrier to the consumers and declines it at the JobManager. ``reason`` is ``None`` if the
    JobManager itself aborted it.
    """

    checkpoint_id: int
    reason: DeclineReason | None


@dataclass(frozen=True, slots=True)
class StartAlignmentTimer:
    """Starts a timer that comes back as ``AlignmentTimedOut``. A later timer replaces it."""

    checkpoint_id: int
    delay_ms: float


@dataclass(frozen=True, slots=True)
class PersistChannel:
    """Starts persisting, for an unaligned checkpoint, the data of a channel that is in front of the checkpoint's barrier."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class StopPersisting:
    """Stops persisting a channel for a checkpoint: its barrier came, and no data after it belongs to the checkpoint."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class FinishPersisting:
    """Ends the in-flight data of an unaligned checkpoint: all channels were persisted up to their barriers. ``alignment_ms``: from the first barrier to the
    last.
    """

    checkpoint_id: int
    alignment_ms: float


@dataclass(frozen=True, slots=True)
class DropPersisted:
    """Drops the data in flight that was persisted for a checkpoint, which was given up."""

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
    """Decides what a subtask does with the barriers of its input channels. There is one class for each checkpointing mode."""

    def on(self, event: AlignmentEvent, now_ms: float) -> Sequence[AlignmentCommand]:
        """Takes an event, returns the commands to carry out. ``now_ms`` is wall clock, since start delays are measured against the trigger time of the
        JobManager.
        """

    @property
    def collecting(self) -> int | None:
        """Id of the newest checkpoint whose barriers are being collected, ``None`` if there is none."""

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the handler's state contradicts itself. Tests and the simulator call it after each event."""
