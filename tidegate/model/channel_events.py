"""Events that travel in data channels, in order with the batches (Flink: ``EventSerializer.java``).

Batches and these events are all that a channel carries; ``tidegate.wire.frames`` gives them bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.checkpoint import CheckpointOptions


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
    """All restored in-flight data of this channel has been read."""


@dataclass(frozen=True, slots=True)
class BarrierAnnouncement:
    """Sent with priority: a barrier that may time out stands ``sequence`` frames behind the head of the channel."""

    barrier: Barrier
    sequence: int


ChannelEvent = (
    Barrier
    | CancelBarrier
    | WatermarkEvent
    | WatermarkStatus
    | EndOfData
    | EndOfPartition
    | EndOfChannelState
    | BarrierAnnouncement
)
