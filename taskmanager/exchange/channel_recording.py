"""Records the in-flight data of one channel for an unaligned checkpoint, at the consumer.

    already queued when the snapshot began ─┐
    came afterwards ────────────────────────┴─▶ Recording ─▶ until the barrier of the checkpoint (or what stands for it)

Laws: batches, watermarks and user events only are recorded, in their order, each once. Frames that were sent after the barrier are not recorded, even if the
barrier is before them in the queue: ``place`` (the sequence number of the barrier's frame) decides. A barrier of a newer checkpoint, the cancel barrier and the
end of the partition end a recording too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.model.channel_events import (
    Barrier,
    CancelBarrier,
    ChannelEvent,
    EndOfPartition,
    UserEvent,
    WatermarkEvent,
)
from tidegate.taskmanager.exchange.ports import InFlightItem
from tidegate.wire.frames import EncodedBatch, Frame, FrameFlags


@dataclass(frozen=True, slots=True, eq=False)
class QueuedFrame:
    """A queued BATCH or EVENT frame with its decoded event, or the schema of its batch."""

    frame: Frame
    event: ChannelEvent | None = None
    schema: pa.Schema | None = None

    @property
    def size_bytes(self) -> int:
        return self.frame.size_bytes

    @property
    def sequence(self) -> int:
        return self.frame.sequence

    @property
    def has_priority(self) -> bool:
        return bool(self.frame.flags & FrameFlags.PRIORITY)

    def is_barrier_of(self, checkpoint_id: int) -> bool:
        """Tells whether this is the barrier, or the cancel barrier, of a checkpoint."""
        return isinstance(self.event, (Barrier, CancelBarrier)) and self.event.checkpoint_id == checkpoint_id

    def continues(self, other: QueuedFrame) -> bool:
        """Tells whether both frames hold batches that may be read as one. Batches that carry Arrow dictionaries of their own may not."""
        is_stream = (self.frame.flags | other.frame.flags) & FrameFlags.STREAM
        return self.event is None and other.event is None and self.schema is other.schema and not is_stream

    def batch(self) -> EncodedBatch:
        return EncodedBatch(self.frame.payload, self.schema, bool(self.frame.flags & FrameFlags.STREAM))


@dataclass(slots=True)
class Recording:
    """The data of one channel that belongs to an unaligned checkpoint, in its order."""

    checkpoint_id: int
    items: list[InFlightItem] = field(default_factory=list)
    complete: bool = False
    """Whether the barrier has come, so that nothing is added."""

    @staticmethod
    def of(checkpoint_id: int, queue: Iterable[QueuedFrame], place: int | None) -> Recording:
        """Begins a recording with the queued frames. ``place``: sequence number of the barrier's frame, if it came already."""
        recording = Recording(checkpoint_id, complete=place is not None)
        for queued in queue:
            if place is not None and queued.sequence > place:
                break
            if ends_recording(queued.event, checkpoint_id):
                recording.complete = True
                break
            recording.add(queued)
        return recording

    def add(self, queued: QueuedFrame) -> None:
        if queued.event is None:
            self.items.append(queued.batch())
        elif isinstance(queued.event, (WatermarkEvent, UserEvent)):
            self.items.append(queued.event)


def ends_recording(event: ChannelEvent | None, checkpoint_id: int) -> bool:
    if isinstance(event, (Barrier, CancelBarrier)):
        return event.checkpoint_id >= checkpoint_id
    return isinstance(event, EndOfPartition)


def find_barrier(checkpoint_id: int, queue: Iterable[QueuedFrame]) -> QueuedFrame | None:
    """Returns the barrier, or the cancel barrier, of a checkpoint that is queued after data; ``None`` if there is none."""
    return next((queued for queued in queue if queued.is_barrier_of(checkpoint_id)), None)
