"""Events that travel in data channels, in order with the batches (Flink: ``EventSerializer.java``).

Batches and these events are all that a channel carries; ``tidegate.wire.frames`` gives them bytes. Of Flink's types, the end
of a superstep has no counterpart: there are no iterations, and it is refused by name. Neither have the end of channel state
and the selector of a virtual channel: consumers restore what was in flight themselves (ADR 0020).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.checkpoint import CheckpointOptions

NO_WATERMARK = -(2**63)
"""The event time of a channel, in ms, that had no watermark yet (Flink: ``Watermark.UNINITIALIZED``)."""
END_OF_TIME = 2**63 - 1
"""The last watermark, in ms: everything was read (Flink: ``Watermark.MAX_WATERMARK``)."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before it belongs to checkpoint ``checkpoint_id``; ``timestamp_ms`` is the JobManager's trigger time."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class CancelBarrier:
    """No barrier of this checkpoint will come on this channel."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class WatermarkEvent:
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    idle: bool


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No more records; barriers may still come, and reports of what a sink has committed. ``drain``: event time was advanced to its end."""

    drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing more at all on this channel."""


@dataclass(frozen=True, slots=True)
class BarrierAnnouncement:
    """Sent with priority: a barrier that may time out stands ``sequence`` frames behind the head of the channel."""

    barrier: Barrier
    sequence: int


@dataclass(frozen=True, slots=True)
class ChannelUnavailable:
    """The producer failed and lost what the channel was to deliver: nothing more follows, and the consumer cannot go on
    (Flink: ``ErrorResponse`` with a ``ProducerFailedException``). It goes no further than the consumer's gate."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class UserEvent:
    """An event of a user's function, as ``tidegate.wire.user_events`` encodes it: its value is made where a function listens."""

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
