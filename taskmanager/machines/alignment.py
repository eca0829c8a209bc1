"""The vocabulary of barrier handlers: events, commands, and the protocol that every handler keeps.

``barrier_handler`` is exactly-once, aligned or not; ``barrier_tracker`` is at-least-once. Handlers know channels by number, and no time but the one
they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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
    | Barrier  # of a trigger: the JobManager triggers a subtask itself when nothing runs before it
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

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` that says what contradicts what; tests and the simulator call it after each event."""
