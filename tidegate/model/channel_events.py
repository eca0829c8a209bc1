"""Events that travel in data channels, in order with the batches (Flink: ``EventSerializer.java``).

Batches and these events are all that a channel carries; ``tidegate.wire.frames`` gives them bytes. Of Flink's types, the end
of a superstep has no counterpart: there are no iterations, and it is refused by name.
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
    """No more records; barriers may still come. ``drain``: event time was advanced to its end."""

    drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing more at all on this channel."""


@dataclass(frozen=True, slots=True)
class EndOfChannelState:
    """All restored in-flight data of this channel has been read. Never sent here: consumers restore what was in flight
    themselves (ADR 0020); one that arrives is refused."""


@dataclass(frozen=True, slots=True)
class BarrierAnnouncement:
    """Sent with priority: a barrier that may time out stands ``sequence`` frames behind the head of the channel."""

    barrier: Barrier
    sequence: int


@dataclass(frozen=True, slots=True)
class VirtualChannelSelector:
    """The frames behind it were in flight between these two subtasks before a rescale. Never sent here, and refused, for
    the same reason as ``EndOfChannelState``."""

    producer: int
    consumer: int


@dataclass(frozen=True, slots=True)
class ChannelUnavailable:
    """The producer lost what the channel was to deliver: the consumer fails, and the JobManager restarts both."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class UserEvent:
    """An event of a type that was registered by name (``tidegate.wire.user_events``); for the head of the chain."""

    value: object


ChannelEvent = (
    Barrier
    | CancelBarrier
    | WatermarkEvent
    | WatermarkStatus
    | EndOfData
    | EndOfPartition
    | EndOfChannelState
    | BarrierAnnouncement
    | VirtualChannelSelector
    | ChannelUnavailable
    | UserEvent
)
