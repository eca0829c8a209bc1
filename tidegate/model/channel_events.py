"""Events in data channels, in order with the batches (Flink: ``EventSerializer.java``).

Batches and these events are all that a channel carries; ``tidegate.wire.frames`` gives them bytes. Of Flink's types, the end
of a superstep has no counterpart: there are no iterations, and it is refused by name. Neither have the end of channel state
and the selector of a virtual channel: consumers restore what was in flight themselves (ADR 0020).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.checkpoint import CheckpointOptions

NO_WATERMARK = -(2**63)
"""The watermark of a channel, in ms, that had none yet (Flink: ``Watermark.UNINITIALIZED``)."""
END_OF_TIME = 2**63 - 1
"""The last watermark, in ms: everything was read (Flink: ``Watermark.MAX_WATERMARK``)."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """A checkpoint barrier: all earlier data belongs to checkpoint ``checkpoint_id``; ``timestamp_ms``: when the JobManager triggered it."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class CancelBarrier:
    """Cancels a checkpoint: no barrier of it will follow on this channel."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class WatermarkEvent:
    """A watermark: no record at or below this event time follows, late ones excepted."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """A channel becomes idle, so that it holds back no watermark, or active again."""

    idle: bool


@dataclass(frozen=True, slots=True)
class EndOfData:
    """The end of records; barriers may follow, and reports of what a sink has committed. ``drain``: event time was advanced to its end."""

    drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The end of the channel: nothing follows."""


@dataclass(frozen=True, slots=True)
class BarrierAnnouncement:
    """Announces, with priority, a barrier that may time out, ``sequence`` frames after the head of the channel."""

    barrier: Barrier
    sequence: int


@dataclass(frozen=True, slots=True)
class ChannelUnavailable:
    """The producer failed and lost data of the channel, so that the consumer cannot continue (Flink: ``ErrorResponse`` with a
    ``ProducerFailedException``). It is not passed on beyond the consumer's input gate."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class UserEvent:
    """An event of a user's function, encoded by ``tidegate.wire.user_events``; it is decoded where a function listens."""

    content: bytes


ChannelEvent = (
    Barrier
    | CancelBarrier
    | WatermarkEvent
    | WatermarkStatus
    | EndOfData
    | EndOfPartition
    | BarrierAnnouncement
    | UserEvent
)
