"""The two ends of an exchange, result partition and input gate, as the runtime uses them. Neither ever blocks; the caller runs the loop.

    ResultPartition (one for each outgoing edge)  ──subpartition i──▶  channel k of an InputGate (one for each subtask)

Frames of one channel arrive in the order in which they were sent; credit bounds the bytes in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.model.channel_events import Barrier, ChannelEvent, UserEvent, WatermarkEvent
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.exchange.counts import ReceivedFrames
from tidegate.wire.frames import EncodedBatch, OutgoingFrame

Overtaken = list[tuple[int, list[OutgoingFrame]]]
"""Frames that a barrier overtook, oldest first, with the subtask index of their consumer."""


@dataclass(frozen=True, slots=True)
class RecordingEnded:
    """Reports that a channel's data is recorded completely although no barrier came, since its partition has ended."""

    checkpoint_id: int


InFlightItem = EncodedBatch | WatermarkEvent | UserEvent
"""An item that is persisted as in-flight data of a channel."""


class ResultPartition(Protocol):
    """The producer's end of one outgoing edge, with all its subpartitions."""

    def emit(self, batch: ArrowBatch) -> None:
        """Distributes the rows of a batch to the subpartitions. Small pieces are gathered up to a size, ``flush``, or an event."""

    def broadcast(self, event: ChannelEvent) -> None:
        """Sends an event to every subpartition, after everything that was emitted before."""

    def flush(self) -> None:
        """Sends what was gathered (the runtime calls it by ``execution.buffer-timeout.interval``)."""

    @property
    def edge_id(self) -> int: ...

    @property
    def supports_unaligned(self) -> bool:
        """Whether barriers may overtake data on this edge. ``overtake``, ``announce`` and ``prioritise`` are for such edges only."""

    def overtake(self, barrier: Barrier) -> Overtaken:
        """Sends a barrier to every subpartition ahead of all queued data. Returns the data that it overtook."""

    def announce(self, barrier: Barrier) -> None:
        """Sends an aligned barrier that may become unaligned: the barrier after everything that was emitted before, and its announcement ahead of that. While
        the partition ``holds`` the barrier, ``prioritise`` may follow.
        """

    def prioritise(self, barrier: Barrier) -> Overtaken:
        """Moves an announced barrier ahead of the queued data, as ``barrier``, for each consumer to which it was not sent yet. Returns the data that it
        overtook.
        """

    def holds(self, checkpoint_id: int) -> bool: ...

    def is_available(self) -> bool:
        """Tells whether more may be emitted within the bound of bytes in flight.

        The runtime processes no input while one of its partitions is not available (backpressure). Events are always accepted.
        """

    def is_drained(self) -> bool:
        """Tells whether everything, the end of the partition included, was sent to the consumers (or they are gone)."""

    def queued_bytes(self) -> int: ...

    def queued_frames(self) -> int: ...

    def used_share(self) -> float:
        """Returns the queued bytes of the fullest subpartition as a share of its limit: 0 to 1."""

    def slice_bytes(self) -> int | None:
        """Returns the bytes that a step should emit at most while some consumer is slow or its speed is unknown; ``None``: any number."""

    @property
    def sent_frames(self) -> int:
        """The number of frames of records that were queued so far, counted once for each consumer."""

    def close(self) -> None: ...


class InputGate(Protocol):
    """The consumer's end of an exchange: all channels of all inputs of one subtask, numbered in the order of ``TaskDeployment.inputs``."""

    @property
    def channels(self) -> int: ...

    def input_of(self, channel: int) -> int:
        """Returns the index in ``TaskDeployment.inputs`` of a channel's edge."""

    def poll(self, gather_bytes: int = 0) -> tuple[int, ArrowBatch | ChannelEvent | RecordingEnded] | None:
        """Returns the next frame of a channel that is not blocked, fair among channels; ``None`` when there is none now.

        Successive batches of a channel are returned as one, up to ``gather_bytes`` together. Raises ``CorruptFrame``, or ``SubtaskLost`` when a producer's
        connection broke before its end of partition.
        """

    def poll_priority(self) -> tuple[int, ChannelEvent | RecordingEnded] | None:
        """Returns the next event that overtakes data, of any channel, blocked or not; ``None`` when there is none, which costs next to nothing. ``poll``
        returns these events first as well.
        """

    def persist(self, channel: int, checkpoint_id: int) -> None:
        """Starts recording the data of a channel that comes before the barrier of a checkpoint: what is queued already, and what will arrive.

        If the barrier is queued after data, or arrives after it, ``poll_priority`` returns the barrier without waiting for that data. If the partition ends
        without the barrier, it returns ``RecordingEnded`` instead.
        """

    def take_persisted(self, checkpoint_id: int) -> list[tuple[int, list[InFlightItem]]]:
        """Ends the recording for a checkpoint. Returns the recorded items of each channel, oldest first."""

    def block(self, channel: int) -> None:
        """Stops ``poll`` from returning data of this channel until it is unblocked. The channel still receives data, up to its credit."""

    def unblock(self, channel: int) -> None: ...

    @property
    def received(self) -> ReceivedFrames: ...

    def queued_bytes(self) -> int: ...

    def queued_frames(self) -> int: ...

    def used_share(self) -> float:
        """Returns the queued bytes of all channels as a share of what may be in flight on them: 0 to 1."""

    def close(self) -> None: ...
